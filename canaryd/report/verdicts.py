"""The verdict in a report: all windows in one table, the latest clause by clause, and what is printed beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from canaryd.records import Verdict
from canaryd.report import words
from canaryd.report.build import ArmCurve, SeriesReport, WindowPoint, window_label
from canaryd.report.document import Fold, Part, Picture, Section, Table, Text
from canaryd.report.plots import draw_deltas, draw_scores, draw_tokens, picture
from canaryd.wording import change, days_set_aside, spoken


def verdict_section(report: SeriesReport) -> Section:
    """Return every decided window, and the argument of the latest one with each clause's figure and limit."""
    if not report.verdicts:
        return Section("Verdict", [Text("No window is decided yet.")])
    latest = report.verdicts[-1].verdict
    clauses: Mapping[str, Any] = latest.clauses
    tracked = report.arms[0].arm
    parts: list[Part] = [_all_windows(report)]
    if latest.reasons:
        parts.append(Text(f"Window {latest.window_index} is not evaluable: {', '.join(latest.reasons)}."))
    now, *before = _windows(words.arm(tracked, "tracked"), clauses)
    parts += [now, *(Fold(f"The window before it, as a change needs two: {one.caption}", [one]) for one in before)]
    if clauses["attribution"]:
        parts.append(_attribution(clauses["attribution"]))
    for control, states in clauses["controls"].items():
        name = words.arm(control, "control")
        parts.append(Fold(f"The same clauses of {name}", list(_windows(name, states))))
    return Section("Verdict", parts)


def _all_windows(report: SeriesReport) -> Table:
    rows = []
    for stored in report.verdicts:
        verdict = stored.verdict
        clauses: Mapping[str, Any] = verdict.clauses
        estimate = clauses["window"]["estimate"]
        rows.append(
            (
                window_label(verdict),
                f"{clauses['first']} to {clauses['last']}",
                f"{spoken(verdict.kind)}{_alone(verdict)}",
                change(verdict.direction, verdict.attribution) or "-",
                words.signed(estimate["delta"]),
                words.bounds(estimate.get("ci")),
                words.points(clauses["mde"]["two_windows"] if clauses["mde"] else None),
            )
        )
    head = ("window", "days", "verdict", "which change", "delta, points", report.interval, "MDE of the rule")
    return Table("Every decided window of the tracked arm against the baseline", head, rows)


def _alone(verdict: Verdict) -> str:
    """Say of a window without a change that it is a hit by itself: a change takes two in a row to the same side."""
    state = cast("Mapping[str, Any]", verdict.clauses)["window"]["state"]
    return " (a hit alone)" if verdict.kind != "change" and state in ("hit_down", "hit_up") else ""


def _windows(whose: str, clauses: Mapping[str, Any]) -> Iterator[Table]:
    """Return the clauses of the latest window and of the one before it."""
    for which in ("window", "previous"):
        if clauses[which]:
            state = clauses[which]
            rows = [words.clause_row(clause) for clause in (*state["evaluable"], *state["hit"])]
            caption = f"{whose}, window {state['index']}: {spoken(state['state'])}"
            yield Table(caption, ("clause", "outcome", "figure", "limit"), rows)


def _attribution(stored: Mapping[str, Any]) -> Table:
    rows = []
    for control, found in stored["controls"].items():
        if stored["rule"] == "pooled_difference":
            legs = [
                ("tracked minus control, both windows pooled", "difference", "difference_excludes_0"),
                (f"{control} alone, both windows pooled", "control_pooled", "control_excludes_0"),
            ]
        else:
            legs = [(f"{control}, {which} window", which, f"{which}_moved_alike") for which in ("previous", "current")]
        for label, estimate, excludes in legs:
            figures = found[estimate]
            answer = "on the side of the change" if found[excludes] else "not beyond chance on that side"
            rows.append((label, words.signed(figures["delta"]), words.points(figures.get("se_used")), answer))
    caption = f"Attribution: {stored['call']}"
    return Table(caption, ("comparison", "delta, points", "standard error", "answer"), rows)


def curves_section(report: SeriesReport) -> Section:
    """Return the plots over time, each with its figures."""
    names = "; ".join(f"{words.arm(arm.arm, arm.role)}: {arm.model}" for arm in report.arms)
    return Section(
        "Over time",
        [
            Text(
                f"{names}. Tracked round, control square. Each band is the {report.interval}, the wider of item leg "
                "and day leg; dotted lines are days on which something became known."
            ),
            Picture(
                "deltas",
                "Change of the score against the baseline, each item with itself (points); dashed: the minimum effect",
                picture(lambda axes: draw_deltas(axes, report)),
                _points_table("Delta by window, points", report.arms, part="delta"),
            ),
            Picture(
                "scores",
                "Mean score of each day (points)",
                picture(lambda axes: draw_scores(axes, report)),
                _daily_table(report.arms),
            ),
            Picture(
                "tokens",
                "Output tokens against the baseline (percent)",
                picture(lambda axes: draw_tokens(axes, report)),
                _points_table("Relative change of output tokens by window, %", report.arms, part="tokens"),
            ),
        ],
    )


def _points_table(caption: str, arms: Sequence[ArmCurve], *, part: str) -> Table:
    def cell(point: WindowPoint | None) -> str:
        interval = getattr(point, part) if point else None
        if interval is None:
            return words.UNKNOWN
        within = words.bounds(None if interval.lower is None else (interval.lower, interval.upper))
        return f"{words.signed(interval.value)} {within}"

    by_arm = [{point.label: point for point in arm.windows} for arm in arms]
    windows = dict.fromkeys(label for points in by_arm for label in points)
    rows = [(label, *(cell(points.get(label)) for points in by_arm)) for label in windows]
    return Table(caption, ("window", *(arm.arm for arm in arms)), rows)


