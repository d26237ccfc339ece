"""What a report says of its own limits, and where every sample went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from canaryd.report import words
from canaryd.report.build import Decided, SeriesReport
from canaryd.report.document import Bullets, Fold, Part, Picture, Section, Table, Text
from canaryd.report.plots import draw_false_alarms, draw_power, picture
from canaryd.stats.binomial import upper_limit
from canaryd.wording import dated

_KNOWN_LIMITS = (
    "An unlucky baseline is part of every later delta: a false alarm persists from window to window.",
    "Disturbances that last longer than a day are covered by the difference stream of the early warning alone.",
    "A swap between models of one family can stay below the minimum detectable effect.",
    "What the panel does not ask cannot be seen; attribution names what moved together, not a cause.",
)


def limits_section(report: SeriesReport) -> Section:
    """Return the minimum detectable effect, the simulated operating characteristics and the known limits."""
    parts: list[Part] = []
    mde = cast("Mapping[str, Any] | None", report.verdicts[-1].verdict.clauses["mde"]) if report.verdicts else None
    if mde:
        rows = [
            ("standard error of a delta", words.points(mde["se"])),
            ("one interval alone", words.points(mde["one_window"])),
            ("the rule (two windows, both legs)", words.points(mde["two_windows"])),
            ("registered target", words.points(report.prereg.target_mde)),
        ]
        caption = (
            f"Smallest change that is detected in 80 % of cases, from the baseline's variance of {mde['items']} items"
        )
        parts.append(Table(caption, ("of what", "points"), rows))
    parts += [Bullets(_KNOWN_LIMITS), Fold("Threats, as registered", [Bullets(report.prereg.statement.threats)])]
    simulation = report.series.simulation
    if isinstance(simulation, dict):
        parts += _characteristics(simulation)
    return Section("How small a change it can see, and its limits", parts)


def _characteristics(answer: Mapping[str, Any]) -> Iterator[Part]:
    yield Text(
        f"Operating characteristics, simulated at registration on this panel ({answer['items']} items, pass rates "
        f"{answer['rates']}, seed {answer['seed']}) before there were data:"
    )
    alarms = answer["false_alarms"]
    days = sorted(alarms[0]["rule"], key=int)
    rows = [(f"{100 * row['shock']['sd']:g}", *(_share(row["rule"][each]) for each in days)) for row in alarms]
    head = ("day shock, points", *(f"within {each} days" for each in days))
    yield Picture(
        "false-alarms",
        "False declarations although nothing changes (% of series)",
        picture(lambda axes: draw_false_alarms(axes, answer)),
        Table("False declarations, % of series (exact 95 % upper limit)", head, rows),
    )
    changes = answer["detections"]
    if changes:
        within = sorted(changes[0]["rule"]["within"], key=int)
        rows = [
            (
                f"{100 * row['drop']:g}, {row['truth']}",
                *(f"{100 * row['rule']['within'][each]['share']:.0f}" for each in within),
                "not reached" if row["rule"]["median"] is None else f"{row['rule']['median']:.0f}",
            )
            for row in changes
        ]
        head = ("fall in points, whose", *(f"within {each} days" for each in within), "median delay, days")
        yield Picture(
            "power",
            "Changes of the model that are declared (% of series)",
            picture(lambda axes: draw_power(axes, answer)),
            Table("Declared changes, % of series", head, rows),
        )


def _share(simulated: Mapping[str, Any]) -> str:
    limit = upper_limit(simulated["share"], simulated["series"])
    return f"{100 * simulated['share']:.2f} ({100 * limit:.2f})"


def people_section(report: SeriesReport) -> Section:
    """Return what people decided about the series after registration, and what was noticed about its arms."""
    decided = [_decided(one) for one in report.deviations]
    aside = [(f"{one.slot_date}", one.arm, one.reason, f"{one.at:%Y-%m-%d %H:%MZ}") for one in report.set_aside]
    noticed = dated((event.day, event.sentence) for event in report.coincidences)
    parts: list[Part] = [
        Table("Deviations", ("first slot", "kind", "reason", "noted", "git commit", "ledger entry"), decided)
        if decided
        else Text("No deviation from the registration is noted."),
        Table("Slots that a person set aside", ("slot", "arm", "reason", "noted"), aside)
        if aside
        else Text("No slot was set aside by a person."),
        Text("Coincidences, which decide nothing:"),
        Bullets(noticed or ["nothing was noticed about the arms"]),
    ]
    if report.format_moves:
        parts += [Text("The stored replies, graded again:"), Bullets(list(report.format_moves))]
    return Section("Deviations and coincidences", parts)


def _decided(one: Decided) -> tuple[str, ...]:
    note = one.deviation
    commit = str(note.detail.get("git_commit", "none"))
    at = f"{note.at:%Y-%m-%d %H:%MZ}"
    return note.slot_date.isoformat(), note.kind, note.reason, at, commit, one.digest


def accounting_section(report: SeriesReport) -> Section:
    """Return where every sample of every arm went."""
    rows = [
        (
            one.arm,
            str(one.owed),
            str(one.scored),
            words.counts(one.failures),
            words.counts(one.invalid),
            str(one.missing),
            str(one.superseded),
        )
        for one in report.accounts
    ]
    head = ("arm", "owed", "scored", "failed", "set aside", "never measured", "asked again")
    runs = [(one.arm, str(one.slots), words.counts(one.runs)) for one in report.accounts]
    return Section(
        "Every sample accounted for",
        [
            Text(
                "Owed = scored + failed + set aside + never measured, sentinels among them. A sample that a later "
                "attempt asked again counts once; the earlier one stays in the store."
            ),
            Table("Samples by arm", head, rows),
            Table("Runs by arm", ("arm", "slots", "runs by outcome"), runs),
        ],
    )


def _document(report: SeriesReport) -> Iterator[tuple[str, str]]:
    if report.document is not None:
        yield "its document for people", report.document.digest
        yield "git commit", report.document.git_commit or "none, the project was in no work tree"


def registration_section(report: SeriesReport) -> Section:
    """Return what was registered before the first sample, and the head of the ledger."""
    series, statement = report.series, report.prereg.statement
    rows = [
        ("registered", f"{series.registered_at:%Y-%m-%d %H:%MZ}"),
        ("day 1", series.start_date.isoformat()),
        ("registration", series.registration_digest),
        *_document(report),
        ("panel", series.panel_digest),
        ("mode", report.prereg.rule.mode),
        ("baseline and windows", f"{report.prereg.rule.baseline_days} and {report.prereg.rule.window_days} days"),
    ]
    if series.imported_at:
        rows.append(("imported", f"{series.imported_at:%Y-%m-%d %H:%MZ}; not measured here"))
    if report.ledger:
        rows.append(("ledger", f"{report.ledger.entries} entries, head {report.ledger.digest}"))
    return Section(
        "What was registered",
        [
            Table("Registration", ("what", "value"), rows),
            Fold("Exclusions", [Bullets(statement.exclusions)]),
            Fold("Secondary analyses", [Bullets(statement.secondary_analyses)]),
            Text(statement.publication),
        ],
    )
