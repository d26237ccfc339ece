"""Graders that read one number: `number` and `digits`."""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

from canaryd.graders.base import Example, Grader, Option, Options, number_option, quoted, scored, unanswered
from canaryd.records import Grade, Item, JsonValue

#: A longer numeral is read as "some other number": Python refuses to convert integers of more than 4300 digits.
MAX_DIGITS = 4000
#: A longer answer is not read: it is not one number.
MAX_ANSWER = 50_000

_SIGNS = dict.fromkeys("\u2212\u2010\u2011\u2013", "-") | dict.fromkeys("\u00d7\u00b7\u22c5", "*") | {"\u3002": "."}
_SPACING = re.compile(r"\\(?:[,;:! ()\[\]]|quad\b|left\b|right\b|displaystyle\b)")
_FRACTION = re.compile(r"\\[dt]?frac ?(?:\{([^{}]*+)\} ?\{([^{}]*+)\}|(\d)(\d))")
_POWER = re.compile(r" ?(?:\*|\\times|\\cdot|(?<=\d)x|(?<=\d )x) ?10 ?\^ ?\{?([-+]?\d{1,6})\}?")
_COMMAND = re.compile(r"\\[A-Za-z]++")
_GROUPED = re.compile(r"(?<=\d)[ '](?=\d{3}(?!\d))")
_NAME = re.compile(r"(?<![\d.])[A-Za-z]")
_TOKEN = re.compile(r"([-+]?)\(?([^()%]*+)\)?(%?)")
_NUMERAL = re.compile(r"(?:(\d{1,3}(?:,\d{3})++|\d++)(?:\.(\d*+))?|\.(\d++))(?:[eE]([-+]?\d{1,6}))?")
_NUMERAL_LIKE = re.compile(r"[.,]*+\d[\d.,]*+")
_OPENING, _CLOSING = "([*`'\"~", ")]*`'\".,;!?\u00b0"


class Unequal:
    """Something written like a number whose value is not one any target has (`8,00`, or 10,000 digits)."""


def token(answer: str) -> str | None:
    """Return the one token with digits in an answer, in plain ASCII notation, or None where there is none or several.

    LaTeX, Unicode signs and digits, currency signs and thousands separated by spaces are written plainly first; of a
    chain of equalities the last side counts; a lone arithmetic sign makes the answer an expression, not a number.

    >>> token("$8{,}000.$"), token("x = \\\\frac{1}{2}"), token("5 or 6"), token("3 - 5")
    ('8,000', '1/2', None, None)
    """
    if len(answer) > MAX_ANSWER:
        return None
    tokens = _plain(answer).split(" ")
    numeric = [one for one in tokens if any(char.isdigit() for char in one)]
    if len(numeric) != 1 or any(one and not one.strip("-+/^") for one in tokens):
        return None
    return numeric[0].lstrip(_OPENING).rstrip(_CLOSING)


def _plain(answer: str) -> str:
    """Return an answer with LaTeX and Unicode notation written in ASCII and single spaces."""
    exotic = {ord(char): _ascii(char) for char in set(answer) if not char.isascii()}
    text = answer.translate(exotic).replace("{,}", ",").replace("\\$", "").replace("\\%", "%")
    text = " ".join(_SPACING.sub(" ", text).split()).translate({ord(char): None for char in "$"})
    text = _FRACTION.sub(lambda match: "({}/{})".format(*[one for one in match.groups() if one is not None]), text)
    text = _COMMAND.sub(" ", _POWER.sub(r"e\1", text)).translate(str.maketrans("{}:\u2248", "   ="))
    *sides, text = text.split("=")
    if any(_NAME.search(side) for side in sides[1:]):  # "x = 5, y = 6" are two equations, no chain
        return ""
    text = " ".join(text.split()).replace(" /", "/").replace("/ ", "/").replace(" %", "%")
    return _GROUPED.sub(",", text)


def _ascii(char: str) -> str:
    """Return how one non-ASCII character is written plainly; what has no plain form stays."""
    value = unicodedata.decimal(char, None)
    if value is not None:
        return str(value)
    if unicodedata.decomposition(char).startswith("<fraction>"):
        return " " + unicodedata.normalize("NFKC", char).replace("\u2044", "/")
    if unicodedata.decomposition(char).startswith("<wide>"):
        return unicodedata.normalize("NFKC", char)
    if char in _SIGNS:
        return _SIGNS[char]
    category = unicodedata.category(char)
    if category in ("Sc", "Cf"):
        return ""
    return " " if char.isspace() or category in ("Pi", "Pf", "Ps", "Pe") else char


