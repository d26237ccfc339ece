"""Panels: what is refused and where, what the digest covers, what the lint says, and the starter panel itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from canaryd import graders, panel
from canaryd.errors import ConfigError

STARTER = Path(__file__).parents[2] / "panel" / "starter.jsonl"
HEADER: dict[str, Any] = {
    "name": "tiny",
    "version": "1",
    "licence": "CC0-1.0",
    "canary": "fe123b5f-91c3-5852-901c-670d971bb5fd",
}
SYSTEM = b"Answer.\n"


def item(item_id: str, **changes: Any) -> dict[str, Any]:
    """Return an item's line; a change to None removes the key."""
    line = {
        "id": item_id,
        "family": "sums",
        "prompt": f"What is {item_id}?",
        "target": len(item_id),
        "grader": {"type": "number"},
        **changes,
    }
    return {key: value for key, value in line.items() if value is not None}


def written(*lines: dict[str, Any] | str) -> bytes:
    """Return a panel file with these lines."""
    return "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines).encode()


def parsed(*items: dict[str, Any] | str, header: dict[str, Any] = HEADER, system: bytes = SYSTEM) -> panel.Panel:
    """Return the panel with these items."""
    return panel.parse(written(header, *items), system, graders=graders, path="p.jsonl")


def linted(*items: dict[str, Any] | str) -> list[str]:
    """Return the complaints about a panel with these items."""
    return panel.lint(written(HEADER, *items), SYSTEM, graders=graders, path="p.jsonl")


def test_a_line_becomes_an_item_with_the_defaults_of_the_contract() -> None:
    tiny = parsed(item("a"), item("b", family=None, cluster="c", sentinel=True, replicates=3))

    first, second = tiny.items
    assert (first.item_id, first.family, first.cluster, first.sentinel, first.replicates) == (
        "a",
        "sums",
        "a",
        False,
        1,
    )
    assert (second.family, second.cluster, second.sentinel, second.replicates) == (None, "c", True, 3)
    assert (tiny.name, tiny.version, tiny.licence, tiny.system) == ("tiny", "1", "CC0-1.0", "Answer.\n")
    assert tiny.lines == {"a": 2, "b": 3}


REFUSED = [
    ("{", "the line is not JSON that can be hashed"),
    ("[]", "the line is not a JSON object"),
    ("", "the line is not JSON that can be hashed"),
    ('{"id": "a", "id": "b"}', "the key 'id' comes twice"),
    ("[" * 100_000, "the line is not JSON that can be hashed"),
    (item("a", target=2**60), "write an integer beyond 2**53 as a string"),
    ('{"id": NaN}', "the line is not JSON that can be hashed"),
    (item("a", colour="red"), "the item has the unknown key 'colour'; allowed are id, family, cluster"),
    (item("a", id=7), "the item needs 'id' as a string that is not empty"),
    (item("a", id="a b"), "an id with other characters than letters"),
    (item("a", family=None), "item a needs 'family' as a string that is not empty"),
    (item("a", family=" "), "item a needs 'family'"),
    (item("a", cluster=""), "item a needs 'cluster' as a string that is not empty"),
    (
        '{"id": "a", "family": "f", "cluster": null, "prompt": "?", "target": 1, "grader": {"type": "number"}}',
        "'cluster'",
    ),
    (item("a", prompt="  "), "item a needs 'prompt'"),
    (item("a", target=None), "item a has no 'target'"),
    (item("a", grader="number"), "item a needs 'grader' as an object with a 'type'"),
    (item("a", grader={"type": "numbr"}), "item a cannot be graded: the grader 'numbr' does not exist"),
    (item("a", grader={"type": "number", "tol": 1}), "has no option 'tol'"),
    (item("a", target="many"), "item a cannot be graded: the target must be a number"),
    (item("a", sentinel=True), "item a is a sentinel and names a family"),
    (item("a", sentinel="yes"), "'sentinel' that is neither true nor false"),
    (item("a", replicates=0), "'replicates' that is not a whole number from 1 up"),
    (item("a", replicates=True), "'replicates'"),
    (item("ok"), "the id ok stands on line 2 too"),
]


