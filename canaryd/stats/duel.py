"""The gap between two substrates: stratified by family, the question as the unit, with the interval that decides."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from canaryd.records import JsonValue
from canaryd.stats.estimate import ZERO_SE, figure, t_critical

GapStatus: TypeAlias = Literal["ok", "empty_family", "family_of_one", "zero_variance"]


@dataclass(frozen=True, slots=True)
class FamilyOutcomes:
    """The questions of one family: +1 where a won, -1 where b did, 0 for a tie; weights are normalised."""

    name: str
    weight: float
    outcomes: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class WeightedGap:
    """Sum over families of weight times mean outcome, a fraction; what is not known is None, and `status` says why."""

    status: GapStatus
    gap: float | None
    se: float | None
    df: float | None
    confidence: float

    @property
    def ci(self) -> tuple[float, float] | None:
        """The interval that decides."""
        if self.gap is None or self.se is None or self.df is None:
            return None
        half = t_critical(self.confidence, self.df) * self.se
        return self.gap - half, self.gap + half

    @property
    def excludes_zero(self) -> bool:
        """Whether there is an interval, and 0 lies outside of it."""
        ci = self.ci
        return ci is not None and (ci[0] > 0 or ci[1] < 0)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "status": self.status,
            "gap": figure(self.gap),
            "se": figure(self.se),
            "df": figure(self.df),
            "confidence": self.confidence,
            "ci": _bounds(self.ci),
        }


@dataclass(frozen=True, slots=True)
class BootstrapGap:
    """The picture beside the interval: percentiles and standard error of `draws` gaps, and where chance came from."""

    se: float
    low: float
    high: float
    draws: int
    seed: int
    generator: str

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON; the seed is a text, because it can exceed what a JSON number holds exactly."""
        return {
            "se": figure(self.se),
            "ci": _bounds((self.low, self.high)),
            "draws": self.draws,
            "seed": str(self.seed),
            "generator": self.generator,
        }


def weighted_gap(families: Sequence[FamilyOutcomes], *, confidence: float) -> WeightedGap:
    """Return the weighted gap with the stratified interval.

        gap = sum_f w_f mean_f
        Var = sum_f w_f^2 s2_f / n_f
        df  = Var^2 / sum_f ( (w_f^2 s2_f / n_f)^2 / (n_f - 1) )

    with s2_f the sample variance of the n_f outcomes of family f (Cochran 1977, Sampling Techniques, eq. 5.16;
    Satterthwaite 1946, eq. 17). A family of one has no variance, so there is no interval.

    Raises:
        ValueError: there is no family, or the weights do not add up to more than 0.

    >>> two = [FamilyOutcomes("x", 1, (1, 0, -1, 1)), FamilyOutcomes("y", 1, (1, 1, 0, 1))]
    >>> gap = weighted_gap(two, confidence=0.95)
    >>> gap.gap, round(gap.se, 6), round(gap.df, 6)
    (0.5, 0.270031, 4.523077)
    """
    weights = _weights(families)
    if any(not family.outcomes for family in families):
        return WeightedGap("empty_family", None, None, None, confidence)
    gap = float(sum(w * np.mean(family.outcomes) for w, family in zip(weights, families, strict=True)))
    if any(len(family.outcomes) == 1 for family in families):
        return WeightedGap("family_of_one", gap, None, None, confidence)
    sizes = np.array([len(family.outcomes) for family in families], dtype=np.float64)
    spread = np.array([np.var(family.outcomes, ddof=1) for family in families], dtype=np.float64)
    parts = weights**2 * spread / sizes
    se = float(np.sqrt(np.sum(parts)))
    if se < ZERO_SE:
        return WeightedGap("zero_variance", gap, 0.0, None, confidence)
    df = float(np.sum(parts) ** 2 / np.sum(parts**2 / (sizes - 1)))
    return WeightedGap("ok", gap, se, df, confidence)