def value(text: str, *, percent: str = "fraction") -> Fraction | Unequal | None:
    """Return the value of a token, `Unequal` where it is a numeral without a usable value, None where it is no number.

    `percent` is "fraction" (50% is 1/2) or "points" (50% is 50).

    >>> value("8,000"), value("-1/2"), value("50%"), value("1.5e3"), value("1_000"), value("nan")
    (Fraction(8000, 1), Fraction(-1, 2), Fraction(1, 2), Fraction(1500, 1), None, None)
    """
    match = _TOKEN.fullmatch(text)
    if match is None:
        return None
    above, slash, below = match.group(2).partition("/")
    parts = [_numeral(above)] + ([_numeral(below)] if slash else [])
    result = Fraction(-1 if match.group(1) == "-" else 1)
    for power, part in zip((1, -1), parts, strict=False):
        if not isinstance(part, Fraction):
            return part
        if power < 0 and part == 0:
            return Unequal()
        result *= part**power
    return result / 100 if match.group(3) and percent == "fraction" else result


def _numeral(text: str) -> Fraction | Unequal | None:
    """Return the value of an unsigned numeral."""
    match = _NUMERAL.fullmatch(text)
    if match is None:
        return Unequal() if _NUMERAL_LIKE.fullmatch(text) else None
    whole, decimals, bare, exponent = (group or "" for group in match.groups())
    whole, decimals = whole.replace(",", ""), (decimals or bare).rstrip("0")
    power = int(exponent or 0)
    if len(whole) + len(decimals) > MAX_DIGITS or abs(power) > MAX_DIGITS:
        return Unequal()
    return Fraction(int(whole + decimals or 0)) * Fraction(10) ** (power - len(decimals))


def _target_value(target: JsonValue, options: Options) -> Fraction | None:
    """Return the value of a target, or None where it is no number."""
    if isinstance(target, bool) or not isinstance(target, int | float | str):
        return None
    read = value(token(str(target)) or "", percent=str(options.get("percent", "fraction")))
    return read if isinstance(read, Fraction) else None


def _judge_number(answer: str, item: Item) -> Grade:
    """Score 1 where |answer - target| <= max(abs_tol, rel_tol * |target|), in exact rational arithmetic."""
    options = item.grader.options
    text = token(answer)
    read = None if text is None else value(text, percent=str(options.get("percent", "fraction")))
    if text is None or read is None:
        return unanswered("no single number is given")
    wanted = _target_value(item.target, options)
    if isinstance(read, Unequal) or wanted is None:
        return scored(0.0, f"read {quoted(text)}")
    absolute = Fraction(number_option(options, "abs_tol", default=0.0))
    relative = Fraction(number_option(options, "rel_tol", default=0.0))
    right = abs(read - wanted) <= max(absolute, relative * abs(wanted))
    return scored(float(right), f"read {quoted(text)}")


def _number_complaint(target: JsonValue, options: Options) -> str | None:
    """Say why a target is no number."""
    if _target_value(target, options) is None:
        return "the target must be a number, or a number written as a string"
    return None


