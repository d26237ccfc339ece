"""The `regex` grader, on RE2: a pattern takes time linear in the reply, whatever the pattern."""

from __future__ import annotations

from typing import Any

from canaryd.graders.base import Example, Grader, Option, Options, is_bool, is_text, quoted, scored, unanswered
from canaryd.records import Grade, Item, JsonValue


def _compiled(pattern: JsonValue) -> Any:
    """Return a compiled RE2 pattern; raises `re2.error`."""
    import re2

    quiet = re2.Options()
    quiet.log_errors = False
    return re2.compile(pattern, quiet)


def _matches(answer: str, options: Options) -> bool:
    """Whether an answer matches; a lone surrogate, which has no UTF-8, counts as U+FFFD."""
    text = answer.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    pattern = _compiled(options["pattern"])
    return (pattern.search(text) if options.get("search") is True else pattern.fullmatch(text)) is not None


def _judge(answer: str, item: Item) -> Grade:
    """Score 1 where the answer matches."""
    if not answer:
        return unanswered("the answer is empty")
    return scored(float(_matches(answer, item.grader.options)), f"read {quoted(answer)}")


def _complaint(target: JsonValue, options: Options) -> str | None:
    """Say why a pattern or its example cannot be used."""
    import re2

    try:
        _compiled(options["pattern"])
    except re2.error as error:
        return f"the option 'pattern' is no RE2 pattern ({error})"
    if not isinstance(target, str) or not _matches(target, options):
        return "the target must be an example, a string that the pattern matches"
    return None


REGEX = Grader(
    name="regex",
    version=1,
    summary="The answer matches an RE2 pattern, as a whole unless `search` is set; the target is an example.",
    options={
        "pattern": Option(is_text, "a pattern in RE2's syntax", required=True),
        "search": Option(is_bool, "true or false (default false): a match anywhere is enough"),
    },
    target_complaint=_complaint,
    right_answer=lambda target, _: str(target),
    judge=_judge,
    examples=(
        Example("AB-12", "<answer>XY-99</answer>", 1.0, options={"pattern": "[A-Z]{2}-[0-9]{2}"}),
        Example("AB-12", "<answer>XY-999</answer>", 0.0, options={"pattern": "[A-Z]{2}-[0-9]{2}"}),
        Example("AB-12", "<answer>see XY-99.</answer>", 0.0, options={"pattern": "[A-Z]{2}-[0-9]{2}"}),
        Example("AB-12", "<answer>see XY-99.</answer>", 1.0, options={"pattern": "[A-Z]{2}-[0-9]{2}", "search": True}),
        Example("aab", "<answer>" + "a" * 40 + "</answer>", 0.0, options={"pattern": "(a+)+b"}),
        Example("AB-12", "<answer></answer>", 0.0, answered=False, options={"pattern": "[A-Z]{2}-[0-9]{2}"}),
        Example("AB-12", "XY-99", 0.0, answered=False, options={"pattern": "[A-Z]{2}-[0-9]{2}"}),
    ),
)
