"""The table of families and their ladders of difficulty."""

from __future__ import annotations

from canaryd.generators import FAMILIES

_HEAD = """\
# Families of generated panels

`canaryd panel generate` draws items of these families evenly, and within a family evenly over four levels. The id of an
item says where it stands: `arith-L3-02` is the second of family `arith` at level 3. Items that come from one template
share a cluster: `arith-L3`, or `functions-L3-merge_spans` where a level has several templates.

The same seed and size give the same bytes on every machine. The header carries a commitment to the seed (a digest),
which may be published before the seed is; a seed that can be guessed is no secret, so take at least 128 random bits.
The seed of the starter panel is public: `canaryd starter panel`.

What a small model on one core makes of the starter panel, level by level, is in `local-model.md`.
"""


def document() -> str:
    """Return the page as Markdown."""
    rows = [
        "| " + " | ".join([f"`{family.name}`", family.summary, *family.ladder]) + " |" for family in FAMILIES.values()
    ]
    head = "| family | asks for | L1 | L2 | L3 | L4 |\n|---|---|---|---|---|---|\n"
    return _HEAD + "\n" + head + "\n".join(rows) + "\n"
