"""Whether a stream gets colours: decided here, for the command line and for the logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO


def has_colours(stream: TextIO, env: Mapping[str, str]) -> bool:
    """Return whether to colour what a stream gets: a terminal that can, whose user has not said no.

    No is $NO_COLOR or $CANARYD_NO_COLOR with anything in it; `--no-color` sets the latter.
    """
    refused = env.get("NO_COLOR") or env.get("CANARYD_NO_COLOR") or env.get("TERM") == "dumb"
    return stream.isatty() and not refused
