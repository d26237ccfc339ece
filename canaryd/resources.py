"""The files that come with canaryd: migrations, the starter panel, the examples."""

from __future__ import annotations

from pathlib import Path

_INSTALLED = Path(__file__).parent / "data"
_CHECKOUT = Path(__file__).parent.parent


def resource(name: str) -> Path:
    """Return the path of a shipped file or folder: package data when installed, the working tree in a checkout.

    Raises:
        FileNotFoundError: canaryd ships no such thing.
    """
    for root in (_INSTALLED, _CHECKOUT):
        if (root / name).exists():
            return root / name
    raise FileNotFoundError(name)
