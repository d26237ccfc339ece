"""The harness fingerprint of an arm: everything but the model, component by component, and what differs between two."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from canaryd.delta import WITHHELD, Delta
from canaryd.hashing import canonical_json, digest

ABSENT = "absent"
#: The component that holds the canonical wire request as JSON text, so that a difference names the parameter.
REQUEST = "request"
#: The same of the judge, where the panel has items that one grades; every other component of it begins alike.
JUDGE = "judge "
#: Components of this name are versions of an SDK or a program between canaryd and the wire.
TOOL = "tool "


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The components of an arm's harness by name, each as text (a digest where it is long or private)."""

    components: Mapping[str, str]

    @property
    def digest(self) -> str:
        """One digest over every component; the order of the names is irrelevant.

        >>> one = Fingerprint({"system": "sha256:1", "tool openai": "3.57.0"})
        >>> one.digest == Fingerprint({"tool openai": "3.57.0", "system": "sha256:1"}).digest
        True
        """
        return digest(canonical_json(dict(self.components)))


def differences(before: Fingerprint, after: Fingerprint) -> tuple[Delta, ...]:
    """Return what differs, by name; a withheld component differs from nothing (see `unknown`).

    >>> old = Fingerprint({"request": '{"body":{"temperature":0}}', "tool openai": "3.57.0", "host": "withheld"})
    >>> new = Fingerprint({"request": '{"body":{"temperature":1}}', "tool openai": "3.58.0", "host": "h:443"})
    >>> [str(delta) for delta in differences(old, new)]
    ['request.body.temperature: 0 -> 1', 'tool openai: 3.57.0 -> 3.58.0']
    """
    found: list[Delta] = []
    for name in sorted({*before.components, *after.components}):
        old, new = before.components.get(name, ABSENT), after.components.get(name, ABSENT)
        if old == new or WITHHELD in (old, new):
            continue
        if name in (REQUEST, JUDGE + REQUEST) and ABSENT not in (old, new):
            found += _request_deltas(name, json.loads(old), after=json.loads(new))
        else:
            found.append(Delta(name, old, new))
    return tuple(found)


def unknown(before: Fingerprint, after: Fingerprint) -> tuple[str, ...]:
    """Return the components that cannot be compared, because one side withholds them.

    >>> unknown(Fingerprint({"host": "withheld"}), Fingerprint({"host": "h:443"}))
    ('host',)
    """
    names = sorted({*before.components, *after.components})
    return tuple(name for name in names if WITHHELD in (before.components.get(name), after.components.get(name)))


def only_tools(deltas: Iterable[Delta]) -> bool:
    """Whether nothing but versions of SDKs and programs differ, so that every request is byte for byte the same.

    >>> only_tools([Delta("tool openai", "3.57.0", "3.58.0")]), only_tools([Delta("host", "a:1", "b:1")])
    (True, False)
    """
    return all(delta.name.removeprefix(JUDGE).startswith(TOOL) for delta in deltas)


def _request_deltas(request: str, before: Any, *, after: Any) -> list[Delta]:
    old, new = dict(_leaves(before)), dict(_leaves(after))
    names = sorted({*old, *new})
    return [
        Delta(f"{request}.{name}", old.get(name, ABSENT), new.get(name, ABSENT))
        for name in names
        if old.get(name) != new.get(name)
    ]


def _leaves(value: Any, path: str = "") -> Iterable[tuple[str, str]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    inner = list(children)
    if not inner:
        yield path, value if isinstance(value, str) else json.dumps(value)
    for key, child in inner:
        yield from _leaves(child, f"{path}.{key}" if path else str(key))