def bootstrap_gap(
    families: Sequence[FamilyOutcomes], *, confidence: float, draws: int, seed: int
) -> BootstrapGap | None:
    """Return the bootstrap within families, n_f - 1 draws from each, or None where a family has fewer than two.

    With n_f - 1 draws the bootstrap variance of a family's mean is s2_f / n_f itself (Rao and Wu 1988, section 2);
    with n_f draws it would be too small by (n_f - 1) / n_f.

    >>> picture = bootstrap_gap([FamilyOutcomes("x", 1, (1, 0, -1, 1))], confidence=0.95, draws=10_000, seed=7)
    >>> round(picture.se, 2)
    0.48
    """
    if any(len(family.outcomes) < 2 for family in families):
        return None
    rng = np.random.Generator(np.random.PCG64(seed))
    gaps = np.zeros(draws)
    for weight, family in zip(_weights(families), families, strict=True):
        outcomes = np.asarray(family.outcomes, dtype=np.float64)
        size = len(outcomes)
        gaps += weight * outcomes[rng.integers(0, size, (draws, size - 1))].mean(axis=1)
    low, high = np.quantile(gaps, [(1 - confidence) / 2, (1 + confidence) / 2])
    generator = f"numpy {np.__version__} PCG64"
    return BootstrapGap(float(np.std(gaps, ddof=1)), float(low), float(high), draws, seed, generator)


def duel_seed(run_ids: Iterable[str]) -> int:
    """Return the seed of a duel's bootstrap: the first 8 bytes of SHA-256("duel|" + sorted run ids with commas).

    >>> duel_seed(["b", "a"]) == duel_seed(["a", "b"]), duel_seed(["a"])
    (True, 950808853093650150)
    """
    return int.from_bytes(hashlib.sha256(f"duel|{','.join(sorted(run_ids))}".encode()).digest()[:8])


def wilson_interval(rate: float, n: int, *, confidence: float) -> tuple[float, float]:
    """Return Wilson's score interval of a rate over `n` independent units.

        ( p + z^2/2n +- z sqrt( p(1-p)/n + z^2/4n^2 ) ) / ( 1 + z^2/n )

    (Wilson 1927). The units here are questions: the two orders of one question are not independent.

    Raises:
        ValueError: there is no unit.

    >>> [round(bound, 4) for bound in wilson_interval(0.5, 20, confidence=0.95)]
    [0.2993, 0.7007]
    """
    if n < 1:
        raise ValueError("a rate over no unit has no interval")
    from scipy.special import ndtri

    z = float(ndtri((1 + confidence) / 2))
    centre = rate + z**2 / (2 * n)
    half = z * float(np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2)))
    scale = 1 + z**2 / n
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def cohens_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return the chance-corrected agreement of two judges, or None where chance alone agrees always.

        kappa = (p_o - p_e) / (1 - p_e)

    with p_o the share of equal pairs and p_e the share that their marginals alone would give (Cohen 1960, eq. 1).

    >>> cohens_kappa([("a", "a"), ("a", "b"), ("b", "b"), ("b", "b")])
    0.5
    >>> cohens_kappa([("a", "a")]) is None
    True
    """
    if not pairs:
        return None
    n = len(pairs)
    observed = sum(first == second for first, second in pairs) / n
    labels = {label for pair in pairs for label in pair}
    firsts, seconds = [first for first, _ in pairs], [second for _, second in pairs]
    expected = sum(firsts.count(label) * seconds.count(label) for label in labels) / n**2
    return None if expected == 1 else (observed - expected) / (1 - expected)


def _weights(families: Sequence[FamilyOutcomes]) -> npt.NDArray[np.float64]:
    weights = np.array([family.weight for family in families], dtype=np.float64)
    if not len(weights) or not np.sum(weights) > 0 or np.min(weights) < 0:
        raise ValueError("the weights of the families must not be negative and must add up to more than 0")
    return weights / np.sum(weights)


def _bounds(bounds: tuple[float, float] | None) -> list[JsonValue] | None:
    return None if bounds is None else [figure(bounds[0]), figure(bounds[1])]
