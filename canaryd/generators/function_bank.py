"""The functions that models are asked to write: each with a parameter, a solution as text, and a reference to call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

from canaryd.generators.draw import Draw
from canaryd.records import JsonValue

LETTERS = "abcde"


@dataclass(frozen=True, slots=True)
class Template:
    """One function to write.

    `task` and `solution` are texts in which K stands for the parameter, which is `low` to `high`. `expected(k, *args)`
    is what the function must return, written independently of the solution; `arguments(draw)` makes one call.
    """

    name: str
    signature: str
    task: str
    solution: str
    expected: Callable[..., JsonValue]
    arguments: Callable[[Draw], list[Any]]
    low: int
    high: int


def _integers(draw: Draw, *, least: int = 0, most: int = 9) -> list[int]:
    """Return up to `most` integers, at least `least`."""
    return [draw.between(-9, 20) for _ in range(draw.between(least, most))]


def _text(draw: Draw, *, most: int = 12) -> str:
    """Return a text over few letters, so that repetitions are frequent; it may be empty."""
    return "".join(draw.choice(LETTERS) for _ in range(draw.between(0, most)))


def _runs(k: int, text: str) -> str:
    """Return a text without its runs of at least k equal letters."""
    return "".join("" if len(run) >= k else run for run in ("".join(group) for _, group in groupby(text)))


def _merged(k: int, spans: list[list[int]]) -> JsonValue:
    """Return the union of spans, joining those at most k apart, by going through every covered point."""
    merged: list[list[int]] = []
    for point in sorted({point for start, end in spans for point in range(start, end + 1)}):
        if merged and point - merged[-1][1] <= k:
            merged[-1][1] = point
        else:
            merged.append([point, point])
    return [list(span) for span in merged]


def _reverse_polish(k: int, tokens: list[str]) -> int:
    """Return the value of a reverse Polish expression modulo k, reduced once at the end."""
    stack: list[int] = []
    for one in tokens:
        if one.isdigit():
            stack.append(int(one))
        else:
            right, left = stack.pop(), stack.pop()
            stack.append({"+": left + right, "-": left - right, "*": left * right}[one])
    return stack[0] % k


def _polish_tokens(draw: Draw) -> list[Any]:
    """Return a valid expression in reverse Polish notation."""
    tokens, depth = [str(draw.between(1, 30))], 1
    for _ in range(draw.between(1, 8)):
        if depth > 1 and draw.below(2):
            tokens, depth = [*tokens, draw.choice("+-*")], depth - 1
        else:
            tokens, depth = [*tokens, str(draw.between(1, 30))], depth + 1
    return [tokens + [draw.choice("+-*") for _ in range(depth - 1)]]


def _coins(k: int, amount: int) -> int:
    """Return the fewest coins of 1, k and k*k - 1 that make an amount, by trying every number of the larger two."""
    large = k * k - 1
    return min(
        big + small + (amount - big * large - small * k)
        for big in range(amount // large + 1)
        for small in range((amount - big * large) // k + 1)
    )


def _subsequence(k: int, numbers: list[int]) -> int:
    """Return the length of the longest subsequence in which each step goes up by 1 to k, by recursion."""

    @cache
    def ending_at(index: int) -> int:
        steps = [ending_at(i) for i in range(index) if 1 <= numbers[index] - numbers[i] <= k]
        return 1 + max(steps, default=0)

    return max((ending_at(index) for index in range(len(numbers))), default=0)


def _paths(k: int, grid: list[str]) -> int:
    """Return the paths modulo k from the upper left to the lower right, right or down past '#', by recursion."""

    @cache
    def paths_from(row: int, column: int) -> int:
        if row == len(grid) or column == len(grid[0]) or grid[row][column] == "#":
            return 0
        if (row, column) == (len(grid) - 1, len(grid[0]) - 1):
            return 1
        return paths_from(row + 1, column) + paths_from(row, column + 1)

    return paths_from(0, 0) % k


def _grid(draw: Draw) -> list[Any]:
    """Return a grid of dots with some obstacles."""
    rows, columns = draw.between(1, 6), draw.between(1, 6)
    return [["".join("#" if draw.below(6) == 0 else "." for _ in range(columns)) for _ in range(rows)]]


#: Per level three templates, in the order of the levels.
BANK: tuple[tuple[Template, ...], ...] = (
    (
        Template(
            "sum_of_multiples",
            "numbers",
            "takes a list of integers and returns the sum of those that K divides",
            "    return sum(n for n in numbers if n % K == 0)",
            lambda k, numbers: sum(n for n in numbers if n // k * k == n),
            lambda draw: [_integers(draw)],
            2,
            5,
        ),
        Template(
            "last_reversed",
            "text",
            "takes a string and returns its last K characters in reverse order (all of them if there are fewer)",
            "    return text[::-1][:K]",
            lambda k, text: "".join(reversed(text[-k:])),
            lambda draw: [_text(draw)],
            2,
            6,
        ),
        Template(
            "count_above",
            "numbers",
            "takes a list of integers and returns how many of them are greater than K",
            "    return len([n for n in numbers if n > K])",
            lambda k, numbers: sum(1 for n in numbers if not n <= k),
            lambda draw: [_integers(draw)],
            0,
            9,
        ),
    ),
    (
        Template(
            "rotate",
            "numbers",
            "takes a list and returns it rotated to the left by K places, as a new list",
            """
    if not numbers:
        return []
    k = K % len(numbers)
    return numbers[k:] + numbers[:k]