def _is_tolerance(value: JsonValue) -> bool:
    """Whether a value is a finite number that is not negative."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


_BOXED: Options = {"fallbacks": ["boxed", "whole"]}

NUMBER = Grader(
    name="number",
    version=1,
    summary="The answer holds exactly one number, and it equals the target within the tolerances (default: exactly).",
    options={
        "abs_tol": Option(_is_tolerance, "a number >= 0 (default 0): accepted absolute difference"),
        "rel_tol": Option(_is_tolerance, "a number >= 0 (default 0): accepted difference as a fraction of the target"),
        "percent": Option(
            lambda value: value in ("fraction", "points"),
            '"fraction" (default: 50% is 0.5) or "points" (50% is 50)',
        ),
    },
    target_complaint=_number_complaint,
    right_answer=lambda target, _: str(target),
    judge=_judge_number,
    examples=(
        Example(8000, "<answer>8000</answer>", 1.0),
        Example(8000, "\\boxed{8{,}000}", 1.0, options=_BOXED),
        Example(8000, "$8,000.", 1.0, options=_BOXED),
        Example(8000, "8 000", 1.0, options=_BOXED),
        Example(8000, "8000.00", 1.0, options=_BOXED),
        Example(8000, "<answer>$1000 * 8 = 8\\,000$ apples</answer>", 1.0),
        Example(8000, "<answer>8 \\times 10^{3}</answer>", 1.0),
        Example(8000, "<answer>\\(8000\\)</answer>", 1.0),
        Example(8000, "<answer>\u201c8'000\u201d</answer>", 1.0),
        Example(8000, "<answer>8,00</answer>", 0.0),
        Example(8000, "<answer>18000</answer>", 0.0),
        Example("1/2", "\\boxed{1} no, \\boxed{\\frac{1}{2}}", 1.0, options=_BOXED),
        Example("1/2", "<answer>0.5</answer>", 1.0),
        Example("1/2", "<answer>1 / 2</answer>", 1.0),
        Example("1/2", "<answer>\u00bd</answer>", 1.0),
        Example("1/2", "<answer>50 %</answer>", 1.0),
        Example(50, "<answer>50%</answer>", 1.0, options={"percent": "points"}),
        Example(-5, "<answer>\u22125</answer>", 1.0),
        Example(-5, "<answer>-5.0</answer>", 1.0),
        Example(-5, "<answer>5</answer>", 0.0),
        Example(-5, "<answer>25</answer>", 0.0),
        Example(42, "<answer>\uff14\uff12</answer>", 1.0),
        Example(3.14, "<answer>3.1416</answer>", 1.0, options={"abs_tol": 0.005}),
        Example(1000, "<answer>1004</answer>", 1.0, options={"rel_tol": 0.005}),
        Example(1000, "<answer>1_000</answer>", 0.0, answered=False),
        Example(1000, "<answer>nan</answer>", 0.0, answered=False),
        Example(1000, "<answer>Infinity</answer>", 0.0, answered=False),
        Example(10, "<answer>between 5 and 10</answer>", 0.0, answered=False),
        Example(10, "<answer>5-10</answer>", 0.0, answered=False),
        Example(10, "<answer>x = 5, y = 10</answer>", 0.0, answered=False),
        Example(10, "It is 10.", 0.0, answered=False),
    ),
)


def _integer(text: str) -> tuple[str, str] | None:
    """Return sign and digits (no leading zeros) of a token that writes an integer."""
    match = re.fullmatch(r"([-+]?)(\d{1,3}(?:,\d{3})++|\d++)(?:\.0*+)?", text)
    if match is None:
        return None
    digits = match.group(2).replace(",", "").lstrip("0") or "0"
    return ("-" if match.group(1) == "-" and digits != "0" else ""), digits


def _judge_digits(answer: str, item: Item) -> Grade:
    """Score the share of right-aligned digits that agree, of the longer of the two; a wrong sign scores 0."""
    text = token(answer)
    read = None if text is None else _integer(text)
    if text is None or read is None:
        return unanswered("no single integer is given")
    wanted = _integer(str(item.target))
    if wanted is None:
        raise ValueError("the target is not an integer")
    (sign, digits), (wanted_sign, wanted_digits) = read, wanted
    agreeing = sum(a == b for a, b in zip(reversed(digits), reversed(wanted_digits), strict=False))
    score = agreeing / max(len(digits), len(wanted_digits)) if sign == wanted_sign else 0.0
    return scored(score, f"read {quoted(text)}")


def _digits_complaint(target: JsonValue, _: Options) -> str | None:
    """Say why a target is no integer."""
    if isinstance(target, bool) or not isinstance(target, int | str) or _integer(str(target)) is None:
        return "the target must be an integer, or an integer written as a string"
    return None


DIGITS = Grader(
    name="digits",
    version=1,
    summary="The share of digits of an integer that agree, aligned at the right, of the longer of the two.",
    options={},
    target_complaint=_digits_complaint,
    right_answer=lambda target, _: str(target),
    judge=_judge_digits,
    examples=(
        Example("123456", "<answer>123456</answer>", 1.0),
        Example("123456", "<answer>123,456</answer>", 1.0),
        Example("123456", "<answer>123450</answer>", 5 / 6),
        Example("123456", "<answer>3456</answer>", 4 / 6),
        Example("123456", "<answer>9123456</answer>", 6 / 7),
        Example("123456", "<answer>1234560</answer>", 0.0),
        Example("-12", "<answer>12</answer>", 0.0),
        Example("-12", "<answer>\u221212</answer>", 1.0),
        Example("12", "<answer>12.5</answer>", 0.0, answered=False),
        Example("12", "<answer>1 2 3</answer>", 0.0, answered=False),
        Example("12", "12", 0.0, answered=False),
    ),
)
