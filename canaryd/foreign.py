"""A series that was measured elsewhere: its graded answers become a series of the store, marked as imported.

What it was measured with is not known: there is no harness, no question and no reply, only what each answer scored. The
registration that decides on it came after the data; the mark of the series says so for ever.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from uuid import NAMESPACE_URL, uuid5

from canaryd import graders, panel
from canaryd import prereg as registration
from canaryd.analysis import analyse
from canaryd.compare.rows import Row, as_text
from canaryd.compare.side import Side, build_side
from canaryd.errors import UsageError
from canaryd.records import Arm, Failure, Grade, JsonValue, Reply, Role, Sample, SampleKey, Verdict
from canaryd.runner.project import LEASE_POLICY
from canaryd.store.engine import Store
from canaryd.store.lease import acquire_lease, release_lease
from canaryd.store.process import this_process
from canaryd.store.rows import PanelFiles, Plan
from canaryd.store.write import import_samples

#: The grader that stands beside a score that was given elsewhere.
GRADER = "imported"
_PASSED = 0.5


@dataclass(frozen=True, slots=True)
class Foreign:
    """How the rows of a file become a series: the registration's bytes and where they are from, the roles of the arms.

    `names` says under which name a column is (those of `canaryd compare`, and `arm`).
    """

    series: str
    registration: bytes
    source: str
    roles: Mapping[str, Role]
    names: Mapping[str, str] = field(default_factory=dict)


def import_foreign(store: Store, rows: Sequence[Row], *, foreign: Foreign, now: datetime) -> tuple[Verdict, ...]:
    """Store the rows of a file as a series that is marked as imported, decide its windows, and return the verdicts.

    A day without a row of an arm is a missed slot of it; a row without a score is a failure `internal`, since why there
    is none is not known.

    Raises:
        UsageError: a column is missing, the roles name an arm that the file has not, or the series exists.
        ConfigError: a value or the registration cannot be read.
    """
    sides = _sides(rows, foreign)
    protocol = registration.parse(foreign.registration, source=foreign.source)
    content = _panel_bytes(foreign.series, sides)
    parsed = panel.parse(content, b"", graders=graders, path=f"panel of {foreign.series}")
    plan = Plan(
        series=foreign.series,
        registered_at=now,
        start_date=min(answer.day for side in sides.values() for answer in side.answers),
        seed=0,
        registration=foreign.registration,
        registration_digest=protocol.digest,
        panel=PanelFiles(parsed.digest, parsed.name, parsed.version, content, b""),
        items=parsed.items,
        arms=[Arm(arm, role, "imported", arm) for arm, role in foreign.roles.items()],
        imported_at=now,
    )
    samples = [sample for arm, side in sides.items() for sample in _samples(foreign.series, arm, side=side)]
    import_samples(store, plan, samples=samples, at=now)
    lease = acquire_lease(store, foreign.series, holder=this_process(), now=now, policy=LEASE_POLICY)
    verdicts = analyse(store, foreign.series, lease=lease, now=now)
    release_lease(store, lease, now=now)
    return verdicts


def _sides(rows: Sequence[Row], foreign: Foreign) -> dict[str, Side]:
    """Return the answers of each arm that has a role; rows of other arms are left out."""
    names = dict(foreign.names)
    column = names.pop("arm", "arm")
    of_arm: dict[str, list[Row]] = {arm: [] for arm in foreign.roles}
    for row in rows:
        of_arm.get(as_text(row.values.get(column)), []).append(row)
    empty = next((arm for arm, found in of_arm.items() if not found), None)
    if empty is not None:
        held = ", ".join(sorted({as_text(row.values.get(column)) for row in rows} - {""})) or "nothing"
        raise UsageError(
            f"{rows[0].where}: no row has the arm {empty!r} in the column {column} (it holds {held}); name the arms by "
            "--tracked and --control, and their column by --column arm=NAME"
        )
    sides = {arm: build_side(found, names=names) for arm, found in of_arm.items()}
    undated = next((arm for arm, side in sides.items() if not side.dated), None)
    if undated is not None:
        raise UsageError(
            f"{rows[0].where}: there is no column date, and a series needs days; name yours with --column date=NAME"
        )
    return sides


def _panel_bytes(series: str, sides: Mapping[str, Side]) -> bytes:
    """Return a panel of the items that were answered; what was asked is not known, so nothing can be asked with it."""
    item_ids = sorted({item_id for side in sides.values() for item_id in side.items})
    taken = Counter(_id(item_id) for item_id in item_ids)
    if twice := next((item_id for item_id in item_ids if taken[_id(item_id)] > 1), None):
        raise UsageError(f"item {twice!r} and another one are both {_id(twice)!r} as an id; rename one of them")
    header: dict[str, JsonValue] = {
        "name": f"imported-{series}",
        "version": "1",
        "licence": "not known",
        "canary": str(uuid5(NAMESPACE_URL, "\n".join([series, *item_ids]))),
    }
    families = {_id(item): family for side in sides.values() for item, family in side.families.items()}
    clusters = {_id(item): cluster for side in sides.values() for item, cluster in side.clusters.items()}
    lines: list[Mapping[str, JsonValue]] = [header]
    for item_id in item_ids:
        name = _id(item_id)
        row: dict[str, JsonValue] = {
            "id": name,
            "family": families.get(name, "imported"),
            "cluster": clusters.get(name, name),
            "prompt": f"Item {item_id} of a series that was measured elsewhere.",
            "target": "not known",
            "grader": {"type": "exact"},
        }
        lines.append(row)
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def _id(item_id: str) -> str:
    """Return an item's id in the characters that a panel takes.

    >>> _id("gsm8k/12 b"), _id("_x")
    ('gsm8k_12_b', 'i_x')
    """
    name = re.sub(r"[^A-Za-z0-9._-]", "_", item_id)
    return name if name[0].isalnum() else f"i{name}"


def _samples(series: str, arm: str, *, side: Side) -> list[Sample]:
    seen: Counter[tuple[date, str]] = Counter()
    samples = []
    for answer in side.answers:
        place = answer.day, _id(answer.item_id)
        at = datetime.combine(answer.day, time(), UTC)
        result = (
            Failure("internal", "imported without a score")
            if answer.score is None
            else Grade(answer.score, True, answer.score >= _PASSED, detail="imported", grader=GRADER)
        )
        tokens = answer.output_tokens
        reply = None if tokens is None else Reply("", "stop", output_tokens=round(tokens))
        samples.append(Sample(SampleKey(series, arm, *place, seen[place]), result, reply, at, at, calls=0))
        seen[place] += 1
    return samples
