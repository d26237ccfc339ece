"""What tests of several folders share: hypothesis' settings, a PostgreSQL server, and the rows of a small series."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from sqlalchemy import create_engine, make_url, text

from canaryd.hashing import digest
from canaryd.records import Arm, Failure, Grade, GraderSpec, Item, Reply, Run, RunStart, Sample, SampleKey
from canaryd.store.engine import Store
from canaryd.store.lease import Lease, LeasePolicy, acquire_lease
from canaryd.store.process import Holder
from canaryd.store.rows import PanelFiles, Plan
from canaryd.store.write import claim_slot, register_series

# The same examples everywhere, and no time is measured.
settings.register_profile("canaryd", deadline=None, derandomize=True)
settings.load_profile("canaryd")

_SETTINGS = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "listen_addresses=")


def _unavailable(what: str) -> None:
    if os.environ.get("CANARYD_REQUIRE_REAL") == "1":
        pytest.fail(f"{what} is missing, and CANARYD_REQUIRE_REAL=1 forbids to skip")
    pytest.skip(f"{what} is missing")


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    on_path = shutil.which("postgres")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def _unprivileged() -> dict[str, Any]:
    """Return the arguments of subprocess that drop root, which initdb and postgres refuse."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@pytest.fixture(scope="session")
def installed() -> Callable[..., str]:
    """Return a function that finds the first of some programs that is installed, and skips where none is."""

    def find(*names: str) -> str:
        found = [path for path in map(shutil.which, names) if path]
        if not found:
            _unavailable(" or ".join(names))
        return found[0]

    return find


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Yield the URL of a maintenance database, whose user may create databases."""
    given = os.environ.get("CANARYD_TEST_PG_URL")
    if given:
        yield given
        return
    binaries = _binaries()
    if binaries is None:
        _unavailable("a PostgreSQL server")
        return
    directory = Path(tempfile.mkdtemp(prefix="cnry", dir="/tmp"))
    drop = _unprivileged()
    if drop:
        os.chown(directory, drop["user"], drop["group"])
    data = directory / "data"
    subprocess.run(
        [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"],
        check=True,
        capture_output=True,
        cwd=directory,
        **drop,
    )
    options = " ".join(f"-c {each}" for each in (*_SETTINGS, f"unix_socket_directories={directory}"))
    control = [binaries / "pg_ctl", "-D", data, "-w", "-l", directory / "log"]
    subprocess.run([*control, "-o", options, "start"], check=True, capture_output=True, cwd=directory, **drop)
    try:
        yield f"postgresql+psycopg://postgres@/postgres?host={directory}"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=True, capture_output=True, cwd=directory, **drop)
        shutil.rmtree(directory)


@pytest.fixture
def restart_postgres(postgres_server: str) -> Callable[[], None]:
    """Return a function that restarts the server, so that every connection to it is lost."""
    binaries = _binaries()
    if os.environ.get("CANARYD_TEST_PG_URL") or binaries is None:
        _unavailable("a PostgreSQL server of our own")
        raise AssertionError
    engine = create_engine(postgres_server)
    with engine.connect() as connection:
        data = connection.execute(text("SHOW data_directory")).scalar_one()
    engine.dispose()
    restart = [binaries / "pg_ctl", "-D", data, "-w", "-m", "fast", "restart"]

    def restart_it() -> None:
        subprocess.run(
            restart, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **_unprivileged()
        )

    return restart_it


@pytest.fixture(scope="session")
def new_postgres_database(postgres_server: str) -> Iterator[Callable[..., str]]:
    """Yield a function that creates a database (as a copy of `template`, if given) and returns its URL."""
    engine = create_engine(postgres_server, isolation_level="AUTOCOMMIT", pool_pre_ping=True)
    made: list[str] = []

    def create(template: str | None = None) -> str:
        name = f"canaryd_test_{os.getpid()}_{len(made)}"
        copied = "" if template is None else f" TEMPLATE {make_url(template).database}"
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}{copied}"))
        made.append(name)
        return make_url(postgres_server).set(database=name).render_as_string(hide_password=False)

    yield create
    with engine.connect() as connection:
        for name in made:
            connection.execute(text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgres"])
def empty_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a place where no store is yet, on each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'canaryd.db'}"
    return request.getfixturevalue("new_postgres_database")()


class Study:
    """Makes the rows of a small series: two arms, four items (one a sentinel), day 1 on 2030-01-01."""

    series = "s"
    day_1 = date(2030, 1, 1)
    policy = LeasePolicy(ttl=timedelta(seconds=60), is_alive=lambda holder: True)
    now = datetime(2030, 1, 1, 12, tzinfo=UTC)

    def holder(self, pid: int = 1) -> Holder:
        return Holder(host="here", machine="m", pid=pid, process_start=pid * 10)

    def plan(self, series: str = "s") -> Plan:
        items = tuple(
            Item(name, None if name == "d" else "f", name, f"What is {name}?", name, GraderSpec("exact"), name == "d")
            for name in "abcd"
        )
        return Plan(
            series=series,
            registered_at=self.now,
            start_date=self.day_1,
            seed=2**62,
            registration=b"[rule]\n",
            registration_digest=digest(b"[rule]\n"),
            panel=PanelFiles(digest(b"panel"), "p", "1", b"panel", b"Be brief."),
            items=items,
            arms=(
                Arm("old", "tracked", "simulated", "m-1", "http://h/v1", "key_name", {"temperature": 0.5}),
                Arm("ctl", "control", "simulated", "m-2", "http://secret/v1", redact=True),
            ),
            simulation={"power": 0.8},
        )

    def register(self, store: Store, series: str = "s") -> Lease:
        register_series(store, self.plan(series))
        return acquire_lease(store, series, holder=self.holder(), now=self.now, policy=self.policy)

    def start(self, day: int = 1, *, arm: str = "old", attempt: int = 1, series: str = "s") -> RunStart:
        plan = self.plan()
        slot_date = self.day_1 + timedelta(days=day - 1)
        at = datetime(slot_date.year, slot_date.month, slot_date.day, 3, tzinfo=UTC)
        return RunStart(
            series, arm, slot_date, attempt, at, at, plan.panel.digest, plan.registration_digest, "sha256:harness"
        )

    def claim(self, store: Store, lease: Lease, *starts: RunStart) -> tuple[Run, ...]:
        runs = claim_slot(store, starts, lease=lease, epoch=1)
        assert isinstance(runs, tuple)
        return runs

    def sample(
        self, run: Run, item_id: str, result: Grade | Failure | float, *, replicate: int = 0, **reply: Any
    ) -> Sample:
        start = run.start
        if isinstance(result, float):
            result = Grade(result, answered=True, passed=result >= 0.5, detail="d", grader="exact/1")
        said = None
        if reply or isinstance(result, Grade):
            said = Reply(**{"text": "x", "stop": "stop", **reply})
        key = SampleKey(start.series, start.arm, start.slot_date, item_id, replicate)
        return Sample(key, result, said, start.started_at, start.started_at + timedelta(seconds=1), calls=2)


@pytest.fixture
def study() -> Study:
    return Study()
