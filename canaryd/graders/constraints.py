"""The `constraints` grader: checkable instructions about the form of a text, with partial credit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from canaryd.graders.base import Example, Grader, Option, Options, scored, unanswered
from canaryd.records import Grade, Item, JsonValue

_EDGES = ".,;:!?\"'()[]{}*_`-"


@dataclass(frozen=True, slots=True)
class Text:
    """An answer, its lines that are not blank, and its words without the punctuation around them."""

    whole: str
    lines: tuple[str, ...]
    words: tuple[str, ...]


def _read(answer: str) -> Text:
    """Return an answer in the parts that rules look at."""
    lines = tuple(line.strip() for line in answer.splitlines() if line.strip())
    words = tuple(word for word in (one.strip(_EDGES) for one in answer.split()) if word)
    return Text(answer, lines, words)


Arguments = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of instruction: the arguments it takes ("count" or "text"), what it means, and its check."""

    arguments: Mapping[str, str]
    meaning: str
    holds: Callable[[Text, Arguments], bool]


def _within(count: int, arguments: Arguments) -> bool:
    """Whether a count lies between `min` and `max`, both included; an absent bound does not bind."""
    low, high = arguments.get("min", 0), arguments.get("max", count)
    return isinstance(low, int) and isinstance(high, int) and low <= count <= high


def _string(arguments: Arguments) -> str:
    """Return the argument `text`, folded."""
    return str(arguments["text"]).casefold()


def _initials(parts: tuple[str, ...]) -> str:
    """Return the first letters of parts, folded."""
    return "".join(part.lstrip(_EDGES)[:1] for part in parts).casefold()


_RANGE = {"min": "count", "max": "count"}
_TEXT = {"text": "text"}

RULES: Mapping[str, Rule] = {
    "words": Rule(_RANGE, "from `min` to `max` words", lambda text, args: _within(len(text.words), args)),
    "lines": Rule(
        _RANGE, "from `min` to `max` lines that are not blank", lambda text, args: _within(len(text.lines), args)
    ),
    "characters": Rule(_RANGE, "from `min` to `max` characters", lambda text, args: _within(len(text.whole), args)),
    "word_length": Rule(
        _RANGE,
        "every word has from `min` to `max` characters",
        lambda text, args: bool(text.words) and all(_within(len(word), args) for word in text.words),
    ),
    "occurs": Rule(
        {**_TEXT, **_RANGE},
        "`text` occurs from `min` to `max` times, in any case",
        lambda text, args: _within(text.whole.casefold().count(_string(args)), args),
    ),
    "starts_with": Rule(
        _TEXT, "begins with `text`, in any case", lambda text, args: text.whole.casefold().startswith(_string(args))
    ),
    "ends_with": Rule(
        _TEXT, "ends with `text`, in any case", lambda text, args: text.whole.casefold().endswith(_string(args))
    ),
    "lowercase": Rule({}, "no capital letters", lambda text, _: text.whole == text.whole.lower()),
    "uppercase": Rule({}, "no small letters", lambda text, _: text.whole == text.whole.upper()),
    "line_prefix": Rule(
        _TEXT,
        "every line begins with `text`",
        lambda text, args: bool(text.lines) and all(line.startswith(str(args["text"])) for line in text.lines),
    ),
    "line_initials": Rule(
        _TEXT, "the first letters of the lines spell `text`", lambda text, args: _initials(text.lines) == _string(args)
    ),
    "word_initials": Rule(
        _TEXT, "the first letters of the words spell `text`", lambda text, args: _initials(text.words) == _string(args)
    ),
    "alphabetical": Rule(
        {},
        "the words stand in alphabetical order",
        lambda text, _: bool(text.words) and list(text.words) == sorted(text.words, key=str.casefold),
    ),
    "distinct_words": Rule(
        {},
        "no word comes twice",
        lambda text, _: bool(text.words) and len({word.casefold() for word in text.words}) == len(text.words),
    ),
}


def _checks(options: Options) -> list[Mapping[str, JsonValue]]:
    """Return the checks an item declares."""
    declared = options["checks"]
    return [one for one in declared if isinstance(one, dict)] if isinstance(declared, list) else []


def _holds(check: Mapping[str, JsonValue], text: Text) -> bool:
    """Whether one check holds."""
    return RULES[str(check["kind"])].holds(text, check)


def _judge(answer: str, item: Item) -> Grade:
    """Score the share of checks that hold."""
    if not answer:
        return unanswered("the answer is empty")
    text, checks = _read(answer), _checks(item.grader.options)
    failed = [str(check["kind"]) for check in checks if not _holds(check, text)]
    return scored(1 - len(failed) / len(checks), f"fails {', '.join(failed)}" if failed else "all hold")


