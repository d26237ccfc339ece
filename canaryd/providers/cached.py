"""A reply that a cache has given, by its headers: it was measured once already (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from canaryd.providers.base import ProviderError

#: Headers in which a cache says how it answered, in words of its own.
_STATES = (
    "x-cache",
    "x-cache-remote",
    "x-cache-status",
    "x-nginx-cache",
    "x-proxy-cache",
    "x-vercel-cache",
    "cf-aig-cache-status",
    "cf-cache-status",
    "helicone-cache",
    "x-litellm-cache-hit",
    "x-openrouter-cache-status",
    "x-portkey-cache-status",
)
#: Headers that are 0 where no cache has answered.
_NUMBERS = ("age", "x-cache-hits")
#: Words for an answer from the cache, beside those that end in "hit" (TCP_HIT, RefreshHit).
_ANSWERED = frozenset({"cached", "prerender", "revalidated", "stale", "true", "updating"})
_DENIED = frozenset({"bypass", "miss", "no", "not"})
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


def refuse_cached(headers: Mapping[str, str]) -> None:
    """Refuse a reply that a cache between canaryd and the model marks as its own; of several caches any one suffices.

    Raises:
        ProviderError: kind `replayed`.
    """
    for names, is_cached in ((_STATES, _says_hit), (_NUMBERS, _is_positive), (("cache-status",), _has_hit)):
        for name in names:
            if any(is_cached(member) for member in _QUOTED.sub("", headers.get(name, "")).lower().split(",")):
                raise ProviderError("replayed", f"the header {name} says that this reply comes from a cache")


def _says_hit(state: str) -> bool:
    """Return whether a state is one of an answer from the cache; the name behind "from" is a host's."""
    words = set(re.findall("[a-z]+", state.partition(" from ")[0]))
    return not words & _DENIED and any(word in _ANSWERED or word.endswith("hit") for word in words)


def _is_positive(number: str) -> bool:
    return number.strip(" 0").isdecimal()


def _has_hit(member: str) -> bool:
    """Return whether one cache's part of Cache-Status (RFC 9211) holds a hit; its first word is the cache's name."""
    said = {parameter.strip() for parameter in member.split(";")[1:]}
    return not said.isdisjoint({"hit", "hit=?1", "collapsed", "collapsed=?1"})
