"""The status of a store as frozen records with one JSON form; scores and deltas are fractions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from typing import Any

from canaryd.judging import JudgeDay, JudgeState
from canaryd.records import Alarm, AlarmState, EarlyWarningDay, JsonValue, Role, Run
from canaryd.schedule import SlotPolicy
from canaryd.stats.watch_params import SentinelParams
from canaryd.stats.watch_state import EarlyWarningState, SentinelSeriesState, SentinelState
from canaryd.store.acknowledgements import Acknowledgement
from canaryd.store.epochs import Deviation, Epoch
from canaryd.store.notes import SetAside
from canaryd.store.rows import Series, StoredArm, StoredVerdict
from canaryd.store.sentinels import SentinelDay
from canaryd.windows import Grid

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class SeriesRecords:
    """The stored rows of one series that its status is made of; `last_completed` and `last_ended` are by arm.

    `grid` is that of the newest epoch; `carried` is the change that an earlier one left on; `sentinel_days` are the
    judgements of the newest slots, oldest first, as many as a collapse is seen from; `judge` is its latest reading;
    `budget` is empty where there is no limit; `is_held` says whether a living process holds the series;
    `days_set_aside` are by arm, `quarantined` are the runs that a person set aside. `latest_slot` are the runs of the
    latest slot, and `refused_since` is the slot from which on the tracked arm was refused.
    """

    series: Series
    arms: tuple[StoredArm, ...]
    grid: Grid
    epochs: tuple[Epoch, ...]
    deviations: tuple[Deviation, ...]
    carried: StoredVerdict | None
    alarm_epoch: int | None
    sentinel_days: tuple[SentinelDay, ...]
    sentinel_params: SentinelParams
    judge: JudgeDay | None
    judge_is_primary: bool
    min_effect: float
    policy: SlotPolicy
    verdict: StoredVerdict | None
    alarm: Alarm | None
    acknowledgements: Mapping[AlarmState, Acknowledgement]
    early_warnings: Mapping[str, Sequence[EarlyWarningDay]]
    last_completed: Mapping[str, Run | None]
    last_ended: Mapping[str, Run | None]
    latest_slot: tuple[Run, ...] = ()
    refused_since: date | None = None
    budget: tuple[BudgetLine, ...] = ()
    open_runs: tuple[Run, ...] = ()
    set_aside: Mapping[int, str] = field(default_factory=dict)
    is_held: bool = False
    days_set_aside: Mapping[str, Sequence[date]] = field(default_factory=dict)
    quarantined: tuple[SetAside, ...] = ()
    slots_without_canary: tuple[date, ...] = ()


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """What the latest decided window says of one arm; a number that is not known is None, and `status` says why.

    `wrong_delta` is the delta with outcome failures counted as wrong, where there were any; `judged_delta` that of the
    judged items that stand beside, a change of opinions. Scores rest on `pairs` items, tokens on `token_pairs`: those
    whose answers reported some. The days set aside are those that are so as a whole.
    """

    arm: str
    role: Role
    status: str
    delta: float | None
    ci_lower: float | None
    ci_upper: float | None
    standard_error: float | None
    pairs: int
    token_pairs: int
    token_state: str
    token_change: float | None
    token_ci_lower: float | None
    token_ci_upper: float | None
    outcome_rate_state: str
    headroom: str | None
    wrong_delta: float | None
    wrong_ci_lower: float | None
    wrong_ci_upper: float | None
    judged_delta: float | None
    judged_ci_lower: float | None
    judged_ci_upper: float | None
    resolved_models: tuple[str, ...]
    resolved_standing: tuple[str, ...]
    configuration_deltas: tuple[str, ...]
    days_set_aside: int = 0
    baseline_days_set_aside: int = 0


@dataclass(frozen=True, slots=True)
class AcrossEpochs:
    """The latest window against the baseline of an earlier epoch: described, never declared."""

    epoch: int
    first: date
    last: date
    arm: str
    delta: float | None
    ci_lower: float | None
    ci_upper: float | None


@dataclass(frozen=True, slots=True)
class Coincidence:
    """A dated thing that happened in the windows of a verdict; nothing is said of more than that."""

    date: date
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class WindowFigures:
    """The latest decided window: its verdict, and the figures of every arm, the tracked one first."""

    epoch: int
    index: int
    first: date
    last: date
    verdict: str
    direction: str | None
    attribution: str | None
    reasons: tuple[str, ...]
    mde: float | None
    state: str
    panel_items: int
    sentinels_excluded: int
    judged_excluded: int
    arms: tuple[ArmFigures, ...]
    across_epochs: tuple[AcrossEpochs, ...]
    coincides_with: tuple[Coincidence, ...]


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """One early-warning stream: its capital against the threshold, and the most likely first changed day.

    `onset` is that of the segment that runs now, `alarm_onset` that of the latest alarm.
    """

    stream: str
    state: EarlyWarningState
    capital: float
    threshold: float
    onset: date | None
    alarmed_on: date | None
    alarm_onset: date | None


@dataclass(frozen=True, slots=True)
class SentinelStatus:
    """One sentinel in the slot that was judged last; the figures are None where nothing was judged."""

    item_id: str
    state: SentinelState
    baseline_samples: int
    baseline_mean: float | None
    today_mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Sentinels:
    """The sentinels of a series in the slot that was judged last."""

    state: SentinelSeriesState
    slot_date: date
    each: tuple[SentinelStatus, ...]


@dataclass(frozen=True, slots=True)
class JudgeStatus:
    """The judge in the slot that it was held to its anchors last; `primary` says whether its grades are estimated."""

    identity: str
    state: JudgeState
    primary: bool
    slot_date: date
    agreeing: int
    judged: int
    anchors: int
    moved: tuple[str, ...]
    resolved_models: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class CarriedChange:
    """A change that was on when its epoch ended, and stays on until it is acknowledged."""

    epoch: int
    window: int
    direction: str | None
    attribution: str | None


@dataclass(frozen=True, slots=True)
class DeviationNote:
    """What somebody decided about the series, and why."""

    date: date
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A slot that a person set aside, of the arms named, when, and why."""

    slot_date: date
    arms: tuple[str, ...]
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class LastRun:
    """How the latest ended run of an arm ended; `blocked` is the contract's word for why it was refused.

    `set_aside` is why nothing of it enters an analysis, None where something may.
    """

    arm: str
    slot_date: date
    outcome: str
    reason: str
    blocked: str | None
    set_aside: str | None = None


