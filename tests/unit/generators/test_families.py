"""Every target of every family, found again from the prompt alone by an independent solver."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from canaryd import graders
from canaryd.generators import FAMILIES, generate
from canaryd.generators.family import LEVELS
from canaryd.records import GraderSpec, Item

LINES = [
    json.loads(line) for seed in ("one", "two") for line in generate(seed, size=400, name="x").items.splitlines()[1:]
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def solve_arith(prompt: str) -> str:
    """Evaluate the expression by schoolbook multiplication, digit by digit."""
    factors, plus = re.search(r"What is ([\d *]+)(?: \+ (\d+))?\?", prompt).groups()
    total = 0
    first, _, second = factors.partition(" * ")
    for place, digit in enumerate(reversed(second or "1")):
        total += sum(int(first) for _ in range(int(digit))) * 10**place
    return str(total + int(plus or 0))


def solve_modular(prompt: str) -> int:
    """Follow the steps without ever reducing, and reduce at the end."""
    modulus, value = (int(re.search(pattern, prompt).group(1)) for pattern in (r"modulo (\d+)", r"Start with (\d+)"))
    for step, operand in re.findall(r"^\d+\. (add|subtract|multiply by|square it) ?(\d*)$", prompt, re.MULTILINE):
        value = {
            "add": lambda v, n: v + n,
            "subtract": lambda v, n: v - n,
            "multiply by": lambda v, n: v * n,
            "square it": lambda v, n: v * v,
        }[step](value, int(operand or 0))
    return value % modulus


def solve_bases(prompt: str) -> str:
    """Count powers of the wanted base from the top."""
    number, source, wanted = re.search(
        r"number (\w+) is written in base (\d+)\. Write it in base (\d+)", prompt
    ).groups()
    left, base, digits = int(number, int(source)), int(wanted), ""
    for power in range(20, -1, -1):
        digits += "0123456789ABCDEF"[left // base**power]
        left %= base**power
    return digits.lstrip("0")


def solve_calendar(prompt: str) -> str:
    """Count days one by one from the day that is given, and find the weekday's letter."""
    known = next(day for day in DAYS if re.search(rf"is a {day}", prompt))
    later = re.search(r"(\d+) days later", prompt)
    dates = [date.fromisoformat(one) for one in re.findall(r"\d{4}-\d\d-\d\d", prompt)]
    steps = int(later.group(1)) if later else (dates[1] - dates[0]).days
    if dates:
        assert dates[0].strftime("%A") == known
    position = DAYS.index(known)
    for _ in range(abs(steps)):
        position += 1 if steps > 0 else -1
    return re.search(rf"^([A-G])\) {DAYS[position % 7]}$", prompt, re.MULTILINE).group(1)


def solve_fidelity(prompt: str) -> str:
    """Do what the sentence says."""
    task, _, text = prompt.rpartition(": ")
    if task.startswith("Copy"):
        return text
    if task.startswith("Write every second"):
        return "".join(char for place, char in enumerate(text, start=1) if place % 2 == 0)
    backwards = list(reversed(text))
    if "swap" in task:
        for place in range(1, len(backwards), 2):
            backwards[place - 1 : place + 1] = backwards[place], backwards[place - 1]
    return "".join(backwards)


