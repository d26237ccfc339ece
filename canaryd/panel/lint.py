"""What is wrong with a panel before it is frozen: every complaint with file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from canaryd.panel.model import Grading, Row
from canaryd.panel.parse import read_rows, system_complaints
from canaryd.records import Item

#: A constant answer that scores this much in a family shows that the family's targets are out of balance.
IMBALANCE = 0.7

_TODAY = re.compile(
    r"\b(?:today|tomorrow|yesterday|right now|(?:this|current|present) (?:date|day|week|month|year|time))\b",
    re.IGNORECASE,
)


def lint(data: bytes, system: bytes, *, graders: Grading, path: str = "panel.jsonl") -> list[str]:
    """Return every complaint about a panel as "file:line: sentence", in the order of the file; empty means clean."""
    _, rows, complaints = read_rows(data, graders=graders, path=path)
    found = [(int(complaint.removeprefix(f"{path}:").partition(":")[0]), complaint) for complaint in complaints]
    for rule in (_repeated(rows), _dated(rows), _unaccepted(rows, graders), _imbalanced(rows, graders)):
        found += [(row.line, f"{path}:{row.line}: {sentence}") for row, sentence in rule]
    return [complaint for _, complaint in sorted(found)] + system_complaints(system, path)


def _repeated(rows: list[Row]) -> Iterator[tuple[Row, str]]:
    """Find prompts that repeat an earlier one, to the byte or but for white space."""
    seen: dict[str, Item] = {}
    for row in rows:
        first = seen.setdefault("".join(row.item.prompt.split()), row.item)
        if first is not row.item:
            how = "is the same as" if first.prompt == row.item.prompt else "differs only in white space from"
            sentence = f"the prompt of item {row.item.item_id} {how} that of item {first.item_id}"
            yield row, f"{sentence}; a repeated question counts twice, remove one"


def _dated(rows: list[Row]) -> Iterator[tuple[Row, str]]:
    """Find prompts whose right answer depends on the day they are asked."""
    for row in rows:
        match = _TODAY.search(row.item.prompt)
        if match:
            sentence = f'item {row.item.item_id} says "{match.group()}"'
            yield row, f"{sentence}: its right answer would change from day to day, write the date out"


def _unaccepted(rows: list[Row], graders: Grading) -> Iterator[tuple[Row, str]]:
    """Find items whose grader does not give full marks to the item's own target."""
    for row in rows:
        reply = graders.right_reply(row.item)
        if graders.job(row.item, reply) is None and graders.grade(row.item, reply).score < 1:
            sentence = f"the grader {row.item.grader.type} does not accept the target of item {row.item.item_id}"
            yield row, f"{sentence}; correct the target or the grader's options"


def _imbalanced(rows: list[Row], graders: Grading) -> Iterator[tuple[Row, str]]:
    """Find families of two items or more in which one constant reply scores IMBALANCE or more on average.

    Items whose reply has to be run first are left out: no text answers two of them.
    """
    families: dict[str, list[Row]] = {}
    for row in rows:
        if row.item.family is not None and graders.job(row.item, graders.right_reply(row.item)) is None:
            families.setdefault(row.item.family, []).append(row)
    for family, members in families.items():
        replies = {graders.right_reply(row.item) for row in members} if len(members) > 1 else set()
        shares = {reply: _mean_score(members, reply, graders=graders) for reply in replies}
        share, reply = max(((share, reply) for reply, share in shares.items()), default=(0.0, ""))
        if share >= IMBALANCE:
            sentence = f"always answering {reply} scores {share:.0%} in family {family}"
            yield members[0], f"{sentence}; balance its targets so that no constant answer reaches {IMBALANCE:.0%}"


def _mean_score(members: list[Row], reply: str, *, graders: Grading) -> float:
    """Return what one constant reply scores on average."""
    return sum(graders.grade(row.item, reply).score for row in members) / len(members)
