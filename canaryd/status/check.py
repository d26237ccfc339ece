"""The verdict as an exit code: 0 no change, 1 changed, 2 could not be judged."""

from __future__ import annotations

from dataclasses import dataclass

from canaryd.records import JsonValue
from canaryd.status.model import SCHEMA_VERSION, SeriesStatus, Status
from canaryd.status.text import sentence_of

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
    sentence: str

    def to_json(self) -> dict[str, JsonValue]:
        """Return the check of one series as JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


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

    1 changed: the latest verdict is a change, of any attribution. 2 could not be judged: the last whole day is older
    than 26 h, or no verdict says anything yet. 0: no change was detected.
    """
    order = {CHANGED: 0, NOT_JUDGED: 1, NO_CHANGE: 2}
    checks = [_check(series) for series in status.series]
    return Check(tuple(sorted(checks, key=lambda one: order[one.exit_code])))


def _check(series: SeriesStatus) -> SeriesCheck:
    window = series.window
    verdict = window.verdict if window else "insufficient_data"
    if verdict == "change":
        code, reason = CHANGED, "verdict"
    elif series.stale:
        code, reason = NOT_JUDGED, "stale"
    elif verdict == "no_change_detected":
        code, reason = NO_CHANGE, "verdict"
    else:
        code, reason = NOT_JUDGED, verdict
    return SeriesCheck(
        series=series.name,
        exit_code=code,
        reason=reason,
        verdict=verdict,
        direction=window.direction if window else None,
        attribution=window.attribution if window else None,
        sentence=sentence_of(series),
    )