@pytest.mark.parametrize(("line", "sentence"), REFUSED)
def test_an_item_that_cannot_be_used_is_refused_with_file_and_line(line: dict[str, Any] | str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parsed(item("ok"), line)

    assert str(refused.value).startswith("p.jsonl:3: ")
    assert sentence in str(refused.value)
    assert any(sentence in complaint and complaint.startswith("p.jsonl:3: ") for complaint in linted(item("ok"), line))


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ({**HEADER, "author": "x"}, "the header has the unknown key 'author'"),
        ({**HEADER, "version": 1}, "the header needs 'version' as a string"),
        ({**HEADER, "canary": "abc"}, "'canary' is not a GUID"),
        ({key: value for key, value in HEADER.items() if key != "licence"}, "the header needs 'licence'"),
    ],
)
def test_a_header_that_cannot_be_used_is_refused(header: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=r"p\.jsonl:1: ") as refused:
        parsed(item("a"), header=header)

    assert sentence in str(refused.value)


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"p\.jsonl:2: the line is not UTF-8"):
        panel.parse(written(HEADER) + b"\xff\n", SYSTEM, graders=graders, path="p.jsonl")
    with pytest.raises(ConfigError, match=r"p\.system\.txt:2: the system prompt is not UTF-8"):
        parsed(item("a"), system=b"good\n\xff")


@pytest.mark.parametrize("data", [b"", written(HEADER)])
def test_a_panel_without_items_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError, match=r"p\.jsonl:1: "):
        panel.parse(data, SYSTEM, graders=graders, path="p.jsonl")


def test_the_digest_covers_every_part_and_the_order() -> None:
    first, second = item("a"), item("bb")
    digests = [
        parsed(first, second).digest,
        parsed(second, first).digest,
        parsed(first, item("bb", prompt="What is bc?")).digest,
        parsed(first, second, header={**HEADER, "version": "2"}).digest,
        parsed(first, second, system=b"Answer!\n").digest,
        parsed(first, item("bb", grader={"type": "digits"})).digest,
    ]

    assert len(set(digests)) == len(digests)
    assert all(digest.startswith("sha256:") for digest in digests)


def test_the_digest_is_of_what_the_json_means() -> None:
    spaced = json.dumps(item("a"), indent=None, separators=(" , ", " : "))

    assert parsed(spaced).digest == parsed(item("a")).digest


def test_the_digest_sees_a_grader_that_judges_differently() -> None:
    class Edited:
        complaint = staticmethod(graders.complaint)
        grade = staticmethod(graders.grade)
        job = staticmethod(graders.job)
        right_reply = staticmethod(graders.right_reply)

        def digest(self, name: str) -> str:
            return "sha256:other " + name

    data = written(HEADER, item("a"))
    edited = panel.parse(data, SYSTEM, graders=Edited(), path="p.jsonl")
    lock = panel.freeze(panel.parse(data, SYSTEM, graders=graders, path="p.jsonl"))

    differences = panel.verify(edited, lock)
    assert len(differences) == 1
    assert differences[0].startswith(
        "p.jsonl: the grader number judges differently: this is not the panel frozen in p.lock"
    )


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (parsed(item("a"), item("bb", target=3)), "p.jsonl:3: item bb differs"),
        (parsed(item("a")), "p.jsonl: item bb is missing"),
        (parsed(item("a"), item("bb"), item("ccc")), "p.jsonl:4: item ccc is new"),
        (parsed(item("bb"), item("a")), "p.jsonl:2: the items stand in another order from item bb on"),
        (parsed(item("a"), item("bb"), header={**HEADER, "licence": "MIT"}), "p.jsonl:1: the header differs"),
        (parsed(item("a"), item("bb"), system=b"Answer"), "p.system.txt: the system prompt differs"),
    ],
)
def test_a_difference_from_the_lock_is_named(changed: panel.Panel, sentence: str) -> None:
    frozen = parsed(item("a"), item("bb"))

    assert panel.verify(frozen, panel.freeze(frozen)) == []
    assert [
        found for found in panel.verify(changed, panel.freeze(frozen)) if found.startswith(sentence + ": this is not")
    ]
    assert sentence in panel.diff(frozen, changed)
    assert panel.diff(frozen, frozen) == []


