"""A key that cannot be printed, and the removal of keys from texts that may hold one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import NoReturn
from urllib.parse import quote

from canaryd.errors import CredentialsError

DETAIL_LENGTH = 300
#: A shorter text ("2 + 2") is found in innocent words too, so only longer ones are taken out of a detail.
_PRIVATE_LENGTH = 8
_KEY_PATTERN = re.compile(
    r"\bsk-\S{4,}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{12,}"
    r"|\beyJ[\w-]{8,}\.[\w.-]+"
    r"|\b(?:bearer|basic)\s+[^\s\"',]{6,}"
    r"|(?<=://)[^/\s@]+(?=@)"
    r"|(?:api[-_ ]?key|token|secret|password|authorization|credential|signature)"
    # What follows must look like a key, with a digit in it: "invalid_api_key: Incorrect" is a sentence.
    r"[\"']?\s*[:=]\s*[\"']?(?:bearer |basic )?(?=[^\s\"',&}]*\d)[^\s\"',&}]{4,}",
    re.IGNORECASE,
)


class Secret:
    """A key and the place it came from; only `reveal` gives the key.

    Two secrets are equal when their digests are. `fingerprint` is safe to show: four hex digits of a SHA-256.
    """

    __slots__ = ("_digest", "_value", "source")

    def __init__(self, value: str, *, source: str) -> None:
        if not value or not value.isascii() or not value.isprintable() or value != value.strip():
            raise CredentialsError(
                f"{source}: the key is empty or holds a space at an end, a line break or a character outside ASCII, "
                "so it cannot be sent in a header; write the key alone"
            )
        self._value = value
        self._digest = hashlib.sha256(value.encode()).hexdigest()
        self.source = source

    def reveal(self) -> str:
        """Return the key itself, for the one call that sends it."""
        return self._value

    @property
    def fingerprint(self) -> str:
        """The last four hex digits of the key's SHA-256."""
        return self._digest[-4:]

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Secret is never pickled or copied")


def redact(
    text: str, *, secrets: Iterable[Secret | None] = (), private: Iterable[str] = (), hosts: Iterable[str] = ()
) -> str:
    """Return one line of at most 300 characters without keys and without private texts.

    Keys go by value (`secrets`, also in their URL-quoted form) and by pattern; `private` texts go by value, and `hosts`
    wherever such a name stands as a whole, with the port behind it. The shortening comes last, so that no part of a key
    is left at the cut.

    >>> redact("401: Incorrect API key provided: sk-abc123456. See the docs.")
    '401: Incorrect API key provided: *** See the docs.'
    """
    for secret in secrets:
        if secret is not None:
            value = secret.reveal()
            text = text.replace(value, "***").replace(quote(value, safe=""), "***")
    for passage in private:
        if len(passage) >= _PRIVATE_LENGTH:
            text = text.replace(passage, "[private]")
    for host in hosts:
        text = re.sub(rf"(?<![\w-]){re.escape(host)}(?![\w-])\]?(?::\d+)?", "[private]", text, flags=re.IGNORECASE)
    text = _KEY_PATTERN.sub("***", text)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= DETAIL_LENGTH else text[: DETAIL_LENGTH - 1] + "…"