def _daily_table(arms: Sequence[ArmCurve]) -> Table:
    by_arm = [dict(arm.daily) for arm in arms]
    rows = [
        (day.isoformat(), *(words.points(daily.get(day)) for daily in by_arm)) for day in sorted(set().union(*by_arm))
    ]
    return Table("Mean score by day, points", ("day", *(arm.arm for arm in arms)), rows)


def beside_section(report: SeriesReport) -> Section:
    """Return what is printed beside the latest verdict and decides nothing: tokens, outcome failures, headroom."""
    if not report.verdicts:
        return Section("Beside the verdict", [Text("No window is decided yet.")])
    clauses: Mapping[str, Any] = report.verdicts[-1].verdict.clauses
    tokens, outcomes, counted, targets = [], [], [], []
    for arm in (curve.arm for curve in report.arms if curve.arm in clauses["arms"]):
        beside = clauses["arms"][arm]
        used, room = beside["tokens"], beside["headroom"]
        tokens.append(
            (
                arm,
                spoken(used["state"]),
                words.signed(used["change"]),
                words.bounds(used["ci"]),
                str(used["log_ratio"]["items_paired"]),
                f"{spoken(room['state'])}, {words.points(room['mean'])}" if room else words.UNKNOWN,
            )
        )
        if wrong := beside["counted_as_wrong"]:
            counted.append((arm, *words.stored_cells(wrong)))
        targets.append(
            (
                arm,
                ", ".join(beside["resolved"]["models"]) or "not reported",
                "; ".join(beside["configuration"]["deltas"]) or "none",
                ", ".join(beside["configuration"]["unknown"]) or "none",
            )
        )
        aside = days_set_aside(*report.set_aside_days.get(arm, (0, 0)))
        outcomes += [
            (
                f"{arm}: {test['kind']}",
                f"{test['failed_baseline']} of {beside['outcomes']['answered_baseline']}",
                f"{test['failed_window']} of {beside['outcomes']['answered_window']}",
                words.p_value(test["p"]),
                "; ".join(filter(None, ("moved" if test["moved"] else "ok", aside))),
            )
            for test in beside["outcomes"]["tests"]
        ]
    head: Sequence[str] = ("arm", "tokens", "change, %", report.interval, "items", "headroom, baseline mean in points")
    parts: list[Part] = [Table("Output tokens and headroom in the latest window", head, tokens)]
    if counted:
        caption = (
            "Sensitivity: the delta with refused, filtered, truncated, empty and malformed answers counted as wrong"
        )
        parts.append(Table(caption, ("arm", "delta, points", report.interval, "status"), counted))
    head = ("arm", "models that answered", "configuration that changed", "cannot be compared")
    parts.append(Fold("What answered", [Table("What answered, and what was recorded of it", head, targets)]))
    parts += _left_out(report)
    head = ("arm: kind", "in the baseline", "in the window", "exact p", "state")
    parts.append(Fold("Answers without a measurement", [Table("Outcome failures by kind", head, outcomes)]))
    parts += _across_epochs(report, clauses)
    return Section("Beside the verdict", parts)


def _left_out(report: SeriesReport) -> Iterator[Text]:
    """Say of each arm how many days are in no figure here, of refusals and the like either."""
    for arm, days in report.set_aside_days.items():
        if aside := days_set_aside(*days):
            yield Text(f"{arm}: {aside}, left out of every estimate and every rate.")


def with_invalid_section(report: SeriesReport) -> Section | None:
    """Return what the rule would have said with what was set aside counted; None where nobody asked for it."""
    if report.with_invalid is None:
        return None
    mark = "None of this is a verdict: it was computed for this page alone, nothing of it is stored or declared."
    counted = {(one.epoch, one.window): one for one in report.with_invalid}
    rows = [
        (
            window_label(verdict),
            spoken(verdict.kind),
            ": ".join(filter(None, (spoken(one.verdict), ", ".join(map(spoken, one.reasons))))),
            change(one.direction, one.attribution) or "-",
            words.signed(one.delta),
            words.bounds(None if one.ci_lower is None else (one.ci_lower, one.ci_upper)),
            words.counts(one.invalid),
        )
        for verdict in (stored.verdict for stored in report.verdicts)
        if (one := counted.get((verdict.epoch, verdict.window_index))) is not None and one.verdict is not None
    ]
    head = ("window", "the verdict", "would be", "which change", "delta, points", report.interval, "invalid samples")
    found = Table("What the rule would have said, which is no verdict", head, rows)
    nothing = Text("No decided window rests on an invalid sample, so nothing would be otherwise.")
    return Section("With invalid samples counted: no verdicts", [Text(mark), found if rows else nothing])


def _across_epochs(report: SeriesReport, clauses: Mapping[str, Any]) -> Iterator[Table]:
    """Return the comparison with the baselines of earlier epochs: described, never declared."""
    for earlier in clauses["across_epochs"]:
        rows = [(arm, *words.stored_cells(found)) for arm, found in earlier["arms"].items()]
        caption = f"Against the baseline of epoch {earlier['epoch']} ({earlier['first']} to {earlier['last']})"
        yield Table(f"{caption}: described, never declared", ("arm", "delta, points", report.interval, "status"), rows)