def test_a_lock_that_was_edited_by_hand_is_named() -> None:
    frozen = parsed(item("a"))
    lock = json.loads(panel.freeze(frozen))

    assert (
        "p.lock: name, version or digest were edited by hand"
        in panel.verify(frozen, json.dumps({**lock, "digest": "sha256:0"}).encode())[0]
    )


@pytest.mark.parametrize("lock", [b"", b"{}", b"[]", b"\xff", b'{"name": 1}'])
def test_a_file_that_is_no_lock_is_refused(lock: bytes) -> None:
    with pytest.raises(ConfigError, match=r"p\.lock: this is not a panel's lock"):
        panel.verify(parsed(item("a")), lock)


def test_lint_names_what_counts_twice() -> None:
    assert linted(
        item("a", prompt="Is it so?"), item("bb", prompt="Is it so?"), item("ccc", prompt="Is  it\nso? ")
    ) == [
        "p.jsonl:3: the prompt of item bb is the same as that of item a; a repeated question counts twice, remove one",
        (
            "p.jsonl:4: the prompt of item ccc differs only in white space from that of item a; "
            "a repeated question counts twice, remove one"
        ),
    ]


@pytest.mark.parametrize("prompt", ["What day is TODAY?", "Which year is this year?", "How old is he right now?"])
def test_lint_names_what_asks_for_the_date(prompt: str) -> None:
    assert "its right answer would change from day to day" in linted(item("a", prompt=prompt))[0]


def test_lint_names_a_target_that_its_own_grader_does_not_accept() -> None:
    broken = item("a", target="x</answer>", grader={"type": "exact"})

    assert linted(broken) == [
        "p.jsonl:2: the grader exact does not accept the target of item a; correct the target or the grader's options"
    ]


def test_lint_names_a_family_that_a_constant_answer_passes() -> None:
    def labelled(*labels: str) -> list[str]:
        return linted(*[item(f"i{n}", target=label, grader={"type": "choice"}) for n, label in enumerate(labels)])

    assert labelled(*"ABABABABAB") == []
    assert labelled(*"AAAAAAABBB") == [
        (
            "p.jsonl:2: always answering <answer>A</answer> scores 70% in family sums; "
            "balance its targets so that no constant answer reaches 70%"
        )
    ]


def test_lint_does_not_ask_sentinels_or_code_for_balance() -> None:
    code = {"type": "code", "entry": "f"}
    target = {"solution": "f = abs", "tests": [{"args": [1], "returns": 1}]}
    sentinels = [item(f"s{n}", family=None, sentinel=True, target=1) for n in range(4)]

    assert linted(*sentinels, *[item(f"c{n}", grader=code, target=target) for n in range(4)]) == []


def test_lint_lists_every_complaint_in_the_order_of_the_file() -> None:
    found = linted(item("a", prompt="today?"), "{", item("bb", colour=1), item("ccc", prompt="to day?"), item("a"))

    assert [complaint.split(":")[1] for complaint in found] == ["2", "3", "4", "5", "6"]


def test_a_panel_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.jsonl: the panel cannot be read"):
        panel.load(str(tmp_path / "none.jsonl"), graders=graders)


def test_the_starter_panel_is_frozen_and_clean() -> None:
    starter = panel.load(str(STARTER), graders=graders)
    data, system = panel.read(str(STARTER))

    assert panel.lint(data, system, graders=graders, path=str(STARTER)) == []
    assert panel.verify(starter, STARTER.with_suffix(".lock").read_bytes()) == []
    assert len(starter.items) == 120
    assert len({one.family for one in starter.items}) == 10
    assert starter.licence
    assert starter.canary


def test_any_changed_byte_of_the_starter_panel_is_seen() -> None:
    data, system = panel.read(str(STARTER))
    lock = STARTER.with_suffix(".lock").read_bytes()
    for at in range(0, len(data), 4999):
        edited = data[:at] + (b"x" if data[at : at + 1] != b"x" else b"y") + data[at + 1 :]
        try:
            differs = panel.verify(panel.parse(edited, system, graders=graders, path=str(STARTER)), lock)
        except ConfigError as refused:
            differs = [str(refused)]
        assert differs, at
        assert "starter.jsonl" in differs[0]
