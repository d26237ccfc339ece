"""A store of its own for each test, on each database: a copy of one that was migrated once a session."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from canaryd.store.engine import Store, open_store
from canaryd.store.migrate import upgrade


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "canaryd.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def migrated_database(new_postgres_database: Callable[..., str]) -> str:
    url = new_postgres_database()
    upgrade(url)
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty store of the current schema."""
    if request.param == "sqlite":
        path = tmp_path / "canaryd.db"
        shutil.copy(request.getfixturevalue("migrated_file"), path)
        return f"sqlite:///{path}"
    template = request.getfixturevalue("migrated_database")
    return request.getfixturevalue("new_postgres_database")(template)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """Yield that store, open."""
    with open_store(store_url) as opened:
        yield opened