def _check_complaint(check: JsonValue) -> str | None:
    """Say why one check cannot be used."""
    kind = check.get("kind") if isinstance(check, dict) else None
    if not isinstance(check, dict) or not isinstance(kind, str) or kind not in RULES:
        return f"a check is an object whose 'kind' is one of {', '.join(RULES)}"
    allowed = RULES[kind].arguments
    given = {key: value for key, value in check.items() if key != "kind"}
    unknown = sorted(given.keys() - allowed.keys())
    if unknown:
        return f"the check {kind} has the unknown argument {unknown[0]!r}"
    if ("text" in allowed and "text" not in given) or (allowed and not given):
        return f"the check {kind} needs {' or '.join(allowed)}"
    for key, value in given.items():
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not (is_count if allowed[key] == "count" else isinstance(value, str) and value):
            return f"the check {kind} has an argument {key!r} that is no {allowed[key]}"
    return None


def _target_complaint(target: JsonValue, options: Options) -> str | None:
    """Say why the checks or the example cannot be used."""
    declared = options["checks"]
    complaints = [_check_complaint(check) for check in (declared if isinstance(declared, list) else [])]
    first = next((complaint for complaint in complaints if complaint), None)
    if first:
        return f"the option 'checks' is refused: {first}"
    if not isinstance(target, str) or not target.strip():
        return "the target must be an example, a string that passes all checks"
    failed = [str(check["kind"]) for check in _checks(options) if not _holds(check, _read(target.strip()))]
    return f"the target must be an example, but it fails {', '.join(failed)}" if failed else None


def _of(*checks: dict[str, JsonValue]) -> Options:
    """Return the options that declare checks."""
    return {"checks": list(checks)}


_TWO = _of({"kind": "words", "min": 3, "max": 3}, {"kind": "lowercase"})

CONSTRAINTS = Grader(
    name="constraints",
    version=1,
    summary="The share of checks on the form of the answer that hold; the target is an example that passes them all.",
    options={
        "checks": Option(
            lambda value: isinstance(value, list) and len(value) > 0,
            "a list of checks, each with a 'kind' out of " + ", ".join(RULES),
            required=True,
        )
    },
    target_complaint=_target_complaint,
    right_answer=lambda target, _: str(target),
    judge=_judge,
    examples=(
        Example("a fine day", "<answer>one more word</answer>", 1.0, options=_TWO),
        Example("a fine day", "<answer>One more word</answer>", 0.5, options=_TWO),
        Example("a fine day", "<answer>Many more words here</answer>", 0.0, options=_TWO),
        Example("a fine day", "<answer></answer>", 0.0, answered=False, options=_TWO),
        Example("a fine day", "one more word", 0.0, answered=False, options=_TWO),
        Example("a\nb", "<answer>x\n\ny</answer>", 1.0, options=_of({"kind": "lines", "min": 2, "max": 2})),
        Example("abc", "<answer>abcd</answer>", 0.0, options=_of({"kind": "characters", "max": 3})),
        Example("on off", "<answer>up, down!</answer>", 1.0, options=_of({"kind": "word_length", "max": 4})),
        Example(
            "Tree", "<answer>tree and TREE</answer>", 1.0, options=_of({"kind": "occurs", "text": "tree", "min": 1})
        ),
        Example("sky", "<answer>tree</answer>", 0.0, options=_of({"kind": "occurs", "text": "e", "max": 0})),
        Example("Well, yes", "<answer>well done</answer>", 1.0, options=_of({"kind": "starts_with", "text": "Well"})),
        Example("The end", "<answer>The end.</answer>", 0.0, options=_of({"kind": "ends_with", "text": "end"})),
        Example("A B", "<answer>A b</answer>", 0.0, options=_of({"kind": "uppercase"})),
        Example("- a", "<answer>- a\n- b</answer>", 1.0, options=_of({"kind": "line_prefix", "text": "- "})),
        Example("Sun\nEast", "<answer>See\nElse</answer>", 1.0, options=_of({"kind": "line_initials", "text": "se"})),
        Example("big cat", "<answer>Blue (Car)</answer>", 1.0, options=_of({"kind": "word_initials", "text": "bc"})),
        Example("a b c", "<answer>apple Bear cat</answer>", 1.0, options=_of({"kind": "alphabetical"})),
        Example("a b", "<answer>no No</answer>", 0.0, options=_of({"kind": "distinct_words"})),
        Example("a b", "<answer>!!!</answer>", 0.0, options=_of({"kind": "distinct_words"})),
    ),
)
