"""What the rule would have said of the latest window of each series with the invalid samples counted.

Unlike the rest of the status this recomputes, so it is imported only where it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable

from canaryd.analysis.with_invalid import WithInvalid, with_invalid
from canaryd.config import Config
from canaryd.store.engine import open_store


def read_with_invalid(config: Config, names: Iterable[str]) -> tuple[WithInvalid, ...]:
    """Return, for each of the named series, its latest decided window with the invalid samples counted.

    Raises:
        StoreUnavailable: there is no store, or its schema is not current.
        UsageError: a series is not registered.
    """
    with open_store(config.store_url) as store, store.read() as connection:
        return tuple(with_invalid(connection, name) for name in names)