""",
            lambda k, numbers: [numbers[(i + k) % len(numbers)] for i in range(len(numbers))],
            lambda draw: [_integers(draw)],
            2,
            7,
        ),
        Template(
            "shift_letters",
            "text",
            "takes a string and moves every letter a-z by K places in the alphabet, from z on to a, leaving all else",
            "    return ''.join(chr((ord(c) - 97 + K) % 26 + 97) if 'a' <= c <= 'z' else c for c in text)",
            lambda k, text: text.translate({97 + i: 97 + (i + k) % 26 for i in range(26)}),
            lambda draw: [_text(draw) + draw.choice(("", " xyz!", "Z", "-zoo"))],
            3,
            20,
        ),
        Template(
            "drop_runs",
            "text",
            "takes a string and removes from it, all at once, every run of K or more equal characters",
            """
    out, i = "", 0
    while i < len(text):
        j = i
        while j < len(text) and text[j] == text[i]:
            j += 1
        if j - i < K:
            out += text[i:j]
        i = j
    return out
""",
            _runs,
            lambda draw: ["".join(draw.choice(LETTERS) * draw.between(1, 4) for _ in range(draw.below(6)))],
            2,
            3,
        ),
    ),
    (
        Template(
            "merge_spans",
            "spans",
            (
                "takes a list of [start, end] integer pairs with both ends included and returns the merged pairs in "
                "ascending order, where two pairs are merged if they overlap or if the later starts at most K after "
                "the earlier ends"
            ),
            """
    out = []
    for start, end in sorted(spans):
        if out and start - out[-1][1] <= K:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([start, end])
    return out
""",
            _merged,
            lambda draw: [[[a, a + draw.below(6)] for a in [draw.below(40) for _ in range(draw.below(7))]]],
            1,
            3,
        ),
        Template(
            "smooth_run",
            "numbers",
            (
                "takes a list of integers and returns the length of the longest stretch of neighbours in which each "
                "number differs from the one before it by at most K (0 for an empty list)"
            ),
            """
    best = run = 0
    for i, n in enumerate(numbers):
        run = run + 1 if i and abs(n - numbers[i - 1]) <= K else 1
        best = max(best, run)
    return best
""",
            lambda k, numbers: max(
                (
                    j - i
                    for i in range(len(numbers))
                    for j in range(i + 1, len(numbers) + 1)
                    if all(abs(a - b) <= k for a, b in zip(numbers[i : j - 1], numbers[i + 1 : j], strict=True))
                ),
                default=0,
            ),
            lambda draw: [_integers(draw, most=12)],
            3,
            8,
        ),
        Template(
            "reverse_polish",
            "tokens",
            (
                "takes a list of strings, an expression in reverse Polish notation with whole numbers and the "
                "operators +, - and *, and returns its value modulo K (never negative)"
            ),
            """
    stack = []
    for t in tokens:
        if t not in ("+", "-", "*"):
            stack.append(int(t))
            continue
        b, a = stack.pop(), stack.pop()
        stack.append((a + b if t == "+" else a - b if t == "-" else a * b) % K)
    return stack[0] % K
""",
            _reverse_polish,
            _polish_tokens,
            5,
            23,
        ),
    ),
    (
        Template(
            "fewest_coins",
            "amount",
            (
                "takes a whole number from 0 up and returns the fewest coins with that sum, where the coins have the "
                "values 1, K and K*K - 1"
            ),
            """
    best = [0] + [amount] * amount
    for n in range(1, amount + 1):
        best[n] = 1 + min(best[n - c] for c in (1, K, K * K - 1) if c <= n)
    return best[amount]
""",
            _coins,
            lambda draw: [draw.below(120)],
            3,
            7,
        ),
        Template(
            "climbing_subsequence",
            "numbers",
            (
                "takes a list of integers and returns the length of the longest subsequence (not necessarily of "
                "neighbours) in which each number is greater than the one before it by at least 1 and at most K"
            ),
            """
    best = []
    for i, n in enumerate(numbers):
        best.append(1 + max([best[j] for j in range(i) if 1 <= n - numbers[j] <= K], default=0))
    return max(best, default=0)
""",
            _subsequence,
            lambda draw: [_integers(draw, most=14)],
            2,
            9,
        ),
        Template(
            "count_paths",
            "grid",
            (
                "takes a list of equally long strings of '.' and '#' and returns, modulo K, the number of paths from "
                "the upper left to the lower right cell that go only right or down and touch no '#'"
            ),
            """
    rows, columns = len(grid), len(grid[0])
    ways = [[0] * (columns + 1) for _ in range(rows + 1)]
    for r in range(rows):
        for c in range(columns):
            if grid[r][c] == ".":
                start = 1 if r == c == 0 else 0
                ways[r + 1][c + 1] = start + ways[r][c + 1] + ways[r + 1][c]
    return ways[rows][columns] % K
""",
            _paths,
            _grid,
            7,
            31,
        ),
    ),
)
