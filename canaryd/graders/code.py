"""The `code` grader: a function, called with hidden inputs in a sandbox; what it must return never goes there."""

from __future__ import annotations

import keyword

from canaryd.graders import jsontext
from canaryd.graders.answers import extract
from canaryd.graders.base import Example, Grader, Job, JobResult, Option, Options, Outside, is_text, scored
from canaryd.records import Grade, Item, JsonValue


def _tests(target: JsonValue) -> list[tuple[list[JsonValue], JsonValue]] | None:
    """Return the calls of a target with what each must return, or None where it is not made that way."""
    tests = target.get("tests") if isinstance(target, dict) else None
    pairs = []
    for test in tests if isinstance(tests, list) else []:
        if not isinstance(test, dict) or test.keys() != {"args", "returns"} or not isinstance(test["args"], list):
            return None
        pairs.append((test["args"], test["returns"]))
    return pairs or None


def _target_complaint(target: JsonValue, _: Options) -> str | None:
    """Say why a target cannot be used."""
    solution = target.get("solution") if isinstance(target, dict) else None
    if not is_text(solution) or _tests(target) is None:
        return 'the target must be {"solution": source, "tests": [{"args": [...], "returns": value}, ...]}'
    return None


def _job(answer: str, item: Item) -> Job:
    """Return the program and the inputs; not the outputs."""
    tests = _tests(item.target)
    if tests is None:
        raise ValueError("the target has no tests")
    code = extract(answer, ("fence", "whole")) or ""
    return Job(code=code, entry=str(item.grader.options["entry"]), inputs=tuple(args for args, _ in tests))


def _judge(result: JobResult, item: Item) -> Grade:
    """Score 1 where every call returned what it must, compared as JSON values."""
    if result.outcome == "differs":
        raise ValueError("two runs of the program did not agree")
    if result.outcome != "returned":
        return scored(0.0, result.outcome)
    expected = [returns for _, returns in _tests(item.target) or []]
    right = len(result.outputs) == len(expected) and all(
        jsontext.form(got) == jsontext.form(wanted) for got, wanted in zip(result.outputs, expected, strict=True)
    )
    return scored(float(right), "pass" if right else "wrong")


def _solution(target: JsonValue, _: Options) -> str:
    """Return the target's own solution."""
    return str(target["solution"]) if isinstance(target, dict) else ""


def _is_entry(value: JsonValue) -> bool:
    """Whether a value can name a function."""
    return isinstance(value, str) and value.isidentifier() and not keyword.iskeyword(value)


_DOUBLE: JsonValue = {
    "solution": "def double(x):\n    return 2 * x",
    "tests": [{"args": [2], "returns": 4}, {"args": ["ab"], "returns": "abab"}],
}
_ENTRY: Options = {"entry": "double"}
_REPLY = "<answer>def double(x): return x + x</answer>"

CODE = Grader(
    name="code",
    version=1,
    summary="A Python function that returns what the hidden tests expect, in every call; run in the sandbox, twice.",
    options={"entry": Option(_is_entry, "the name of the function that is called", required=True)},
    target_complaint=_target_complaint,
    right_answer=_solution,
    judge=Outside(_job, _judge),
    examples=(
        Example(_DOUBLE, _REPLY, 1.0, options=_ENTRY, result=JobResult("returned", (4, "abab"))),
        Example(_DOUBLE, _REPLY, 1.0, options=_ENTRY, result=JobResult("returned", (4.0, "abab"))),
        Example(_DOUBLE, _REPLY, 0.0, options=_ENTRY, result=JobResult("returned", (4, "ab"))),
        Example(_DOUBLE, _REPLY, 0.0, options=_ENTRY, result=JobResult("returned", (4,))),
        Example(_DOUBLE, _REPLY, 0.0, options=_ENTRY, result=JobResult("exception")),
        Example(_DOUBLE, _REPLY, 0.0, options=_ENTRY, result=JobResult("timeout")),
        Example(_DOUBLE, _REPLY, 0.0, options=_ENTRY, result=JobResult("memory")),
        Example(_DOUBLE, _REPLY, 0.0, options=_ENTRY, result=JobResult("output_limit")),
        Example(_DOUBLE, _REPLY, 0.0, options=_ENTRY, result=JobResult("protocol_error")),
        Example(_DOUBLE, "def double(x): return x + x", 0.0, answered=False, options=_ENTRY),
        Example(_DOUBLE, "<answer> </answer>", 0.0, answered=False, options=_ENTRY),
    ),
)
