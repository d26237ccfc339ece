"""The text of a reply as bytes, and many of them as one compressed block.

A text is UTF-8 with lone surrogates passed through. A block is bz2 over a line of JSON, `[[item_id, replicate, bytes],
...]`, a line feed, and the texts in that order: replies to one panel say much the same, so together they take half of
what each takes alone.
"""

from __future__ import annotations

import bz2
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from canaryd.errors import StoreUnavailable

#: How many bytes of text a block holds at most (one longer text has a block of its own): bz2 sorts no more at a time.
BLOCK_BYTES = 900_000
#: Which reply of a run it is: item id and replicate.
TextKey = tuple[str, int]


class DamagedText(StoreUnavailable):
    """What is stored of a text is not what was written."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some texts of a run, compressed: how many, and their bytes."""

    texts: int
    content: bytes


def encode(text: str) -> bytes:
    r"""Return the bytes of any text that a model can emit.

    >>> encode("\ud800")
    b'\xed\xa0\x80'
    """
    return text.encode("utf-8", "surrogatepass")


def decode(body: bytes) -> str:
    """Return the text that was encoded; raise DamagedText where there is none."""
    try:
        return body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise _damaged(str(error)) from None


def unpack(codec: str, stored: bytes) -> bytes:
    """Return the bytes of a text from a row of its own (`utf8`, or `utf8+zlib` of an older canaryd)."""
    try:
        return zlib.decompress(stored) if codec == "utf8+zlib" else stored
    except zlib.error as error:
        raise _damaged(str(error)) from None


def blocks(bodies: Iterable[tuple[TextKey, bytes]]) -> Iterator[Block]:
    """Yield blocks that hold all texts in order, none of them split."""
    group: list[tuple[TextKey, bytes]] = []
    size = 0
    for key, body in bodies:
        if group and size + len(body) > BLOCK_BYTES:
            yield _block(group)
            group, size = [], 0
        group.append((key, body))
        size += len(body)
    if group:
        yield _block(group)


def unblock(content: bytes) -> Iterator[tuple[TextKey, bytes]]:
    """Yield the texts of a block; raise DamagedText where it is none.

    >>> [block] = blocks([(("a", 0), b"yes"), (("a", 1), b"")])
    >>> dict(unblock(block.content))
    {('a', 0): b'yes', ('a', 1): b''}
    """
    try:
        head, _, bodies = bz2.decompress(content).partition(b"\n")
        at = 0
        for item_id, replicate, size in json.loads(head):
            yield (item_id, replicate), bodies[at : at + size]
            at += size
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise _damaged(str(error)) from None


def _block(group: list[tuple[TextKey, bytes]]) -> Block:
    head = json.dumps([[*key, len(body)] for key, body in group], separators=(",", ":")).encode()
    return Block(len(group), bz2.compress(b"\n".join((head, b"".join(body for _, body in group)))))


def _damaged(why: str) -> DamagedText:
    return DamagedText(
        f"the stored text of a reply is damaged ({why}); run `canaryd verify` to see which, and restore a backup"
    )
