"""Calibration of a panel: which items are sometimes right, what fresh answers say of them, and what a budget buys.

The screen selects and is then discarded: an item that was caught on an unusual day goes back to what it is, so its
screen says too much of its variance and the wrong thing of its mean. The confirmation is fresh and drops nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from canaryd.records import JsonValue
from canaryd.stats.estimate import figure
from canaryd.stats.params import MdeParams, RuleParams
from canaryd.stats.power import (
    Mde,
    Plan,
    information_of_counts,
    information_of_rates,
    plan_mde,
    predicted_mde,
)
from canaryd.stats.study_params import CalibrationParams

Screened: TypeAlias = Literal["kept", "too_easy", "too_hard", "unanswered", "unfinished"]
#: Samples of an item and day whose price is shown, and the shares of the panel they are shown for.
PER_DAY = (1, 2, 4, 8)
SHARES = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class ItemScores:
    """What a stage holds of one item: its scores, and how many samples failed for good and for now.

    `refused` are outcome failures (the model gave nothing to grade, which is final), `open` the samples that are still
    to be asked.
    """

    scores: tuple[float, ...] = ()
    refused: int = 0
    open: int = 0

    @property
    def mean(self) -> float | None:
        """The mean score, None without a score."""
        return sum(self.scores) / len(self.scores) if self.scores else None

    @property
    def information(self) -> float | None:
        """The unbiased variance of one sample, None below two samples.

        For scores of 0 and 1 it is s(n - s)/(n(n - 1)), which estimates p(1 - p) without bias.

        >>> ItemScores((1.0,) * 6 + (0.0,) * 2).information
        0.21428571428571427
        """
        n = len(self.scores)
        if n < 2:
            return None
        total, squares = sum(self.scores), sum(score * score for score in self.scores)
        return max(0.0, (n * squares - total * total) / (n * (n - 1)))


def screened(item: ItemScores, params: CalibrationParams) -> Screened:
    """Return whether the screen keeps an item, or why not.

    >>> params = CalibrationParams(screen_samples=4, keep_min=1, keep_max=3, confirm_samples=8)
    >>> [screened(ItemScores((1.0,) * right + (0.0,) * (4 - right)), params) for right in (0, 1, 3, 4)]
    ['too_hard', 'kept', 'kept', 'too_easy']
    >>> screened(ItemScores((1.0, 0.0, 1.0), refused=1), params), screened(ItemScores((1.0,), open=3), params)
    ('unanswered', 'unfinished')
    """
    if item.open:
        return "unfinished"
    if len(item.scores) < params.screen_samples:
        return "unanswered"
    total = round(sum(item.scores), 12)
    if total < params.keep_min:
        return "too_hard"
    return "too_easy" if total > params.keep_max else "kept"


@dataclass(frozen=True, slots=True)
class Regression:
    """Items of one group in the screen and in the confirmation: mean scores, and how far they went back.

    Only items with a score in both count; `screen` and `confirm` are None where there is none.
    """

    group: str
    items: int
    screen: float | None
    confirm: float | None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "group": self.group,
            "items": self.items,
            "screen": figure(self.screen),
            "confirm": figure(self.confirm),
        }


def regression(
    screen: Mapping[str, ItemScores], confirm: Mapping[str, ItemScores], *, groups: Mapping[str, str]
) -> tuple[Regression, ...]:
    """Return the regression to the mean of every group of items, by name; each item counts once.

    >>> half, most = ItemScores((1.0, 0.0)), ItemScores((1.0, 1.0, 1.0, 0.0))
    >>> (row,) = regression({"a": half}, {"a": most}, groups={"a": "sums"})
    >>> row.group, row.items, row.screen, row.confirm
    ('sums', 1, 0.5, 0.75)
    """
    pairs: dict[str, list[tuple[float, float]]] = {group: [] for group in sorted(set(groups.values()))}
    for item_id, group in groups.items():
        before = screen.get(item_id, ItemScores()).mean
        after = confirm.get(item_id, ItemScores()).mean
        if before is not None and after is not None:
            pairs[group].append((before, after))
    return tuple(
        Regression(
            group,
            len(found),
            sum(before for before, _ in found) / len(found) if found else None,
            sum(after for _, after in found) / len(found) if found else None,
        )
        for group, found in pairs.items()
    )


@dataclass(frozen=True, slots=True)
class Purchase:
    """What a budget buys: items asked `per_day` times a day, the calls of one arm, and what the rule then sees."""

    items: int
    per_day: int
    calls_per_day: int
    calls_per_window: int
    mde: Mde

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "items": self.items,
            "per_day": self.per_day,
            "calls_per_day": self.calls_per_day,
            "calls_per_window": self.calls_per_window,
            "mde": self.mde.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Design:
    """What the confirmed items can see: at the planned samples a day, and at other budgets."""

    items: int
    per_day: int
    mean_information: float
    mean_score: float
    mde: Mde
    purchases: tuple[Purchase, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "items": self.items,
            "per_day": self.per_day,
            "mean_information": figure(self.mean_information),
            "mean_score": figure(self.mean_score),
            "mde": self.mde.to_json(),
            "purchases": [purchase.to_json() for purchase in self.purchases],
        }


def design(
    confirm: Sequence[ItemScores], *, rule: RuleParams, per_day: int = 1, day_correlation: float = 0.0
) -> Design | None:
    """Return what items see that were confirmed on fresh samples; None when none has two scores.

    The information of an item is its unbiased sample variance; items are taken at one equal rate, which is within a
    fifth of the best allocation. Samples of one item on one day that look alike (`day_correlation`) are worth less.
    """
    known = [(item.information, item.mean) for item in confirm]
    information = [each for each, _ in known if each is not None]
    means = [mean for each, mean in known if each is not None and mean is not None]
    if not information:
        return None
    mean_information = sum(information) / len(information)
    worth = per_day / (1 + (per_day - 1) * day_correlation)
    mde = predicted_mde(
        information,
        samples_baseline=worth * rule.baseline_days,
        samples_window=worth * rule.window_days,
        params=rule.mde,
    )
    counts = sorted({max(1, round(share * len(information))) for share in SHARES})
    purchases = tuple(
        Purchase(items, rate, items * rate, items * rate * rule.window_days, mde=bought)
        for items in counts
        for rate in PER_DAY
        for bought in (_bought(items, rate, information=mean_information, rule=rule, correlation=day_correlation),)
    )
    return Design(len(information), per_day, mean_information, sum(means) / len(means), mde, purchases)


def _bought(items: int, rate: int, *, information: float, rule: RuleParams, correlation: float) -> Mde:
    plan = Plan(items, rate, rule.baseline_days, rule.window_days)
    return plan_mde(plan, mean_information=information, params=rule.mde, day_correlation=correlation)


@dataclass(frozen=True, slots=True)
class InformationEstimates:
    """The MDE of the same counts under three estimates of p(1 - p); only the unbiased one is used.

    `shrunk` takes the means of Beta(1, 1) posteriors, `plug_in` the raw shares. Both are biased: shrinking pulls every
    rate towards 1/2 and so makes the variance too large, the plug-in makes it too small, by (n - 1)/n.
    """

    unbiased: Mde
    plug_in: Mde
    shrunk: Mde

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "unbiased": self.unbiased.to_json(),
            "plug_in": self.plug_in.to_json(),
            "shrunk": self.shrunk.to_json(),
        }


def information_estimates(
    counts: Sequence[tuple[int, int]], *, samples_baseline: int, samples_window: int, params: MdeParams
) -> InformationEstimates:
    """Return the MDE of items with (passes, samples) under the three estimates, `samples_*` per item and period.

    Raises:
        ValueError: there is no item, or an item has fewer than two samples or more passes than samples.

    >>> params = MdeParams(z_confidence=2.576, z_power=0.842, two_window_factor=1.24)
    >>> found = information_estimates([(6, 8)] * 10, samples_baseline=10, samples_window=10, params=params)
    >>> [round(100 * mde.one_window, 2) for mde in (found.unbiased, found.plug_in, found.shrunk)]
    [22.38, 20.93, 22.15]
    """

    def mde(information: Sequence[float]) -> Mde:
        return predicted_mde(
            information, samples_baseline=samples_baseline, samples_window=samples_window, params=params
        )

    return InformationEstimates(
        unbiased=mde([information_of_counts(passes, n) for passes, n in counts]),
        plug_in=mde(information_of_rates([passes / n for passes, n in counts])),
        shrunk=mde(information_of_rates([(passes + 1) / (n + 2) for passes, n in counts])),
    )
