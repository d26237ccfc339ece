"""A comparison for a person; what a script reads is the JSON form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from canaryd.compare.build import Comparison, GroupChange
from canaryd.stats.estimate import Estimate, TooFew
from canaryd.wording import counted, estimate_status

_HEADLINES = {"changed": "CHANGED", "no_change": "NO CHANGE DETECTED", "not_judged": "COULD NOT BE JUDGED"}
_HEADROOMS = {
    "already_passed": "the baseline already passes nearly everything, so an improvement could hardly show",
    "already_failed": "the baseline already fails nearly everything, so a regression could hardly show",
}
#: Longer lists are cut here, and whole under --json.
_ROWS = 20


def as_text(comparison: Comparison, *, names: tuple[str, str]) -> str:
    """Return the comparison as lines; `names` say what was compared."""
    return "\n".join(_lines(comparison, names))


def _lines(comparison: Comparison, names: tuple[str, str]) -> Iterator[str]:
    for title, name, side in zip(("baseline", "current"), names, comparison.sides, strict=True):
        sizes = f"{counted(side.rows, 'row')}, {counted(side.items, 'item')}"
        left_out = {"sentinels": side.sentinels_excluded, "invalid": side.invalid_excluded}
        said = "".join(f", {counted(count, 'row')} left out ({why})" for why, count in left_out.items() if count)
        yield f"{title:<10}{name}   {sizes}, {counted(side.unscored, 'row')} without a score{said}"
    yield ""
    yield _headline(comparison)
    yield from _estimate(comparison)
    yield f"{'McNemar':<10}{_mcnemar(comparison)}"
    yield f"{'tokens':<10}{_tokens(comparison)}"
    if comparison.otherwise is not None:
        how = "left out" if comparison.unscored == "wrong" else "counted as wrong"
        yield f"{'unscored':<10}with rows without a score {how}: {_delta(comparison.otherwise)}"
    if comparison.headroom and comparison.headroom.state != "ok":
        yield f"{'headroom':<10}warning: {_HEADROOMS[comparison.headroom.state]}"
    yield from _groups("by target", comparison.targets)
    yield from _groups("by family", comparison.families)
    yield from _unpaired(comparison)


def _headline(comparison: Comparison) -> str:
    why = "; ".join(estimate_status(reason) for reason in comparison.reasons)
    return f"{_HEADLINES[comparison.judgement]}: {why or _delta(comparison.estimate)}"


def _delta(estimate: Estimate | TooFew) -> str:
    if estimate.delta is None:
        return "no delta"
    delta = f"delta {_points(estimate.delta)} points"
    if isinstance(estimate, TooFew):
        return f"{delta}, without a standard error ({estimate_status(estimate.reason)})"
    low, high = estimate.ci or estimate.ci_item
    interval = f"{100 * estimate.confidence:g} % CI [{_points(low)}, {_points(high)}]"
    return f"{delta}, SE {100 * estimate.se:.2f}, {interval}, {counted(estimate.items_paired, 'item')}"


def _estimate(comparison: Comparison) -> Iterator[str]:
    estimate = comparison.estimate
    if comparison.means:
        before, after = comparison.means
        unjudged = f"; {_delta(estimate)}" if comparison.reasons else ""
        yield f"{'score':<10}{100 * before:.1f} -> {100 * after:.1f} points{unjudged}"
    if isinstance(estimate, TooFew):
        return
    low, high = estimate.ci_item
    yield (
        f"{'':<10}item leg SE {100 * estimate.se_used:.2f}, [{_points(low)}, {_points(high)}], "
        f"{counted(estimate.clusters, 'cluster')}, df {estimate.df:.1f}"
    )
    if day := estimate.day:
        half = day.half_width(estimate.confidence)
        yield (
            f"{'':<10}day leg SE {100 * day.se:.2f}, [{_points(estimate.delta - half)}, "
            f"{_points(estimate.delta + half)}], {day.days_baseline} and {counted(day.days_window, 'day')}, "
            f"df {day.df:.1f}"
        )
    else:
        yield f"{'':<10}no day leg (fewer than two dates on a side): a shock that all items shared is not covered"
    if estimate.status in ("zero_variance", "sparse"):
        yield f"{'':<10}{estimate_status(estimate.status)}"
    yield f"{'':<10}minimum effect {100 * comparison.min_effect:g} points{_mde(comparison)}"


def _mde(comparison: Comparison) -> str:
    return (
        "" if comparison.mde is None else f"; smallest change likely to be detected {100 * comparison.mde:.1f} points"
    )


def _mcnemar(comparison: Comparison) -> str:
    test = comparison.mcnemar
    if test is None:
        return f"not used: {comparison.mcnemar_reason}"
    counts = f"{test.lost} lost, {test.won} won"
    if test.p_reported is None:
        return f"{counts}, p withheld: {test.reason}"
    return f"{counts}, exact p = {test.p_reported:.4g} (chi-square with continuity correction {test.chi2_cc:.4g})"


def _tokens(comparison: Comparison) -> str:
    tokens = comparison.tokens
    if tokens is None:
        return "not known on both sides"
    if tokens.change is None:
        return "0 on a side for every item, and a change is a ratio of what is above 0"
    bounds = tokens.ci or tokens.ci_item
    head = f"{100 * tokens.change:+z.1f} %"
    if bounds is None or isinstance(tokens.log_ratio, TooFew):
        return f"{head}, without an interval"
    low, high = bounds
    level = f"{100 * tokens.log_ratio.confidence:g} % CI"
    return f"{head}, {level} [{100 * low:+z.1f}, {100 * high:+z.1f}], {counted(tokens.log_ratio.items_paired, 'item')}"


def _groups(title: str, groups: Sequence[GroupChange]) -> Iterator[str]:
    if not groups:
        return
    yield ""
    yield title
    for group in sorted(groups, key=lambda one: -one.change.items)[:_ROWS]:
        p = "" if group.change.p_holm is None else f", Holm p = {group.change.p_holm:.3g}"
        means = f"{100 * group.baseline_mean:5.1f} -> {100 * group.current_mean:5.1f}"
        yield f"  {group.change.group:<20} {means}   {_delta(group.change.estimate)}{p}"
    if len(groups) > _ROWS:
        yield f"  and {len(groups) - _ROWS} more (--json)"


def _unpaired(comparison: Comparison) -> Iterator[str]:
    kinds = (
        ("only in the baseline", comparison.unpaired.baseline_only),
        ("only in the current file", comparison.unpaired.current_only),
        ("without a score on a side", comparison.unpaired.unscored),
    )
    if not len(comparison.unpaired):
        return
    yield ""
    yield f"unpaired items: {len(comparison.unpaired)}, in no estimate"
    for title, items in kinds:
        if items:
            more = f" and {len(items) - _ROWS} more (--json)" if len(items) > _ROWS else ""
            yield f"  {title} ({len(items)}): {', '.join(items[:_ROWS])}{more}"


def _points(value: float) -> str:
    return f"{100 * value:+z.1f}"
