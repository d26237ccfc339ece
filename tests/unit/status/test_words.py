"""What is said about a model: no sentence of a status, a verdict or a report gives a cause or advice."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SPEAKING = sorted(
    path
    for folder in ("status", "analysis", "report", "metrics", "compare", "stats")
    for path in (ROOT / "canaryd" / folder).rglob("*.py")
)
CAUSE = re.compile(
    r"\b(because|caused|causes|due to|owing to|thanks to|as a result|led to|leads to|explains|explained by|therefore)\b"
)
ADVICE = re.compile(r"\b(should|ought|recommend\w*|advise[sd]?|consider|you may want|we suggest|roll back|switch to)\b")


def spoken(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of every string of a module that is no docstring."""
    tree = ast.parse(path.read_text())
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.lineno, node.value


@pytest.mark.parametrize("path", SPEAKING, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_sentence_gives_a_cause_or_advice(path: Path) -> None:
    said = [
        f"{path.name}:{line}: {text!r}"
        for line, text in spoken(path)
        if CAUSE.search(text.lower()) or ADVICE.search(text.lower())
    ]
    assert not said, "\n".join(said)


def test_the_words_are_found_where_they_stand() -> None:
    assert CAUSE.search("the score fell because of the new tokenizer")
    assert ADVICE.search("you should roll back")
    assert not CAUSE.search("coincides with: 2027-01-05, the model that answered rolled from a to b")
