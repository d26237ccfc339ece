"""Where in a reply the answer stands: the one place that decides it."""

from __future__ import annotations

import re

_OPEN = re.compile(r"<answer>", re.IGNORECASE | re.ASCII)
_CLOSE = re.compile(r"</answer>", re.IGNORECASE | re.ASCII)
_BRACES = re.compile(r"\\boxed *+\{|\\[{}]|[{}]")
_LINE = re.compile(r"[ \t*_#>`-]*+(?:final )?answer[*_`]*+ ?:[*_`]*+(.*+)", re.IGNORECASE | re.ASCII)
_FENCE = re.compile(r" {0,3}```")

#: The forms an item may declare besides the tag, by name.
FALLBACKS = ("boxed", "line", "fence", "whole")


def extract(text: str, fallbacks: tuple[str, ...] = ()) -> str | None:
    """Return the answer in a reply without surrounding white space, or None where no declared form is present.

    The last `<answer>...</answer>` always counts. Without one, the declared `fallbacks` are tried in their order:
    `boxed` (the last balanced `\\boxed{...}`), `line` (the last line that starts with "ANSWER:"), `fence` (the last
    closed block between lines of three backticks), `whole` (all of the text). The first form that is present decides,
    even if it is empty. Every step is linear in the length of the text.

    Raises:
        KeyError: an unknown fallback.

    >>> extract("<answer>1</answer> no: <answer> 2 </answer>")
    '2'
    >>> extract("So it is 7.") is None
    True
    >>> extract("**Answer:** 7 or \\\\boxed{8}", ("boxed", "line"))
    '8'
    """
    found = _tagged(text)
    for name in fallbacks:
        if found is not None:
            break
        found = _FORMS[name](text)
    return None if found is None else found.strip()


def _tagged(text: str) -> str | None:
    """Return what stands in the last closed answer tag."""
    opened, answer = None, None
    closings = [match.start() for match in _CLOSE.finditer(text)]
    if closings:
        for match in _OPEN.finditer(text, 0, closings[-1]):
            opened = match.end()
        if opened is not None:
            answer = text[opened : next(end for end in closings if end >= opened)]
    return answer


def _boxed(text: str) -> str | None:
    """Return what stands in the box that closes last; one pass over the braces with a stack."""
    stack: list[int | None] = []
    answer = None
    for match in _BRACES.finditer(text):
        brace = match.group()
        if brace.startswith("\\boxed"):
            stack.append(match.end())
        elif brace == "{":
            stack.append(None)
        elif brace == "}" and stack:
            start = stack.pop()
            if start is not None:
                answer = (start, match.start())
    return None if answer is None else text[slice(*answer)]


def _line(text: str) -> str | None:
    """Return what follows the colon of the last line that starts with "answer:"."""
    for line in reversed(text.splitlines()):
        match = _LINE.match(line)
        if match:
            return match.group(1)
    return None


def _fenced(text: str) -> str | None:
    """Return the last closed block between lines of three backticks."""
    lines = text.splitlines()
    marks = [number for number, line in enumerate(lines) if _FENCE.match(line)]
    closed = len(marks) // 2
    return "\n".join(lines[marks[2 * closed - 2] + 1 : marks[2 * closed - 1]]) if closed else None


def _whole(text: str) -> str | None:
    """Return the text itself."""
    return text


_FORMS = {"boxed": _boxed, "line": _line, "fence": _fenced, "whole": _whole}
