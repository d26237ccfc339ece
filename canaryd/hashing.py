"""One canonical form and one digest for everything that is pinned."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def canonical_json(value: Any) -> bytes:
    """Return the RFC 8785 (JSON Canonicalization Scheme) bytes of a JSON value.

    Raises:
        ValueError: a value has no canonical form (NaN, an integer beyond 2**53, a lone surrogate).

    >>> canonical_json({"b": 1.0, "a": [True, None]})
    b'{"a":[true,null],"b":1}'
    """
    import rfc8785

    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise ValueError(f"no canonical JSON form: {error}") from None


def digest(data: bytes) -> str:
    """Return the tagged SHA-256 of bytes.

    >>> digest(b"")
    'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
    """
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_parts(parts: Iterable[bytes]) -> str:
    """Return one digest over several byte strings; each is hashed first, so that no boundary can shift.

    >>> digest_parts([b"ab", b"c"]) == digest_parts([b"a", b"bc"])
    False
    """
    return digest("\n".join(digest(part) for part in parts).encode())