@dataclass(frozen=True, slots=True)
class BlockedSeries:
    """For which reason of the contract the tracked arm is not asked, since which slot, and the command that helps."""

    reason: str
    since: date
    command: str


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that has not ended: it `is_running`, or its process is gone and the next goes on where it stopped."""

    arm: str
    slot_date: date
    started_at: datetime
    is_running: bool


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """One limit of a series' budget (`calls_per_day`, say), and how much of it is used up."""

    limit: str
    used: float
    most: float


@dataclass(frozen=True, slots=True)
class AcknowledgedState:
    """Until when somebody has silenced the alarm state, and why; the state stays on."""

    until: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class SeriesStatus:
    """One series now; `window` is None before the first decided one, `last_success` before the first whole day.

    A series that is `blocked` keeps the state that it was in.
    """

    name: str
    tracked_model: str
    state: AlarmState
    since: datetime
    acknowledged: AcknowledgedState | None
    series_day: int
    phase: str
    epoch: int
    carried: CarriedChange | None
    deviations: tuple[DeviationNote, ...]
    sentinels: Sentinels | None
    judge: JudgeStatus | None
    min_effect: float
    window: WindowFigures | None
    early_warnings: tuple[StreamStatus, ...]
    last_success: datetime | None
    stale: bool
    last_runs: tuple[LastRun, ...]
    next_run: datetime
    budget: tuple[BudgetLine, ...]
    open_runs: tuple[OpenRun, ...] = ()
    quarantines: tuple[Quarantine, ...] = ()
    slots_without_canary: tuple[date, ...] = ()
    blocked: BlockedSeries | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a store; `clock` is `system`, or `demo` where a demo's frozen calendar is obeyed."""

    version: str
    store: str
    now: datetime
    clock: str
    series: tuple[SeriesStatus, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the status as JSON; changes to this form only ever add keys."""
        return {"schema_version": SCHEMA_VERSION, **{key: _plain(value) for key, value in asdict(self).items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
