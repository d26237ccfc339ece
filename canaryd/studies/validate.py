"""Validation: the instrument must see a change made on purpose, and none between odd and even baseline days."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from canaryd.analysis import Evidence, load_subject
from canaryd.errors import ConfigError
from canaryd.records import OUTCOME_FAILURES, Arm, JsonValue
from canaryd.stats.cells import Cells
from canaryd.stats.estimate import Estimate, TooFew
from canaryd.stats.outcomes import OutcomeCounts
from canaryd.stats.paired import paired_delta
from canaryd.stats.power import Mde, predicted_mde
from canaryd.stats.study_params import PositiveControl
from canaryd.stats.validation import (
    ControlSeen,
    Criterion,
    SelfComparison,
    Session,
    control_seen,
    odd_against_even,
)
from canaryd.store import read, studies
from canaryd.store.studies import StudySample
from canaryd.studies.collect import Collected, Progress, Wanted, collect
from canaryd.studies.laboratory import Laboratory


@dataclass(frozen=True, slots=True)
class Validation:
    """What is known of an instrument: A/A across days and inside sessions, and every positive control.

    `days` is None while the series has no baseline day, `inside` while there was no session. `mde` is the smallest
    change by the baseline's own variance.
    """

    series: str
    sessions: tuple[date, ...]
    baseline_is_over: bool
    days: SelfComparison | None
    inside: Estimate | TooFew | None
    controls: tuple[ControlSeen, ...]
    mde: Mde | None
    alpha: float

    @property
    def passed(self) -> bool | None:
        """Whether the registered criterion is met; None while a part of it cannot be judged yet."""
        across = self.days.passed if self.days is not None and self.baseline_is_over else None
        parts = [across, *(control.passed for control in self.controls)]
        if False in parts:
            return False
        return None if None in parts else True

    def to_json(self) -> dict[str, JsonValue]:
        """Return the report as JSON."""
        return {
            "schema_version": 1,
            "series": self.series,
            "passed": self.passed,
            "alpha": self.alpha,
            "sessions": [day.isoformat() for day in self.sessions],
            "baseline_is_over": self.baseline_is_over,
            "days": None if self.days is None else self.days.to_json(),
            "inside_sessions": None if self.inside is None else self.inside.to_json(),
            "controls": [control.to_json() for control in self.controls],
            "mde": None if self.mde is None else self.mde.to_json(),
            "cannot_see": self.cannot_see,
        }

    @property
    def cannot_see(self) -> str:
        """The sentence on what stays unseen, printed with every validation."""
        size = (
            "a change smaller than its panel can show"
            if self.mde is None
            else f"most changes smaller than {100 * self.mde.two_windows:.1f} points"
        )
        return (
            f"This instrument cannot see {size}, anything that its panel does not ask, what changed before its first "
            "baseline day, or the cause of what it sees."
        )


def control_arms(lab: Laboratory) -> tuple[Arm, ...]:
    """Return the registered positive controls as arms: an arm of the series with something set anew.

    Raises:
        ConfigError: a control has the name of an arm, sets nothing anew, or names an arm that is not there.
    """
    return tuple(_control_arm(lab, control) for control in lab.prereg.validation.controls)


def _control_arm(lab: Laboratory, control: PositiveControl) -> Arm:
    where = f"{lab.series.prereg}: validation.controls {control.name!r}"
    arms = {arm.name: arm for arm in lab.series.arms}
    base = lab.series.tracked if control.arm is None else arms.get(control.arm)
    if base is None:
        raise ConfigError(f"{where} names the arm {control.arm!r}, but there are {', '.join(arms)}; name one of them")
    if control.name in arms:
        raise ConfigError(f"{where} has the name of an arm; rename the control")
    varied = dataclasses.replace(
        base,
        name=control.name,
        role="replica",
        model=control.model or base.model,
        params={**base.params, **control.params},
        options={**base.options, **control.options},
    )
    if dataclasses.replace(varied, name=base.name, role=base.role) == lab.series.tracked:
        raise ConfigError(f"{where} asks what the tracked arm asks, so there is nothing to see; set something anew")
    return varied


def run_session(lab: Laboratory, *, on_landed: Progress = lambda *_: None) -> Collected:
    """Ask today's session: the tracked arm and every positive control, interleaved; raises as `collect`."""
    arms = (lab.series.tracked, *control_arms(lab))
    wanted = Wanted("validate", arms, lab.panel.measured, lab.prereg.validation.samples)
    return collect(lab, wanted, on_landed=on_landed)


