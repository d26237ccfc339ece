"""Graders that compare text: `exact` and `edit`."""

from __future__ import annotations

import unicodedata

from canaryd.graders.base import (
    Example,
    Grader,
    Option,
    Options,
    flag,
    is_bool,
    is_fraction,
    is_text,
    number_option,
    quoted,
    scored,
    unanswered,
)
from canaryd.records import Grade, Item, JsonValue

#: A longer target would make one edit distance cost more than the length of the reply.
MAX_EDIT_TARGET = 10_000

_TEXT_OPTIONS = {
    "ignore_case": Option(is_bool, "true or false (default false): upper and lower case are the same"),
    "collapse_space": Option(is_bool, "true or false (default false): any run of white space is one space"),
    "strip": Option(is_text, "characters that are removed from both ends, besides white space"),
}


def normalised(text: str, options: Options) -> str:
    """Return text in Unicode NFC, folded and stripped as the options say; applying it again changes nothing.

    >>> normalised(" `A  b`. ", {"ignore_case": True, "collapse_space": True, "strip": "`."})
    'a b'
    """
    if flag(options, "ignore_case"):
        text = unicodedata.normalize("NFD", text).casefold()
    text = unicodedata.normalize("NFC", text)
    if flag(options, "collapse_space"):
        text = " ".join(text.split())
    marks = options.get("strip", "")
    return text.strip(str(marks) + _WHITE)


#: All that `str.split()` takes for white space, so that stripping marks and space together reaches a fixed point.
_WHITE = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())


def _accepted(target: JsonValue) -> list[str]:
    """Return the texts a target accepts."""
    return [str(one) for one in (target if isinstance(target, list) else [target])]


def _exact_complaint(target: JsonValue, options: Options) -> str | None:
    """Say why a target cannot be compared exactly."""
    texts = target if isinstance(target, list) else [target]
    if not texts or not all(isinstance(one, str) and normalised(one, options) for one in texts):
        return "the target must be a string, or a list of accepted strings, that is not empty once normalised"
    return None


def _judge_exact(answer: str, item: Item) -> Grade:
    """Score 1 where the normalised answer equals a normalised target."""
    options = item.grader.options
    read = normalised(answer, options)
    if not read:
        return unanswered("the answer is empty")
    right = read in {normalised(one, options) for one in _accepted(item.target)}
    return scored(float(right), f"read {quoted(read)}")


EXACT = Grader(
    name="exact",
    version=1,
    summary="The answer equals the target, or one of a list of them, in Unicode NFC without surrounding white space.",
    options=_TEXT_OPTIONS,
    target_complaint=_exact_complaint,
    right_answer=lambda target, _: _accepted(target)[0],
    judge=_judge_exact,
    examples=(
        Example("Tuesday", "It is <answer>Tuesday</answer>.", 1.0),
        Example("Tuesday", "<answer> Tuesday\n</answer>", 1.0),
        Example("Tuesday", "<answer>Monday</answer> I mean <answer>Tuesday</answer>", 1.0),
        Example("Tuesday", "<answer>tuesday</answer>", 0.0),
        Example("Tuesday", "<answer>TUESDAY</answer>", 1.0, options={"ignore_case": True}),
        Example("Tuesday", "<answer>Tuesday.</answer>", 0.0),
        Example("Tuesday", "<answer>`Tuesday`.</answer>", 1.0, options={"strip": "`."}),
        Example("a b", "<answer>a \n b</answer>", 0.0),
        Example("a b", "<answer>a \n b</answer>", 1.0, options={"collapse_space": True}),
        Example("caf\u00e9", "<answer>cafe\u0301</answer>", 1.0),
        Example(["yes", "true"], "<answer>true</answer>", 1.0),
        Example("Tuesday", "Tuesday", 0.0, answered=False),
        Example("Tuesday", "Tuesday", 1.0, options={"fallbacks": ["whole"]}),
        Example("Tuesday", "<answer></answer>", 0.0, answered=False),
        Example("Tuesday", "<answer>Tuesday", 0.0, answered=False),
    ),
)


def _edit_complaint(target: JsonValue, options: Options) -> str | None:
    """Say why a target cannot be compared by edit distance."""
    if not isinstance(target, str) or not normalised(target, options):
        return "the target must be a string that is not empty once normalised"
    if len(target) > MAX_EDIT_TARGET:
        return f"the target is longer than {MAX_EDIT_TARGET} characters"
    return None


def _judge_edit(answer: str, item: Item) -> Grade:
    """Score 1 - Levenshtein distance / the longer length, over code points."""
    from rapidfuzz.distance import Levenshtein

    options = item.grader.options
    read = normalised(answer, options)
    if not read:
        return unanswered("the answer is empty")
    score = Levenshtein.normalized_similarity(read, normalised(str(item.target), options))
    return scored(score, f"read {quoted(read)}", pass_at=number_option(options, "pass_at", default=1.0))


EDIT = Grader(
    name="edit",
    version=1,
    summary="1 - Levenshtein distance / the longer of the two lengths, in code points of Unicode NFC.",
    options=_TEXT_OPTIONS
    | {
        "pass_at": Option(is_fraction, "a number in (0, 1] (default 1): the score from which the item counts as passed")
    },
    target_complaint=_edit_complaint,
    right_answer=lambda target, _: str(target),
    judge=_judge_edit,
    examples=(
        Example("abcd", "<answer>abcd</answer>", 1.0),
        Example("abcd", "<answer>abed</answer>", 0.75),
        Example("abcd", "<answer>abcdefgh</answer>", 0.5),
        Example("abcd", "<answer>ABCD</answer>", 0.0),
        Example("abcd", "<answer>ABCD</answer>", 1.0, options={"ignore_case": True}),
        Example("abcd", "<answer>wxyz</answer>", 0.0),
        Example("abcd", "<answer>abc</answer>", 0.75, options={"pass_at": 0.7}),
        Example("abcd", "abcd", 0.0, answered=False),
        Example("abcd", "<answer> </answer>", 0.0, answered=False),
    ),
)
