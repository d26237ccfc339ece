"""The text of /metrics: what seldom changes is rendered once, what moves by itself is rendered at every scrape."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

_END = b"# EOF\n"


class Exposition:
    """Two registries as one page; the text of `settled` is kept until `state` returns something else."""

    def __init__(self, *, live: CollectorRegistry, settled: CollectorRegistry, state: Callable[[], object]) -> None:
        self._live, self._settled, self._state = live, settled, state
        self._kept: tuple[str, object, bytes] = ("", None, b"")

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return the page and its content type for an Accept header."""
        encode, content_type = choose_encoder(accept)
        state = self._state()
        kept_type, kept_state, text = self._kept
        if kept_type != content_type or kept_state != state:
            text = encode(self._settled).removesuffix(_END)
            self._kept = (content_type, state, text)
        return text + encode(self._live), content_type
