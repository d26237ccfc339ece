"""Whether an arm's harness is still that of its baseline epoch, component by component."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from canaryd.delta import Delta
from canaryd.fingerprint import Fingerprint, differences, unknown
from canaryd.store import harness, sentinels
from canaryd.store.epochs import Epoch, deviations


@dataclass(frozen=True, slots=True)
class Harnesses:
    """The harness of each arm in an epoch, and the digests that were accepted as equivalent to it."""

    reference: Mapping[str, Fingerprint]
    equivalent: Mapping[str, frozenset[str]]

    def deltas(self, arm: str, now: Fingerprint) -> tuple[Delta, ...]:
        """Return what differs from the epoch's harness (nothing before there is one) and was not accepted."""
        reference = self.reference.get(arm)
        if reference is None or now.digest in self.equivalent.get(arm, ()):
            return ()
        return differences(reference, now)

    def unknown(self, arm: str, now: Fingerprint) -> tuple[str, ...]:
        """Return the components that cannot be compared with the epoch's harness."""
        reference = self.reference.get(arm)
        return () if reference is None else unknown(reference, now)

    def counts_as(self, arm: str, now: Fingerprint) -> str:
        """Return the digest that a harness counts as: the epoch's own where nothing differs."""
        reference = self.reference.get(arm)
        return now.digest if reference is None or self.deltas(arm, now) else reference.digest


def harnesses(connection: Connection, series: str, *, epoch: Epoch) -> Harnesses:
    """Return the harnesses of an epoch: those of its first runs, else those that it was opened with.

    A later epoch is opened with what was accepted, the first with a burst of sentinels, where one was taken.
    """
    if epoch.opened_by is None:
        opened = sentinels.burst_harness(connection, series)
    else:
        accepted = epoch.opened_by.detail["harness"]
        assert isinstance(accepted, dict)
        opened = {arm: str(digest) for arm, digest in accepted.items()}
    digests = {**opened, **harness.reference_digests(connection, series, epoch=epoch.number)}
    known = harness.components(connection, set(digests.values()))
    equivalent: dict[str, frozenset[str]] = {}
    for note in deviations(connection, series, kind="equivalent"):
        if note.detail["epoch"] == epoch.number:
            arm = str(note.detail["arm"])
            equivalent[arm] = equivalent.get(arm, frozenset()) | {str(note.detail["harness"])}
    reference = {arm: Fingerprint(known[digest]) for arm, digest in digests.items() if digest in known}
    return Harnesses(reference, equivalent)
