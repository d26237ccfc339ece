import json
import math

import pytest
from statsmodels.stats.contingency_tables import mcnemar as reference

from canaryd.stats.mcnemar import mcnemar


@pytest.mark.parametrize(("lost", "won"), [(0, 12), (3, 17), (30, 45), (477, 139)])
def test_equals_statsmodels(lost, won):
    test = mcnemar(lost, won, min_discordant=10)
    table = [[0, lost], [won, 0]]
    corrected = reference(table, exact=False, correction=True)
    assert test.p_exact == pytest.approx(reference(table, exact=True).pvalue, rel=1e-9, abs=1e-300)
    assert test.chi2_cc == pytest.approx(corrected.statistic)
    assert test.p_chi2_cc == pytest.approx(corrected.pvalue, rel=1e-9)


def test_no_discordant_pair_says_nothing():
    test = mcnemar(0, 0, min_discordant=10)
    assert (test.chi2_cc, test.p_chi2_cc, test.p_exact, test.p_reported) == (None, None, 1.0, None)
    assert json.dumps(test.to_json(), allow_nan=False)


def test_p_is_withheld_by_the_given_number_of_pairs_and_the_counts_are_not():
    few, enough = mcnemar(9, 0, min_discordant=10), mcnemar(10, 0, min_discordant=10)
    assert (few.p_reported, few.reason, few.discordant) == (None, "fewer than 10 discordant pairs", 9)
    assert enough.p_reported == pytest.approx(2 / 2**10)
    assert enough.reason is None


@pytest.mark.parametrize("pairs", range(1, 40))
def test_the_exact_p_never_exceeds_its_nominal_size(pairs):
    probability = [math.comb(pairs, k) / 2**pairs for k in range(pairs + 1)]
    for nominal in (0.05, 0.01):
        size = sum(p for k, p in enumerate(probability) if mcnemar(k, pairs - k, min_discordant=0).p_exact <= nominal)
        assert size <= nominal


def test_negative_counts_are_refused():
    with pytest.raises(ValueError, match="not counts"):
        mcnemar(-1, 3, min_discordant=10)
