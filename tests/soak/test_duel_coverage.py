"""Coverage of the interval that decides a duel, over 2,000 simulated duels of a registered shape."""

import sys

import numpy as np
import pytest

from canaryd.stats.duel import FamilyOutcomes, weighted_gap

pytestmark = pytest.mark.soak

DUELS = 2_000
SHAPE = ((24, 0.5), (24, 0.3), (16, 0.2))


@pytest.mark.parametrize("lead", [0.0, 0.3])
def test_coverage_of_the_95_percent_interval(lead, capsys):
    """Each family has its own tie rate and its own lead around `lead`; the truth is the gap of those rates."""
    rng = np.random.default_rng(20270301 + round(100 * lead))
    covered = 0
    for _ in range(DUELS):
        families, truth = [], 0.0
        for number, (size, weight) in enumerate(SHAPE):
            tie = rng.uniform(0.1, 0.5)
            win = (1 - tie) * np.clip((1 + lead + rng.normal(0, 0.1)) / 2, 0, 1)
            truth += weight * (2 * win + tie - 1)
            outcomes = rng.choice((1, 0, -1), size=size, p=(win, tie, 1 - win - tie))
            families.append(FamilyOutcomes(str(number), weight, tuple(outcomes.tolist())))
        ci = weighted_gap(families, confidence=0.95).ci
        covered += ci is not None and ci[0] <= truth <= ci[1]
    share = covered / DUELS
    with capsys.disabled():
        error = np.sqrt(share * (1 - share) / DUELS)
        sys.stdout.write(f"\nduel interval, mean gap {lead}: coverage {100 * share:.2f} % +- {100 * error:.2f}")
    assert 0.93 <= share <= 0.97
