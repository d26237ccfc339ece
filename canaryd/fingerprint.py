"""The harness fingerprint of an arm: everything but the model, component by component, and one digest over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from canaryd.hashing import canonical_json, digest


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The components of an arm's harness, each as a digest, and the digest of them all."""

    components: Mapping[str, str]

    @property
    def digest(self) -> str:
        """One digest over every component.

        >>> one = fingerprint_of({"system": b"Be brief.", "sdk": b"openai 3.57.0"})
        >>> one.digest == fingerprint_of({"sdk": b"openai 3.57.0", "system": b"Be brief."}).digest
        True
        """
        return digest(canonical_json(dict(self.components)))


def fingerprint_of(components: Mapping[str, bytes]) -> Fingerprint:
    """Return the fingerprint of named bytes; the order of the names is irrelevant."""
    return Fingerprint({name: digest(data) for name, data in sorted(components.items())})


def differences(before: Fingerprint, after: Fingerprint) -> list[str]:
    """Return the names of the components that differ, sorted.

    >>> differences(fingerprint_of({"a": b"1", "b": b"2"}), fingerprint_of({"a": b"1", "b": b"3", "c": b""}))
    ['b', 'c']
    """
    names = {*before.components, *after.components}
    return sorted(name for name in names if before.components.get(name) != after.components.get(name))
