"""The text of a reply as stored bytes: UTF-8 with lone surrogates passed through, compressed where that is shorter."""

from __future__ import annotations

import zlib

#: Below this length compression cannot pay for its own header.
_SHORTEST_COMPRESSED = 64


def encode(text: str) -> bytes:
    r"""Return the bytes of any text that a model can emit.

    >>> encode("\ud800")
    b'\xed\xa0\x80'
    """
    return text.encode("utf-8", "surrogatepass")


def pack(body: bytes) -> tuple[str, bytes]:
    """Return the codec and the stored form of encoded text.

    >>> pack(b"yes")
    ('utf8', b'yes')
    >>> pack(b"yes" * 100)[0]
    'utf8+zlib'
    """
    if len(body) >= _SHORTEST_COMPRESSED:
        packed = zlib.compress(body)
        if len(packed) < len(body):
            return "utf8+zlib", packed
    return "utf8", body


def unpack(codec: str, stored: bytes) -> str:
    """Return the text that was encoded and packed.

    >>> unpack(*pack(encode("yes" * 100))) == "yes" * 100
    True
    """
    body = zlib.decompress(stored) if codec == "utf8+zlib" else stored
    return body.decode("utf-8", "surrogatepass")
