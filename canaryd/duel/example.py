"""The example: two small searches over canaryd's own documentation, and the project that compares them."""

from __future__ import annotations

import functools
import math
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from canaryd.duel.fixture import parse_fixture
from canaryd.duel.model import Question
from canaryd.duel.simulated import SimulatedJudge
from canaryd.errors import UsageError
from canaryd.resources import resource

PAGES = ("prereg.example.toml", "docs/duel.md", "docs/compare.md")
FILES = ("duel.toml", "fixture.jsonl", "anchors.jsonl", "four.jsonl")
_HEADING = re.compile(r"^(?:## (?P<markdown>.+)|\[(?P<table>\w+)\].*)$")
_WORD = re.compile(r"[a-z0-9]+")
#: One of them takes the first position now and then, as real judges do.
JUDGES = (SimulatedJudge("judge-one", first_bias=0.1), SimulatedJudge("judge-two"))
_LINES = 6
_SECTIONS = 2


@dataclass(frozen=True, slots=True)
class Passage:
    """One section of a page; its id is `page#section`."""

    doc_id: str
    text: str

    @property
    def words(self) -> list[str]:
        """The words of the section, small, with their plural taken off."""
        return words_of(self.text)


def search_lines(query: str) -> str:
    """Return the lines that hold the most words of the query, as a plain text search does."""
    asked = set(words_of(query))
    found = [
        (len(asked & set(words_of(line))), passage.doc_id, line)
        for passage in corpus()
        for line in passage.text.splitlines()
    ]
    best = sorted((hit for hit in found if hit[0]), key=lambda hit: -hit[0])[:_LINES]
    return "\n".join(f"[{doc_id}] {line.strip()}" for _, doc_id, line in best)


def search_sections(query: str) -> str:
    """Return the sections whose words weigh most for the query: term frequency times inverse section frequency."""
    asked, rarity = words_of(query), _rarity()
    scored = []
    for passage in corpus():
        counts = Counter(passage.words)
        length = math.sqrt(sum(counts.values()))
        scored.append((sum(math.log1p(counts[word]) * rarity.get(word, 0.0) for word in asked) / length, passage))
    best = sorted((hit for hit in scored if hit[0] > 0), key=lambda hit: -hit[0])[:_SECTIONS]
    return "\n\n".join(f"[{passage.doc_id}]\n{passage.text}" for _, passage in best)


@functools.cache
def corpus() -> tuple[Passage, ...]:
    """Return the sections of the pages; what stands before the first heading is the section `top`."""
    passages = []
    for page in PAGES:
        section, lines = "top", list[str]()
        for line in [*resource(page).read_text(encoding="utf-8").splitlines(), "## end"]:
            heading = _HEADING.match(line)
            if heading is None:
                lines.append(line)
                continue
            passages.append(Passage(f"{page}#{section}", "\n".join(lines)))
            section, lines = "-".join(_WORD.findall((heading["markdown"] or heading["table"]).lower())), [line]
            section = heading["table"] or section
    return tuple(passages)


def words_of(text: str) -> list[str]:
    """Return the words of a text, small, with a plural s taken off.

    >>> words_of("The judges' answers")
    ['the', 'judge', 'answer']
    """
    return [word.removesuffix("s") if len(word) > 3 else word for word in _WORD.findall(text.lower())]


@functools.cache
def _rarity() -> dict[str, float]:
    sections = Counter(word for passage in corpus() for word in set(passage.words))
    return {word: math.log(len(corpus()) / count) for word, count in sections.items()}


def questions() -> tuple[Question, ...]:
    """Return the questions of the example's fixture."""
    return parse_fixture(resource("examples/duel/fixture.jsonl").read_bytes(), source="fixture.jsonl")


def write_example(folder: Path, *, port: int) -> Path:
    """Write the example's files into a folder and return the path of the plan; the judges are asked at `port`.

    Raises:
        UsageError: a file exists already; nothing was written.
    """
    if existing := next((name for name in FILES if (folder / name).exists()), None):
        raise UsageError(f"{folder / existing}: exists already; choose another folder, nothing was written")
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(resource(f"examples/duel/{name}"), folder / name)
    plan = folder / "duel.toml"
    plan.write_text(plan.read_text().replace("127.0.0.1:8754", f"127.0.0.1:{port}"))
    (folder / "judge-key.txt").write_text("sk-simulated-judges-need-no-key\n")
    return plan
