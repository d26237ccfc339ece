"""A store that fails in mid-run: the day stops with what to do, keeps what was acknowledged, and resumes that day."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from canaryd.errors import StoreUnavailable
from canaryd.records import Ask, Reply
from canaryd.store import samples
from canaryd.store.backup import back_up
from canaryd.store.engine import Store, open_store
from canaryd.store.ledger import first_difference
from canaryd.store.rows import Span

LONG = "".join(map(chr, range(0x4E00, 0x9000)))


@contextmanager
def full_disk(store: Store, _path: Path) -> Iterator[None]:
    with store.write() as connection:
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
        connection.execute(text(f"PRAGMA max_page_count={pages}"))
    yield


@contextmanager
def read_only(store: Store, _path: Path) -> Iterator[None]:
    with store.write() as connection:
        connection.exec_driver_sql("PRAGMA query_only=ON")
    yield


@contextmanager
def locked(store: Store, path: Path) -> Iterator[None]:
    with store.write() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout=1")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.close()


@contextmanager
def moved(_store: Store, path: Path) -> Iterator[None]:
    aside = path.with_name("aside.db")
    path.rename(aside)
    yield
    assert not path.exists(), "nothing is made in its place"
    aside.rename(path)


@contextmanager
def replaced(_store: Store, path: Path) -> Iterator[None]:
    aside, copy = path.with_name("aside.db"), path.with_name("copy.db")
    back_up(path, copy)
    path.rename(aside)
    copy.replace(path)
    before = path.read_bytes()
    yield
    assert path.read_bytes() == before, "the other file stays as it is"
    aside.replace(path)


FAULTS: dict[str, tuple[Callable[[Store, Path], Any], str]] = {
    "full disk": (full_disk, "database or disk is full; free space on its disk and repeat"),
    "read-only": (read_only, "attempt to write a readonly database; check the owner and the permissions"),
    "locked": (locked, "database is locked; another process has been writing"),
    "moved": (moved, "was moved or deleted while it was open"),
    "replaced": (replaced, "was replaced by another file while it was open"),
}


def stored(world: Any) -> set[tuple[str, str]]:
    """Return arm and item of every sample of day 1 that needs no further call."""
    found = set()
    with world.store.read() as connection:
        for arm in ("tracked", "control"):
            keys = samples.final_samples(connection, "s", arm=arm, slot_date=world.at(1))
            found |= {(arm, key.item_id) for key in keys}
    return found


def require_resumed(world: Any, *, kept: set[tuple[str, str]]) -> None:
    """Measure the day again, as another process would, and require that it asked for the rest alone."""
    world.asked.clear()
    world.answers = {}
    world.measure(1, hour=4)
    asked = [(ask.arm, ask.item_id) for ask in world.asked]
    assert len(asked) == len(set(asked)) == 12 - len(kept)
    assert kept.isdisjoint(asked)
    with world.store.read() as connection:
        span = [Span("s", arm, world.at(1), world.at(1)) for arm in ("tracked", "control")]
        assert [samples.tally(connection, each).samples for each in span] == [6, 6]
        assert first_difference(connection, "s") is None


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_takes_no_more_stops_the_day_and_it_resumes(make_world: Any, store_url: str, fault: str) -> None:
    begin, said = FAULTS[fault]
    world, path = make_world(), Path(store_url.removeprefix("sqlite:///"))
    broken: list[Any] = []

    def answer(ask: Ask, times: int) -> Reply:
        if len(world.asked) == 8 and not broken:
            broken.append(begin(world.store, path))
            broken[0].__enter__()
        return Reply(f"{LONG}<answer>{2 * int(ask.item_id[1:])}</answer>", "stop")

    world.answers = {"tracked": answer, "control": answer}
    with pytest.raises(StoreUnavailable, match=said):
        world.measure(1)
    broken[0].__exit__(None, None, None)
    with open_store(store_url) as store:
        world.store = store
        kept = stored(world)
        assert 0 < len(kept) < 12
        require_resumed(world, kept=kept)


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_a_server_that_restarts_in_mid_run_loses_nothing(make_world: Any, restart_postgres: Callable[[], None]) -> None:
    world = make_world()

    def answer(ask: Ask, times: int) -> Reply:
        if len(world.asked) == 8:
            restart_postgres()
        return Reply(f"<answer>{2 * int(ask.item_id[1:])}</answer>", "stop")

    world.answers = {"tracked": answer, "control": answer}
    world.measure(1)
    kept = stored(world)
    assert len(kept) == 12
    require_resumed(world, kept=kept)
