"""The interface of a grader: what a member of the GRADERS table is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from canaryd.records import Grade, GraderSpec, Item, JsonValue

Options: TypeAlias = Mapping[str, JsonValue]


class GraderError(Exception):
    """A grader could not judge: the sample is a failure `grader_error`, never a score."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option an item may set: which values are accepted, and the sentence that says so."""

    accepts: Callable[[JsonValue], bool]
    meaning: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """Work a grader needs done outside: call `entry` of a program once per input. Holds nothing of what is expected."""

    code: str
    entry: str
    inputs: tuple[list[JsonValue], ...]


#: How an untrusted program ended; "differs" means that two runs of it did not agree.
JobOutcome: TypeAlias = Literal[
    "returned", "exception", "timeout", "memory", "output_limit", "protocol_error", "differs"
]


@dataclass(frozen=True, slots=True)
class JobResult:
    """What came of a job; `outputs` are what the calls returned, in the order of the inputs, where all returned."""

    outcome: JobOutcome
    outputs: tuple[JsonValue, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """Work for a judge: the rules that it is told, and what it is asked."""

    system: str
    prompt: str


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a judge answered to a question, as it wrote it."""

    text: str


#: What comes of outside work: of a program that ran, or of a judge that was asked.
Result: TypeAlias = JobResult | Opinion


@dataclass(frozen=True, slots=True)
class Example:
    """One row of a grader's golden table: it is documentation, test, and part of the grader's digest.

    `result` is what the job came to, for a grader that needs one.
    """

    target: JsonValue
    text: str
    score: float
    answered: bool = True
    options: Options = field(default_factory=dict)
    result: Result | None = None

    def item(self, grader: str) -> Item:
        """Return an item that asks for this example's target."""
        spec = GraderSpec(grader, self.options)
        return Item("example", family="example", cluster="example", prompt="", target=self.target, grader=spec)


@dataclass(frozen=True, slots=True)
class Outside:
    """The two pure halves of a grader that needs outside work: the job an answer asks for, and its result's grade."""

    job: Callable[[str, Item], Job | Question]
    judge: Callable[[Any, Item], Grade]


@dataclass(frozen=True, slots=True)
class Grader:
    """One member of the table.

    `judge` sees the extracted answer and the item, or is `Outside`; either way it is pure. `target_complaint` says why
    a target cannot be used, or returns None. `right_answer` gives an answer that scores 1.
    """

    name: str
    version: int
    summary: str
    options: Mapping[str, Option]
    target_complaint: Callable[[JsonValue, Options], str | None]
    right_answer: Callable[[JsonValue, Options], str]
    judge: Callable[[str, Item], Grade] | Outside
    examples: tuple[Example, ...]


def scored(score: float, detail: str = "", *, pass_at: float = 1.0) -> Grade:
    """Return the grade of an answer that could be read.

    >>> scored(0.5).passed
    False
    """
    return Grade(score=score, answered=True, passed=score >= pass_at, detail=detail)


def unanswered(detail: str) -> Grade:
    """Return the grade of a reply in which no answer could be read: score 0, and said so."""
    return Grade(score=0.0, answered=False, passed=False, detail=detail)


def quoted(text: str, *, limit: int = 60) -> str:
    """Return an answer as short printable ASCII for a grade's detail.

    >>> quoted("π" * 3, limit=8)
    "'\\\\u03c0..."
    """
    shown = ascii(text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "..."


def is_bool(value: JsonValue) -> bool:
    """Whether an option's value is true or false."""
    return isinstance(value, bool)


def is_fraction(value: JsonValue) -> bool:
    """Whether an option's value is a number in (0, 1]."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1


def is_text(value: JsonValue) -> bool:
    """Whether a value is a string with something in it."""
    return isinstance(value, str) and bool(value.strip())


def flag(options: Options, name: str) -> bool:
    """Return a boolean option; absent means false."""
    return options.get(name) is True


def number_option(options: Options, name: str, *, default: float) -> float:
    """Return a numeric option, or its default where the item does not set it.

    Raises:
        TypeError: the value is no number (a panel with such an option is refused when it is loaded).
    """
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"option {name} is not a number")
    return float(value)
