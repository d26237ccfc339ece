"""The page at /: the report where there is one series, else every series with its headline."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

#: The headline of a report as its page holds it, escaped; the resident process loads nothing that draws.
_HEADLINE = re.compile(rb'<p class="headline">(.*?)</p>', re.DOTALL)
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>canaryd</title>
<style>body {{ font: 1rem/1.55 system-ui, sans-serif; max-width: 64rem; margin: 1rem auto; padding: 0 1rem; }}</style>
</head><body><main><h1>canaryd</h1><ul>
{series}</ul></main><nav aria-label="For machines"><ul>
<li><a href="/metrics">Metrics</a></li>
<li><a href="/-/healthy">Healthy</a></li>
<li><a href="/-/ready">Ready</a></li>
<li><a href="/-/status">What it does now</a></li>
</ul></nav></body></html>
"""


def landing_page(reports: Mapping[str, Path]) -> bytes:
    """Return the only series' report, where it is written already, else a list of all series with their headlines."""
    pages = {name: file.read_bytes() if file.exists() else None for name, file in reports.items()}
    match list(pages.values()):
        case [bytes(only)]:
            return only
    series = "".join(
        f'<li><a href="/series/{name}">Report of {name}</a><br>{headline_of(page)}</li>\n'
        for name, page in pages.items()
    )
    return _PAGE.format(series=series).encode()


def headline_of(page: bytes | None) -> str:
    """Return the headline of a report's page as HTML; there is none before its first day was measured or decided."""
    found = _HEADLINE.search(page) if page is not None else None
    return found[1].decode() if found else "not measured yet"
