"""The judged record, schema v1: one JSON line per question, judge and order. It is the state of a duel."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from canaryd.duel.model import (
    LABELS,
    ORDERINGS,
    SIDES,
    WINNERS,
    Entry,
    Judged,
    Retrievals,
    SubstrateFault,
    Unjudged,
)
from canaryd.errors import MeasurementRefused
from canaryd.hashing import canonical_json
from canaryd.jsonlines import LineError, parse_lines, require_clean, text_of
from canaryd.records import JsonValue

SCHEMA_VERSION = 1


def to_line(entry: Entry, *, duel: str) -> bytes:
    """Return one line of the record, ending in a line break; `duel` is the digest of what was registered."""
    head: dict[str, JsonValue] = {"schema_version": SCHEMA_VERSION, "duel": duel}
    return canonical_json({**head, **_fields(entry)}) + b"\n"


def parse_record(data: bytes, *, duel: str, source: str) -> list[Entry]:
    """Return the entries of a record; a last line without its line break was cut off and is no entry.

    Raises:
        ConfigError: a line cannot be read as written.
        MeasurementRefused: a line belongs to another registration.
    """
    whole = data[: data.rfind(b"\n") + 1]
    rows, complaints = parse_lines(whole, lambda values: (values.get("duel"), _entry(values)), source=source)
    require_clean(complaints)
    for digest, _ in rows:
        if digest != duel:
            raise MeasurementRefused(
                f"{source}: holds judgements of {digest}, but this duel is registered as {duel}; "
                "keep that record with its own registration and start another",
                reason="registration_mismatch",
            )
    return [entry for _, entry in rows]


def retrievals_of(entries: Iterable[Entry]) -> dict[str, Retrievals]:
    """Return by question what was retrieved when it was first judged; every later judgement uses the same."""
    found: dict[str, Retrievals] = {}
    for entry in entries:
        if not isinstance(entry, SubstrateFault):
            found.setdefault(entry.question_id, entry.retrievals)
    return found


def _fields(entry: Entry) -> dict[str, JsonValue]:
    if isinstance(entry, SubstrateFault):
        return {
            "question_id": entry.question_id,
            "family": entry.family,
            "substrate": entry.side,
            "substrate_id": entry.substrate_id,
            "substrate_error": entry.reason,
        }
    fields: dict[str, JsonValue] = {
        "question_id": entry.question_id,
        "family": entry.family,
        "judge": entry.judge,
        "ordering": entry.ordering,
        "substrate_a_id": entry.substrate_a_id,
        "substrate_b_id": entry.substrate_b_id,
        "retrieval_a": entry.retrievals.a,
        "retrieval_b": entry.retrievals.b,
    }
    if isinstance(entry, Unjudged):
        return {**fields, "unjudged": entry.reason}
    fields |= {
        "winner": entry.winner,
        "label_a": entry.label_a,
        "label_b": entry.label_b,
        "judge_rationale": entry.rationale,
        "elapsed_ms": entry.elapsed_ms,
    }
    if entry.cost_usd_estimate is not None:
        fields["cost_usd_estimate"] = entry.cost_usd_estimate
    if entry.resolved_model is not None:
        fields["judge_resolved_model"] = entry.resolved_model
    return fields


def _entry(values: Mapping[str, Any]) -> Entry:
    if values.get("schema_version") != SCHEMA_VERSION:
        raise LineError(f"schema_version is {json.dumps(values.get('schema_version'))}, but must be {SCHEMA_VERSION}")
    question_id, family = text_of(values, "question_id"), text_of(values, "family")
    if "substrate_error" in values:
        side = text_of(values, "substrate", allowed=SIDES)
        return SubstrateFault(
            question_id=question_id,
            family=family,
            side="a" if side == "a" else "b",
            substrate_id=text_of(values, "substrate_id"),
            reason=text_of(values, "substrate_error"),
        )
    ordering = text_of(values, "ordering", allowed=ORDERINGS)
    shared: dict[str, Any] = {
        "question_id": question_id,
        "family": family,
        "judge": text_of(values, "judge"),
        "ordering": next(known for known in ORDERINGS if known == ordering),
        "substrate_a_id": text_of(values, "substrate_a_id"),
        "substrate_b_id": text_of(values, "substrate_b_id"),
        "retrievals": Retrievals(_maybe_empty(values, "retrieval_a"), _maybe_empty(values, "retrieval_b")),
    }
    if "unjudged" in values:
        return Unjudged(**shared, reason=text_of(values, "unjudged"))
    winner = text_of(values, "winner", allowed=WINNERS)
    return Judged(
        **shared,
        winner=next(known for known in WINNERS if known == winner),
        label_a=text_of(values, "label_a", allowed=LABELS),
        label_b=text_of(values, "label_b", allowed=LABELS),
        rationale=_maybe_empty(values, "judge_rationale"),
        elapsed_ms=int(_number(values, "elapsed_ms")),
        cost_usd_estimate=_number(values, "cost_usd_estimate") if "cost_usd_estimate" in values else None,
        resolved_model=text_of(values, "judge_resolved_model") if "judge_resolved_model" in values else None,
    )


def _maybe_empty(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    if not isinstance(value, str):
        raise LineError(f"{key} is {json.dumps(value)}, but must be a text")
    return value


def _number(values: Mapping[str, Any], key: str) -> float:
    value = values.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e15:
        raise LineError(f"{key} is {json.dumps(value)}, but must be a number of at least 0")
    return float(value)