def solve_tracing(prompt: str) -> int:
    """Run the program."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(prompt.partition("\n\n")[2], {})
    return int(printed.getvalue())


PLACES = ("first", "second", "third", "fourth", "fifth", "sixth")


def contradicts(clue: str, places: dict[str, int]) -> bool:
    """Whether a clue is false of the places assigned so far (clues about others stay open)."""
    names = [name for name in re.findall(r"[A-Z][a-z]+", clue) if name not in ("Exactly", "No")]
    if any(name not in places for name in names):
        return False
    first = places[names[0]]
    if " did not finish " in clue:
        return first == PLACES.index(clue.rstrip(".").rpartition(" ")[2])
    second = places[names[1]]
    if " before " in clue:
        return first > second
    if " directly after " in clue:
        return first != second + 1
    between = re.match(r"(?:Exactly (\d)|No) runners? finished between", clue).group(1)
    return abs(first - second) - 1 != int(between or 0)


def solve_ordering(prompt: str) -> list[str]:
    """Return all solutions by backtracking over places, one runner after another."""
    names = re.split(r", | and ", prompt.partition(" ran a race")[0])
    clues = re.findall(r"^- (.*)$", prompt, re.MULTILINE)
    found = []

    def place(left: list[str], places: dict[str, int]) -> None:
        if any(contradicts(clue, places) for clue in clues):
            return
        if not left:
            found.append("".join(name[0] for name in sorted(places, key=places.__getitem__)))
        for free in set(range(len(names))) - set(places.values()) if left else ():
            place(left[1:], {**places, left[0]: free})

    place(names, {})
    return found


def solve_extraction(prompt: str) -> dict[str, Any]:
    """Replay the log."""
    orders: dict[int, dict[str, Any]] = {}
    cancelled = set()
    for line in prompt.partition("\n\n")[0].splitlines():
        number = int(re.search(r"[Oo]rder (\d+)", line).group(1))
        if made := re.match(r"Order \d+: (.+) wants (\d+) of (\S+)\.$", line):
            customer, quantity, product = made.groups()
            orders[number] = {"order": number, "customer": customer, "product": product, "quantity": int(quantity)}
        elif changed := re.search(r"the quantity is (\d+)\.$", line):
            orders[number]["quantity"] = int(changed.group(1))
        elif changed := re.search(r"the product is (\S+)\.$", line):
            orders[number]["product"] = changed.group(1)
        else:
            assert line.endswith("is cancelled.")
            cancelled.add(number)
    if wanted := re.search(r"Write order (\d+),", prompt):
        return orders[int(wanted.group(1))]
    standing = {number: order for number, order in orders.items() if number not in cancelled}
    most = max(order["quantity"] for order in standing.values())
    (largest,) = [order for order in standing.values() if order["quantity"] == most]
    return {
        "open_orders": sorted(standing),
        "cancelled_orders": sorted(cancelled),
        "open_quantity": sum(order["quantity"] for order in standing.values()),
        "largest_order": largest["order"],
        "largest_customer": largest["customer"],
    }


SOLVERS: dict[str, Callable[[str], Any]] = {
    "arith": solve_arith,
    "modular": solve_modular,
    "bases": solve_bases,
    "calendar": solve_calendar,
    "fidelity": solve_fidelity,
    "tracing": solve_tracing,
    "extraction": solve_extraction,
}


def of(family: str) -> list[dict[str, Any]]:
    """Return the generated lines of a family."""
    return [line for line in LINES if line["family"] == family]


@pytest.mark.parametrize("family", SOLVERS)
def test_an_independent_solver_finds_every_target(family: str) -> None:
    assert len(of(family)) == 80
    for line in of(family):
        assert SOLVERS[family](line["prompt"]) == line["target"], line["id"]


def test_every_puzzle_has_exactly_one_solution() -> None:
    assert len(of("ordering")) == 80
    for line in of("ordering"):
        assert solve_ordering(line["prompt"]) == [line["target"]], line["id"]


def test_no_clue_of_a_puzzle_can_be_left_out() -> None:
    for line in of("ordering"):
        for clue in re.findall(r"^- .*\n", line["prompt"], re.MULTILINE):
            assert len(solve_ordering(line["prompt"].replace(clue, ""))) > 1, line["id"]


RULES: dict[str, Callable[[str, re.Match[str]], bool]] = {
    r"there are exactly (\d+) words": lambda text, m: text.count(" ") + 1 == int(m[1]),
    r'the first letters of the words are, in this order, "(\w+)"': lambda text, m: (
        re.findall(r"\b\w", text.lower()) == list(m[1])
    ),
    r'the letter "(\w)" occurs exactly (\d+|once)(?: times)?': lambda text, m: (
        len(re.findall(m[1], text, re.I)) == (1 if m[2] == "once" else int(m[2]))
    ),
    r'the letter "(\w)" does not occur': lambda text, m: m[1] not in text.lower(),
    r"the line has exactly (\d+) characters": lambda text, m: len(text) == int(m[1]),
    r'it ends with the word "(\w+)"': lambda text, m: text.lower().split()[-1] == m[1],
    r"all letters are capitals": lambda text, m: not re.search("[a-z]", text),
    r"no letter is a capital": lambda text, m: not re.search("[A-Z]", text),
    r"every word has from (\d+) to (\d+) letters": lambda text, m: all(
        int(m[1]) <= len(word) <= int(m[2]) for word in text.split(" ")
    ),
    r"the words are in alphabetical order": lambda text, m: all(
        a <= b for a, b in zip(text.lower().split(), text.lower().split()[1:], strict=False)
    ),
}


def test_the_example_of_instructions_follows_them_and_each_is_checked() -> None:
    for line in of("instructions"):
        told = re.findall(r"^- (.*)$", line["prompt"], re.MULTILINE)
        assert len(told) == len(line["grader"]["checks"]) == int(line["id"].split("-L")[1][0]) + 1
        for sentence in told:
            ((match, rule),) = [(m, rule) for p, rule in RULES.items() if (m := re.fullmatch(p, sentence))]
            assert rule(line["target"], match), (line["id"], sentence)


def test_the_solution_of_a_function_passes_its_hidden_tests() -> None:
    for line in of("functions"):
        space: dict[str, Any] = {}
        exec(line["target"]["solution"], space)
        function = space[line["grader"]["entry"]]
        for test in line["target"]["tests"]:
            assert function(*json.loads(json.dumps(test["args"]))) == test["returns"], line["id"]


def test_the_hidden_tests_tell_functions_of_a_level_apart() -> None:
    for line in of("functions"):
        returned = [json.dumps(test["returns"]) for test in line["target"]["tests"]]
        assert len(returned) == 12
        assert max(returned.count(one) for one in returned) < 12, line["id"]


def test_every_item_is_gradable_and_every_level_is_there() -> None:
    for line in LINES:
        options = {key: value for key, value in line["grader"].items() if key != "type"}
        item = Item(
            line["id"],
            family=line["family"],
            cluster=line["cluster"],
            prompt=line["prompt"],
            target=line["target"],
            grader=GraderSpec(line["grader"]["type"], options),
        )
        assert graders.complaint(item) is None, line["id"]
    assert {line["id"][:-3] for line in LINES} == {f"{name}-L{n}" for name in FAMILIES for n in range(1, LEVELS + 1)}
