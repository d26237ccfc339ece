"""The page of commands is the commands' own help, and each of them has one."""

from pathlib import Path

from canaryd.cli.documentation import page

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_commands_say_of_themselves() -> None:
    assert (ROOT / "docs/commands.md").read_text() == page()


def test_every_command_explains_itself() -> None:
    for section in page().split("\n## ")[1:]:
        name, _, text = section.partition("\n")
        assert "Usage: canaryd" in text, name
        assert len(text.split("\n\n")) > 2, f"{name} has no help"
