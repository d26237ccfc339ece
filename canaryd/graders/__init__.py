"""The graders: same item, same text, same grade, forever. One table, one entry point."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from canaryd import hashing
from canaryd.graders.answers import FALLBACKS, extract
from canaryd.graders.base import (
    Example,
    Grader,
    GraderError,
    Job,
    JobResult,
    Opinion,
    Option,
    Outside,
    Question,
    Result,
    unanswered,
)
from canaryd.graders.choice import CHOICE
from canaryd.graders.code import CODE
from canaryd.graders.constraints import CONSTRAINTS
from canaryd.graders.judge import JUDGE
from canaryd.graders.number import DIGITS, NUMBER
from canaryd.graders.pattern import REGEX
from canaryd.graders.schema import SCHEMA
from canaryd.graders.text import EDIT, EXACT
from canaryd.records import Grade, Item, JsonValue

__all__ = [
    "GRADERS",
    "SHARED_OPTIONS",
    "GraderError",
    "Job",
    "JobResult",
    "Opinion",
    "Question",
    "complaint",
    "digest",
    "grade",
    "grade_example",
    "job",
    "right_reply",
]

GRADERS: Mapping[str, Grader] = MappingProxyType(
    {member.name: member for member in (EXACT, CHOICE, NUMBER, DIGITS, EDIT, CONSTRAINTS, SCHEMA, REGEX, CODE, JUDGE)}
)

#: What a grader that meets an item or a text it was not made for may raise; anything else is a fault of the harness.
_FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def _is_fallbacks(value: JsonValue) -> bool:
    """Whether a value is a list of different forms of an answer."""
    return isinstance(value, list) and all(one in FALLBACKS for one in value) and len(set(value)) == len(value)


#: Options that every grader takes.
SHARED_OPTIONS: Mapping[str, Option] = MappingProxyType(
    {"fallbacks": Option(_is_fallbacks, f"a list out of {', '.join(FALLBACKS)}, tried in that order without a tag")}
)


def grade(item: Item, reply: str | Result) -> Grade:
    """Return the grade of a reply's text, or of the result of the job it asked for (see `job`); pure.

    Raises:
        GraderError: the grader raised, its score is not in [0, 1], or it needs a job and was given a text with an
            answer; the caller records a failure `grader_error`.

    >>> from canaryd.records import GraderSpec
    >>> item = Item("i", family="f", cluster="i", prompt="2 + 2?", target=4, grader=GraderSpec("number"))
    >>> grade(item, "<answer>4</answer>").score
    1.0
    """
    grader = _grader(item)
    try:
        judged = _judged(grader, item, reply=reply)
    except _FAULTS as error:
        raise GraderError(f"grader {grader.name} failed on item {item.item_id}: {type(error).__name__}") from error
    if not (math.isfinite(judged.score) and 0 <= judged.score <= 1):
        raise GraderError(f"grader {grader.name} scored item {item.item_id} outside [0, 1]")
    return replace(judged, grader=f"{grader.name}@{grader.version}")


def _judged(grader: Grader, item: Item, *, reply: str | Result) -> Grade:
    """Return what the grader's own half says."""
    if isinstance(grader.judge, Outside):
        if not isinstance(reply, str):
            return grader.judge.judge(reply, item)
        if _answer(item, reply):
            raise ValueError("its answer needs outside work first")
        return unanswered("no answer in a declared form")
    if not isinstance(reply, str):
        raise TypeError("it takes no job")
    answer = _answer(item, reply)
    return unanswered("no answer in a declared form") if answer is None else grader.judge(answer, item)


def job(item: Item, text: str) -> Job | Question | None:
    """Return the outside work that a reply needs before it can be graded, or None where it can be graded as it is.

    Raises:
        GraderError: the job cannot be made.
    """
    grader = _grader(item)
    if not isinstance(grader.judge, Outside):
        return None
    try:
        answer = _answer(item, text)
        return grader.judge.job(answer, item) if answer else None
    except _FAULTS as error:
        raise GraderError(f"grader {grader.name} failed on item {item.item_id}: {type(error).__name__}") from error


def _grader(item: Item) -> Grader:
    """Return the grader an item names."""
    grader = GRADERS.get(item.grader.type)
    if grader is None:
        raise GraderError(f"item {item.item_id} names the unknown grader {item.grader.type}")
    return grader


def _answer(item: Item, text: str) -> str | None:
    """Return the answer in a reply, in the forms the item declares."""
    return extract(text, _fallbacks(item))


def _fallbacks(item: Item) -> tuple[str, ...]:
    """Return the forms an item declares besides the tag, in its order."""
    declared = item.grader.options.get("fallbacks", [])
    return tuple(map(str, declared)) if isinstance(declared, list) else ()


def complaint(item: Item) -> str | None:
    """Return why an item's grader cannot judge it (unknown grader or option, bad value, unusable target), or None."""
    spec = item.grader
    grader = GRADERS.get(spec.type)
    if grader is None:
        return f"the grader {spec.type!r} does not exist; use one of {', '.join(GRADERS)}"
    allowed = {**SHARED_OPTIONS, **grader.options}
    for name, setting in spec.options.items():
        if name not in allowed:
            return f"the grader {spec.type} has no option {name!r}; it takes {', '.join(sorted(allowed))}"
        if not allowed[name].accepts(setting):
            return f"the option {name!r} of grader {spec.type} must be {allowed[name].meaning}"
    missing = [name for name, option in allowed.items() if option.required and name not in spec.options]
    if missing:
        return f"the grader {spec.type} needs the option {missing[0]!r}: {allowed[missing[0]].meaning}"
    return grader.target_complaint(item.target, spec.options)


def right_reply(item: Item) -> str:
    """Return a reply that scores 1 on an item (after its job, where it needs one)."""
    return f"<answer>{GRADERS[item.grader.type].right_answer(item.target, item.grader.options)}</answer>"


def grade_example(name: str, example: Example) -> Grade:
    """Return the grade of one row of a grader's golden table."""
    return grade(example.item(name), example.text if example.result is None else example.result)


def digest(name: str) -> str:
    """Return the digest of a grader: its version and the results of its golden table, as it judges them now.

    An edit that changes a result without a new version is seen.
    """
    results: list[JsonValue] = []
    for example in GRADERS[name].examples:
        judged = grade_example(name, example)
        results.append([judged.score, judged.answered, judged.passed])
    return hashing.digest(hashing.canonical_json([name, GRADERS[name].version, results]))
