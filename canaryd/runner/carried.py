"""A change that was on when its epoch ended stays on, labelled carried, until somebody acknowledges it."""

from __future__ import annotations

from collections.abc import Sequence

from canaryd.store.epochs import Deviation, Epoch
from canaryd.store.rows import StoredVerdict


def carried(
    verdicts: Sequence[StoredVerdict], epochs: Sequence[Epoch], *, deviations: Sequence[Deviation]
) -> StoredVerdict | None:
    """Return the change that an earlier epoch ended with and nobody acknowledged, the newest; None where there is none.

    `verdicts` are those in force by epoch and window, or the last of each epoch.
    """
    acknowledged = {note.detail["epoch"] for note in deviations if note.kind == "ack"}
    last_of = {stored.verdict.epoch: stored for stored in verdicts}
    current = epochs[-1].number
    ended = [
        stored
        for epoch, stored in sorted(last_of.items())
        if epoch < current and stored.verdict.kind == "change" and epoch not in acknowledged
    ]
    return ended[-1] if ended else None
