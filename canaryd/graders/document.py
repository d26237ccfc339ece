"""The page about graders, written from their golden tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from canaryd.graders import GRADERS, SHARED_OPTIONS
from canaryd.graders.base import Example, Grader, JobResult, Option, Result
from canaryd.records import JsonValue

_HEAD = """\
# Graders

A grader is pure: the same item and the same text give the same grade, for ever. A grade is a score from 0 to 1, whether
an answer could be read at all, and whether the item counts as passed.

The answer is what stands in the last closed `<answer>...</answer>`. Only an item that declares `fallbacks` is read in
another way where there is no such tag: `boxed` is the last balanced `\\boxed{...}`, `line` what follows the last line
that starts with "ANSWER:", `fence` the last closed block between lines of three backticks, `whole` all of the text.
They are tried in the order of the item, and the first that is present decides.

An item names its grader with its options, such as `{"type": "number", "abs_tol": 0.01, "fallbacks": ["boxed"]}`. An
option that a grader does not know is refused, and so is a target that it cannot use. Below each grader stands the table
that it is tested by; the results of that table and the version are what the digest of a grader covers.
"""


def document() -> str:
    """Return the page as Markdown."""
    judged = Path(__file__).with_name("judged.md").read_text(encoding="utf-8")
    shared = "\nEvery grader takes:\n\n" + _option_table(SHARED_OPTIONS)
    return "\n".join([_HEAD + shared, *[_section(grader) for grader in GRADERS.values()], judged])


def _section(grader: Grader) -> str:
    """Return what the page says about one grader."""
    options = f"\n{_option_table(grader.options)}" if grader.options else ""
    outside = any(example.result for example in grader.examples)
    head = ["target", "options", "reply", *(["job"] if outside else []), "score", "answered"]
    rows = [_row(example, outside=outside) for example in grader.examples]
    table = "\n".join(["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)])
    return f"## {grader.name}\n\nVersion {grader.version}. {grader.summary}\n{options}\n{table}\n"


def _option_table(options: Mapping[str, Option]) -> str:
    """Return the options as a list."""
    return "".join(
        f"- `{name}`{' (required)' if option.required else ''}: {option.meaning}\n" for name, option in options.items()
    )


def _row(example: Example, *, outside: bool) -> list[str]:
    """Return one example as the cells of a table."""
    result = example.result
    job = [] if not outside else ["-" if result is None else _outside(result)]
    options = _cell(dict(example.options)) if example.options else ""
    answered = "yes" if example.answered else "no"
    return [_cell(example.target), options, _cell(example.text), *job, f"{example.score:.3g}", answered]


def _outside(result: Result) -> str:
    """Return what the outside work of an example came to."""
    if isinstance(result, JobResult):
        return f"{result.outcome} {_cell(list(result.outputs))}"
    return _cell(result.text)


def _cell(value: JsonValue) -> str:
    """Return a JSON value as code inside a table."""
    return "`` " + json.dumps(value).replace("|", "\\|") + " ``"
