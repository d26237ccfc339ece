"""The page docs/providers.md, written from the tables in code (run this module to print it)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from inspect import cleandoc

from canaryd.providers.facts import FACTS, Facts
from canaryd.providers.wire import KIND_OF_CODE, KIND_OF_STATUS
from canaryd.records import CONFIG_FAILURES, HARNESS_FAILURES, OUTCOME_FAILURES, TRANSPORT_FAILURES

_HEAD = """# Providers

This page is printed by `python -m canaryd.providers.documentation`; a test compares the two. Edit
`canaryd/providers/facts.py`, not this file.

Rules for all of them:

- A parameter that is not set is not sent. An unknown parameter or option is refused, with the allowed ones.
- `timeout_s` is the total time of one attempt, from connecting to the last byte; 0 is refused.
- The SDKs' own retries are off, so that every attempt is canaryd's and counted. Redirects are not followed.
- Keys are given to the SDK as an argument. A variable of the environment that would re-point an SDK or add to its
  requests (`OPENAI_BASE_URL`, `ANTHROPIC_CUSTOM_HEADERS`, `AWS_ENDPOINT_URL`, `AWS_BEARER_TOKEN_BEDROCK`,
  `AWS_USE_FIPS_ENDPOINT`, ...) is refused. A proxy of the environment (`HTTPS_PROXY`, `ALL_PROXY`) is not used:
  `options.proxy` of an arm names one, and then its address is a component of the harness.
- A reply that repeats a key of its arm, or a part of one, is `malformed`, and nothing of it is kept.
- No error text holds a key, the panel's text, or an exception of an SDK; it is one line of at most 300 characters.
- A model name that only repeats the request is recorded as an echo: it identifies nothing.
"""


def page() -> str:
    """Return the whole page."""
    sections = [_section(name, FACTS[name]) for name in sorted(FACTS)]
    return "\n".join([_HEAD, *sections, _statuses()])


def _section(name: str, facts: Facts) -> str:
    parts = [f"## {name}\n", f"{facts.summary}\n"]
    if facts.params:
        parts.append(_table(("parameter", "sent as"), facts.params.items()))
    parts.append(_table(("option", "meaning"), facts.options.items()))
    parts.append(f"Recorded with every reply: {facts.recorded}.\n\nNot reported: {facts.not_reported}.\n")
    ordered = sorted(facts.failures.items(), key=lambda pair: (_order(pair[0]), pair[0]))
    parts.append(_table(("failure", "recognised by"), ordered))
    if facts.notes:
        parts.append(cleandoc(facts.notes) + "\n")
    return "\n".join(parts)


def _statuses() -> str:
    by_kind: dict[str, list[str]] = {}
    for status, kind in KIND_OF_STATUS.items():
        by_kind.setdefault(kind, []).append(str(status))
    by_kind.setdefault("not_found", []).append("3xx")
    by_kind.setdefault("bad_request", []).append("other 4xx")
    by_kind.setdefault("server_error", []).append("other 5xx")
    codes: dict[str, list[str]] = {}
    for code, kind in KIND_OF_CODE.items():
        codes.setdefault(kind, []).append(f"`{code}`")
    rows = [
        (kind, f"{', '.join(by_kind.get(kind, []))} | {', '.join(codes.get(kind, []))}")
        for kind in sorted({*by_kind, *codes}, key=lambda kind: (_order(kind), kind))
    ]
    head = "## Statuses and codes\n\nThe one table from an HTTP status, and a code in an error body, to a failure.\n"
    return f"{head}\n{_table(('failure', 'status | code'), rows)}"


def _table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    columns = " | ".join(head)
    rule = "|".join("---" for _ in columns.split(" | "))
    return "\n".join([f"| {columns} |", f"|{rule}|", *(f"| `{name}` | {meaning} |" for name, meaning in rows), ""])


def _order(kind: str) -> int:
    """Return the place of a failure's family: transport, configuration, other harness, outcome."""
    families: Mapping[int, frozenset[str]] = {0: TRANSPORT_FAILURES, 1: CONFIG_FAILURES, 3: OUTCOME_FAILURES}
    assert kind in HARNESS_FAILURES | OUTCOME_FAILURES
    return next((place for place, kinds in families.items() if kind in kinds), 2)


if __name__ == "__main__":
    sys.stdout.write(page())
