"""The `choice` grader: one letter out of a few."""

from __future__ import annotations

import re

from canaryd.graders.base import Example, Grader, Option, Options, scored, unanswered
from canaryd.records import Grade, Item, JsonValue

_DECORATION = str.maketrans("*_`#${}", "       ")
_LATEX = re.compile(r"\\[A-Za-z]++")
_LABEL = re.compile(r"(?:the )?(?:final |correct |best |right )?(?:answer|option|choice)(?: is)? ?:? ?", re.I | re.A)
_LETTER = re.compile(r"[(\[]?([A-Za-z])([)\].:,;]{0,3}+)(?: (.*))?", re.DOTALL)
_STRONG = ")].:"


def _labels(options: Options) -> str:
    """Return the letters an item offers."""
    return str(options.get("labels", "ABCD"))


def _is_labels(value: JsonValue) -> bool:
    """Whether a value is a string of at least two different capital letters."""
    return isinstance(value, str) and bool(re.fullmatch("[A-Z]{2,26}", value)) and len(set(value)) == len(value)


def chosen(answer: str, labels: str) -> str | None:
    """Return the one letter an answer chooses, or None where it chooses none or names several.

    A letter that stands alone counts; so does one that is marked as an option (`B)`, `B.`, `(B)`, `B:`) in front of an
    explanation, unless the explanation marks another option in the same way.

    >>> chosen("**B.**", "ABCD"), chosen("B) because A is too small", "ABCD"), chosen("A, B, and C", "ABCD")
    ('B', 'B', None)
    """
    text = " ".join(_LATEX.sub(" ", answer).translate(_DECORATION).split())
    for _ in range(2):  # "the answer is option B"
        text = _LABEL.sub("", text, count=1) if _LABEL.match(text) else text
    match = _LETTER.fullmatch(text)
    if match is None or match.group(1).upper() not in labels:
        return None
    letter, marks, rest = match.group(1).upper(), match.group(2), match.group(3)
    if rest is None:
        return letter
    mark = next((one for one in marks if one in _STRONG), None)
    others = labels.replace(letter, "")
    if mark is None or re.search(rf"(?<!\w)[{others}]{re.escape(mark)}", rest):
        return None
    return letter


def _judge(answer: str, item: Item) -> Grade:
    """Score 1 where the chosen letter is the target."""
    letter = chosen(answer, _labels(item.grader.options))
    if letter is None:
        return unanswered("no single option is chosen")
    return scored(float(letter == item.target), f"read {letter}")


def _complaint(target: JsonValue, options: Options) -> str | None:
    """Say why a target is no choice."""
    labels = _labels(options)
    if not (isinstance(target, str) and len(target) == 1 and target in labels):
        return f"the target must be one of the letters {labels}"
    return None


CHOICE = Grader(
    name="choice",
    version=1,
    summary="The answer chooses one letter: alone, or marked as an option in front of an explanation.",
    options={"labels": Option(_is_labels, 'different capital letters in one string (default "ABCD")')},
    target_complaint=_complaint,
    right_answer=lambda target, _: str(target),
    judge=_judge,
    examples=(
        Example("B", "<answer>B</answer>", 1.0),
        Example("B", "<answer>b</answer>", 1.0),
        Example("B", "<answer>A</answer>", 0.0),
        Example("B", "**B.**", 1.0, options={"fallbacks": ["whole"]}),
        Example("B", "(B)", 1.0, options={"fallbacks": ["whole"]}),
        Example("B", "B) because A is smaller", 1.0, options={"fallbacks": ["whole"]}),
        Example("B", "Answer: B,", 1.0, options={"fallbacks": ["line"]}),
        Example("B", "The correct answer is option B.", 1.0, options={"fallbacks": ["whole"]}),
        Example("B", "\\boxed{\\text{B}}", 1.0, options={"fallbacks": ["boxed"]}),
        Example("B", "A, B, and C", 0.0, answered=False, options={"fallbacks": ["whole"]}),
        Example("A", "A) 3 B) 4", 0.0, answered=False, options={"fallbacks": ["whole"]}),
        Example("A", "A cat sat.", 0.0, answered=False, options={"fallbacks": ["whole"]}),
        Example("F", "<answer>F</answer>", 1.0, options={"labels": "ABCDEFG"}),
        Example("B", "<answer>F</answer>", 0.0, answered=False),
        Example("B", "B", 0.0, answered=False),
    ),
)