def validation_of(lab: Laboratory) -> Validation:
    """Return what is known of the instrument by now, from the store."""
    tracked = _stored(lab, lab.series.tracked)
    session = _session(tracked)
    clusters = {item.item_id: item.cluster for item in lab.panel.measured}
    protocol = lab.prereg
    criterion = Criterion(protocol.validation, protocol.rule, protocol.tokens)
    baseline, start, over = _baseline(lab)
    days = odd_against_even(baseline, start=start, clusters=clusters, params=criterion.estimate) if start else None
    return Validation(
        series=lab.series.name,
        sessions=tuple(sorted({sample.slot_date for sample in tracked})),
        baseline_is_over=over,
        days=days,
        inside=_inside(tracked, clusters=clusters, criterion=criterion) if tracked else None,
        controls=tuple(
            control_seen(arm.name, _session(_stored(lab, arm)), tracked=session, clusters=clusters, criterion=criterion)
            for arm in control_arms(lab)
        ),
        mde=_mde(baseline, lab=lab),
        alpha=protocol.validation.alpha,
    )


def _baseline(lab: Laboratory) -> tuple[Cells, date | None, bool]:
    """Return what the tracked arm scored in the baseline so far, its first day, and whether the baseline is over."""
    with lab.store.read() as connection:
        if lab.series.name not in {series.name for series in read.all_series(connection)}:
            return Cells(), None, False
        subject = load_subject(connection, lab.series.name)
        evidence = Evidence(connection, subject)
        cells = evidence.cells(evidence.span(subject.tracked, 0))
    start = subject.grid.start if len(cells) else None
    return cells, start, subject.grid.has_ended(0, lab.clock.now())


def _stored(lab: Laboratory, arm: Arm) -> tuple[StudySample, ...]:
    with lab.store.read() as connection:
        study_id = studies.study_id(connection, lab.key(arm, "validate"))
        return () if study_id is None else studies.samples(connection, study_id)


def _session(samples: Sequence[StudySample]) -> Session:
    scored = [sample for sample in samples if sample.score is not None]
    failed = Counter(sample.failure_kind for sample in samples if sample.failure_kind in OUTCOME_FAILURES)
    return Session(
        scores=_cells(scored),
        tokens=Cells.from_samples(
            (sample.item_id, sample.slot_date, float(sample.output_tokens))
            for sample in scored
            if sample.output_tokens is not None
        ),
        outcomes=OutcomeCounts(
            len(scored) + sum(failed.values()), {str(kind): count for kind, count in failed.items()}
        ),
    )


def _inside(samples: Sequence[StudySample], *, clusters: Mapping[str, str], criterion: Criterion) -> Estimate | TooFew:
    """Return the tracked arm's odd replicates against its even ones: it is blind to what differs between days."""
    even, odd = (
        [sample for sample in samples if sample.score is not None and sample.replicate % 2 == turn] for turn in (0, 1)
    )
    return paired_delta(_cells(even), _cells(odd), clusters=clusters, params=criterion.estimate)


def _cells(samples: Sequence[StudySample]) -> Cells:
    return Cells.from_samples(
        (sample.item_id, sample.slot_date, sample.score) for sample in samples if sample.score is not None
    )


def _mde(baseline: Cells, *, lab: Laboratory) -> Mde | None:
    """Return what a window of the registered length sees, by the variance of the baseline's own samples."""
    totals, rule = baseline.by_item(), lab.prereg.rule
    per_day = {item.item_id: item.replicates for item in lab.panel.measured}
    known = [
        (max(0.0, squares - total * total / n) / (n - 1), n, per_day.get(item, 1) * rule.window_days)
        for item, n, total, squares in zip(
            totals.items, totals.n.tolist(), totals.total.tolist(), totals.total_sq.tolist(), strict=True
        )
        if n >= 2
    ]
    if not known:
        return None
    return predicted_mde(
        [variance for variance, _, _ in known],
        samples_baseline=[n for _, n, _ in known],
        samples_window=[window for _, _, window in known],
        params=rule.mde,
    )
