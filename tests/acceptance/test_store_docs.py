"""docs/store.md describes each column that is exported, in its order and words."""

from pathlib import Path

from canaryd.store.flat import COLUMNS, TEXT_COLUMN

PAGE = Path(__file__).parents[2] / "docs" / "store.md"


def test_every_column_is_described() -> None:
    table = PAGE.read_text().partition("| column | what it holds |")[2].partition("\n\n")[0]
    described = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    assert [(name.strip().strip("`"), text.strip()) for name, text in described[:-1]] == list(COLUMNS.items())
    assert described[-1][0].strip() == f"`{TEXT_COLUMN}`"
