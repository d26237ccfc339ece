"""Samples of calibrations and validations, kept apart from those of a series; and the document of a registration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, TypeAlias

from sqlalchemy import ColumnElement, Connection, Select, and_, func, insert, select

from canaryd.hashing import canonical_json, digest
from canaryd.records import OUTCOME_FAILURES, Arm, Failure, Grade, JsonValue, Sample
from canaryd.store import ledger, read, texts
from canaryd.store import schema_studies as schema
from canaryd.store.engine import Store
from canaryd.store.harness import Spending
from canaryd.target_config import host_of

Stage: TypeAlias = Literal["screen", "confirm", "validate"]


@dataclass(frozen=True, slots=True)
class StudyKey:
    """What makes samples one study: another panel or another target is another study, and shares no sample with it."""

    series: str
    stage: Stage
    arm: str
    panel_digest: str
    target: Mapping[str, JsonValue]

    @property
    def target_digest(self) -> str:
        """The digest of the target."""
        return digest(canonical_json(dict(self.target)))


@dataclass(frozen=True, slots=True)
class StudySample:
    """The sample that counts for an item and replicate: the one that is final, else that of the latest attempt."""

    slot_date: date
    item_id: str
    replicate: int
    score: float | None
    failure_kind: str | None
    output_tokens: int | None

    @property
    def is_final(self) -> bool:
        """Whether it is never asked again: graded, or answered without anything to grade."""
        return self.score is not None or self.failure_kind in OUTCOME_FAILURES


@dataclass(frozen=True, slots=True)
class RegistrationDocument:
    """The readable registration of a series as it was written, and the commit of the work tree it lay in."""

    content: bytes
    digest: str
    git_commit: str | None
    at: datetime


def open_study(store: Store, key: StudyKey, *, now: datetime) -> int:
    """Return the id of a study, which is begun where it is not there yet."""
    with store.write() as connection:
        known = study_id(connection, key)
        if known is not None:
            return known
        values = {name: getattr(key, name) for name in ("series", "stage", "arm", "panel_digest", "target_digest")}
        made = connection.execute(insert(schema.study).values(**values, target=dict(key.target), opened_at=now))
        assert made.inserted_primary_key is not None
        return int(made.inserted_primary_key[0])


def study_id(connection: Connection, key: StudyKey) -> int | None:
    """Return the id of a study, or None where it has not begun."""
    row = schema.study.c
    names = ("series", "stage", "arm", "panel_digest", "target_digest")
    found: int | None = connection.scalar(
        select(row.study_id).where(*(row[name] == getattr(key, name) for name in names))
    )
    return found


def study_target(arm: Arm) -> dict[str, JsonValue]:
    """Return what an arm asks, without any key; a change of it makes another study. A redacted host stays unknown."""
    return {
        "provider": arm.provider,
        "model": arm.model,
        "host": None if arm.redact or arm.base_url is None else host_of(arm.base_url),
        "params": dict(arm.params),
        "options": dict(arm.options),
    }


def confirmed_scores(connection: Connection, series: str, *, arm: Arm) -> dict[str, tuple[float, ...]]:
    """Return the scores of the newest confirmation of an arm by item; those of an item stand under its id alone."""
    row = schema.study.c
    target = digest(canonical_json(study_target(arm)))
    newest: int | None = connection.scalar(
        select(func.max(row.study_id)).where(
            row.series == series, row.stage == "confirm", row.arm == arm.name, row.target_digest == target
        )
    )
    scores: dict[str, tuple[float, ...]] = {}
    for sample in () if newest is None else samples(connection, newest):
        if sample.score is not None:
            scores[sample.item_id] = (*scores.get(sample.item_id, ()), sample.score)
    return scores


def append_samples(store: Store, samples: Sequence[Sample], *, study_id: int) -> None:
    """Store samples of a study, all or none; one whose last attempt failed gets the next attempt.

    Raises:
        RowRefused: a sample breaks a rule of the schema, or another process stored it in the same moment.
    """
    with store.write() as connection:
        for sample in samples:
            attempt = 1 + (connection.scalar(_last_attempt(sample, study_id)) or 0)
            connection.execute(
                insert(schema.study_sample).values(study_id=study_id, attempt=attempt, **_values(sample))
            )


def samples(connection: Connection, study_id: int) -> tuple[StudySample, ...]:
    """Return the samples of a study that count, by day, item and replicate.

    A replicate of a calibration counts once, whatever the day; those of a validation once a day, for each of its days
    is a session of its own.
    """
    row = schema.study_sample.c
    stage = connection.scalar(select(schema.study.c.stage).where(schema.study.c.study_id == study_id))
    query = select(*(row[name] for name in StudySample.__slots__)).where(row.study_id == study_id)
    counted: dict[tuple[Any, ...], StudySample] = {}
    for each in connection.execute(query.order_by(row.study_sample_id)):
        sample = StudySample(*each)
        key = (sample.item_id, sample.replicate, sample.slot_date if stage == "validate" else None)
        if key not in counted or not counted[key].is_final:
            counted[key] = sample
    return tuple(sorted(counted.values(), key=lambda one: (one.slot_date, one.item_id, one.replicate)))


def response_seen(connection: Connection, response_id: str) -> bool:
    """Whether a sample came with this response id, of a study or of a series."""
    row = schema.study_sample.c
    found = connection.scalar(select(row.study_sample_id).where(row.response_id == response_id).limit(1))
    return found is not None or read.response_seen(connection, response_id)


def study_spending(connection: Connection, series: str, *, first: date, last: date) -> dict[tuple[str, date], Spending]:
    """Return by arm and date what the studies of a series used up, as far as their samples tell."""
    row, study = schema.study_sample.c, schema.study.c
    sums = [func.coalesce(func.sum(row[name]), 0).label(name) for name in Spending.__slots__]
    query = (
        select(study.arm, row.slot_date, *sums)
        .join_from(schema.study_sample, schema.study)
        .where(row.series == series, row.slot_date.between(first, last))
        .group_by(study.arm, row.slot_date)
    )
    return {
        (each.arm, each.slot_date): Spending(int(each.calls), int(each.input_tokens), int(each.output_tokens))
        for each in connection.execute(query)
    }


def keep_document(store: Store, series: str, *, document: RegistrationDocument) -> None:
    """Store the readable registration of a series; raise RowRefused when it has one."""
    values = {name: getattr(document, name) for name in RegistrationDocument.__slots__}
    with store.write() as connection:
        ledger.add(connection, series, table=schema.registration_document, rows=[{"series": series, **values}])


def registration_document(connection: Connection, series: str) -> RegistrationDocument | None:
    """Return the readable registration of a series, None where none was written."""
    row = schema.registration_document.c
    columns = [row[name] for name in RegistrationDocument.__slots__]
    found = connection.execute(select(*columns).where(row.series == series)).mappings().one_or_none()
    return None if found is None else RegistrationDocument(**found)


def _last_attempt(sample: Sample, study_id: int) -> Select[Any]:
    return select(func.max(schema.study_sample.c.attempt)).where(_same(sample, study_id))


def _same(sample: Sample, study_id: int) -> ColumnElement[bool]:
    row, key = schema.study_sample.c, sample.key
    return and_(
        row.study_id == study_id,
        row.item_id == key.item_id,
        row.slot_date == key.slot_date,
        row.replicate == key.replicate,
    )


def _values(sample: Sample) -> dict[str, Any]:
    key, result, reply = sample.key, sample.result, sample.reply
    values: dict[str, Any] = {
        "series": key.series,
        "slot_date": key.slot_date,
        "item_id": key.item_id,
        "replicate": key.replicate,
        "asked_at": sample.asked_at,
        "ended_at": sample.ended_at,
        "calls": sample.calls,
    }
    if isinstance(result, Failure):
        values |= {"failure_kind": result.kind, "failure_detail": result.detail}
    if isinstance(result, Grade):
        values |= {"score": result.score, "passed": result.passed, "grader": result.grader}
    if reply is not None:
        values |= {
            name: getattr(reply, name) for name in ("resolved_model", "response_id", "input_tokens", "output_tokens")
        }
        values["text_digest"] = digest(texts.encode(reply.text))
    return values
