"""Where and when a change sits, from the raw samples: families, target labels, items, change dates. Exploratory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from canaryd.analysis import Evidence, load_subjects
from canaryd.records import JsonValue, Verdict
from canaryd.stats.cells import Cells
from canaryd.stats.early_warning import ChangeDates, change_dates
from canaryd.stats.estimate import Estimate, TooFew
from canaryd.stats.localise import GroupDelta, ItemChange, group_deltas, item_changes, shared_targets
from canaryd.stats.paired import paired_delta
from canaryd.store import read
from canaryd.store.rows import StoredVerdict


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What is known of the place and time of a change of the tracked arm.

    `windows` are held against the baseline: the two that declared the latest change, pooled, or else the latest one.
    Items and dates are empty unless a change was declared; `since` are the deltas of the windows after the first
    declared change against the two windows that declared it.
    """

    windows: tuple[int, ...]
    declared: bool
    families: tuple[GroupDelta, ...]
    targets: tuple[GroupDelta, ...]
    items_tested: int
    items: tuple[ItemChange, ...]
    dates: Mapping[str, ChangeDates]
    since: tuple[tuple[int, Estimate | TooFew], ...]


def read_where(connection: Connection, series: str, *, verdicts: Sequence[StoredVerdict]) -> Whereabouts | None:
    """Return where the latest change sits, or what the latest window says where none was declared; None before one."""
    if not verdicts:
        return None
    epoch = verdicts[-1].verdict.epoch
    subject = next(one for one in load_subjects(connection, series) if one.epoch.number == epoch)
    evidence = Evidence(connection, subject)
    current = [one.verdict for one in verdicts if one.verdict.epoch == epoch]
    changes = [verdict.window_index for verdict in current if verdict.kind == "change"]
    last = changes[-1] if changes else current[-1].window_index
    windows = (last - 1, last) if changes else (last,)
    baseline, here = _cells(evidence, [0]), _cells(evidence, windows)
    families, targets = _groups(connection, evidence)
    items = item_changes(baseline, here, q=subject.prereg.localisation_q) if changes else ()

    def deltas(groups: Mapping[str, str]) -> tuple[GroupDelta, ...]:
        clusters, params = subject.panel.clusters, subject.prereg.rule.estimate
        return group_deltas(baseline, here, groups=groups, clusters=clusters, params=params)

    return Whereabouts(
        windows=windows,
        declared=bool(changes),
        families=deltas(families),
        targets=deltas(targets),
        items_tested=len(items),
        items=tuple(change for change in items if change.listed),
        dates=_dates(evidence, last=last) if changes else {},
        since=_since(evidence, current, declared=changes[0]) if changes else (),
    )


def _cells(evidence: Evidence, windows: Sequence[int]) -> Cells:
    tracked, *others = (evidence.cells(evidence.span(evidence.subject.tracked, index)) for index in windows)
    for cells in others:
        tracked = tracked.plus(cells)
    return tracked


def _groups(connection: Connection, evidence: Evidence) -> tuple[dict[str, str], dict[str, str]]:
    """Return item -> family and item -> target label, for the labels that several items share."""
    panel = read.panel_items(connection, evidence.subject.series.panel_digest)
    measured = set(evidence.subject.item_ids)
    items = [item for item in panel if item.item_id in measured]
    labels: dict[str, JsonValue] = {item.item_id: item.target_label for item in items if item.target_label is not None}
    return {item.item_id: item.family for item in items if item.family is not None}, shared_targets(labels)


def _dates(evidence: Evidence, *, last: int) -> dict[str, ChangeDates]:
    """Return by stream when the change began, from all days up to the end of the window that declared it."""
    subject = evidence.subject
    params, until = subject.prereg.early_warning, subject.grid.window(last).last
    found: dict[str, ChangeDates] = {}
    for stream in params.streams:
        table = evidence.day_table(stream, first=subject.epoch.first_date, last=until)
        dates = table and change_dates(table, series=subject.series.name, stream=stream, params=params)
        if dates:
            found[stream] = dates
    return found


def _since(
    evidence: Evidence, verdicts: Sequence[Verdict], *, declared: int
) -> tuple[tuple[int, Estimate | TooFew], ...]:
    subject = evidence.subject
    reference = _cells(evidence, (declared - 1, declared))
    return tuple(
        (
            verdict.window_index,
            paired_delta(
                reference,
                _cells(evidence, [verdict.window_index]),
                clusters=subject.panel.clusters,
                params=subject.prereg.rule.estimate,
            ),
        )
        for verdict in verdicts
        if verdict.window_index > declared
    )
