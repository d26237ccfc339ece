"""The verdict as an exit code: 0 no change, 1 changed, 2 could not be judged."""

from __future__ import annotations

from dataclasses import dataclass

from canaryd.records import JsonValue
from canaryd.status.judge import judge_banner
from canaryd.status.model import SCHEMA_VERSION, SeriesStatus, Status
from canaryd.status.text import acknowledged_sentence, sentence_of, sentinel_sentences

NO_CHANGE, CHANGED, NOT_JUDGED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class SeriesCheck:
    """One series: its code, why in one word, and the sentence for a person."""

    series: str
    exit_code: int
    reason: str
    verdict: str
    direction: str | None
    attribution: str | None
    sentinels_moved: tuple[str, ...]
    sentence: str

    def to_json(self) -> dict[str, JsonValue]:
        """Return the check of one series as JSON."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "sentinels_moved": list(self.sentinels_moved)}


@dataclass(frozen=True, slots=True)
class Check:
    """Every series, the one that decides the exit code first: a change before what could not be judged."""

    series: tuple[SeriesCheck, ...]

    @property
    def exit_code(self) -> int:
        """The code of the deciding series."""
        return self.series[0].exit_code

    def to_json(self) -> dict[str, JsonValue]:
        """Return the deciding series' check with every series beside it as JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            **self.series[0].to_json(),
            "all": [series.to_json() for series in self.series],
        }


def check_status(status: Status) -> Check:
    """Return the check of a status with at least one series.

    1 changed: the latest verdict is a change, of any attribution, or an earlier epoch carried one over, or a sentinel
    moved in the slot judged last. 2 could not be judged: the last whole day is older than 26 h, a sentinel could not be
    judged, a judge moved whose grades are estimated, or no verdict says anything yet. 0: no change was detected.
    `reason` says which.
    """
    order = {CHANGED: 0, NOT_JUDGED: 1, NO_CHANGE: 2}
    checks = [_check(series) for series in status.series]
    return Check(tuple(sorted(checks, key=lambda one: order[one.exit_code])))


def _check(series: SeriesStatus) -> SeriesCheck:
    window = series.window if series.window and series.window.epoch == series.epoch else None
    verdict = window.verdict if window else "insufficient_data"
    code, reason = _code(series, verdict)
    moved = tuple(one.item_id for one in series.sentinels.each if one.state == "moved") if series.sentinels else ()
    return SeriesCheck(
        series=series.name,
        exit_code=code,
        reason=reason,
        verdict=verdict,
        direction=window.direction if window else None,
        attribution=window.attribution if window else None,
        sentinels_moved=moved,
        sentence="; ".join(filter(None, _sentences(series))),
    )


def _sentences(series: SeriesStatus) -> list[str | None]:
    return [
        *_banner(series),
        sentence_of(series),
        *sentinel_sentences(series),
        acknowledged_sentence(series),
    ]


def _banner(series: SeriesStatus) -> list[str]:
    banner = judge_banner(series)
    return [f"{series.name}: {banner}"] if banner else []


def _code(series: SeriesStatus, verdict: str) -> tuple[int, str]:
    sentinels = series.sentinels.state if series.sentinels else "none"
    if verdict == "change":
        return CHANGED, "verdict"
    if series.carried:
        return CHANGED, "carried"
    if sentinels in ("moved", "collapsed"):
        return CHANGED, "sentinel"
    judge_moved = series.judge is not None and series.judge.primary and series.judge.state == "moved"
    blind = {"stale": series.stale, "sentinel_unjudged": sentinels == "unjudged", "judge_moved": judge_moved}
    if why := next((reason for reason, holds in blind.items() if holds), None):
        return NOT_JUDGED, why
    return (NO_CHANGE, "verdict") if verdict == "no_change_detected" else (NOT_JUDGED, verdict)
