"""The report pages that the daemon serves: its child writes each, the resident process only reads the bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from canaryd.config import Config
from canaryd.store.engine import open_store, parse_url


def page_files(config: Config, *, env: Mapping[str, str]) -> dict[str, Path]:
    """Return the file of each series' page, by its name.

    They are kept in the cache folder that the service manager gives ($CACHE_DIRECTORY), else in `reports` beside a
    SQLite store, and beside the configuration where the store is a server: they can be written anew at any time.
    """
    given, url = env.get("CACHE_DIRECTORY"), parse_url(config.store_url)
    beside = Path(url.database) if url.get_backend_name() == "sqlite" and url.database else config.path
    folder = Path(given) if given else beside.parent
    return {series.name: folder / "reports" / f"{series.name}.html" for series in config.series}


def write_page(config: Config, series: str, *, file: Path) -> None:
    """Write the page of a series as `canaryd report` does, in one step: who reads it sees the old one or the new.

    Raises:
        UsageError: the series is not registered.
        StoreUnavailable: the store cannot be read.
        OSError: the file cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    from canaryd.report.page import as_page
    from canaryd.report.render import build_document, load_report
    from canaryd.status import check_status, read_status

    (checked,) = check_status(read_status(config, series)).series
    with open_store(config.store_url) as store, store.read() as connection:
        report = load_report(connection, series, headline=checked.sentence)
    fresh = file.with_suffix(f".{os.getpid()}")
    fresh.write_text(as_page(build_document(report)), encoding="utf-8")
    fresh.replace(file)
