"""The resident process as an operator meets it: real processes, a real store, and a calendar that a file moves."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from click.testing import CliRunner
from daemons import PATIENCE_S, Manager, SlowModel, free_port, wait_for, write_sums

from canaryd.cli import cli

ROOT = Path(__file__).parents[2]


@dataclass
class Project:
    """A project on simulated models whose calendar is a file."""

    folder: Path
    port: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    def set_clock(self, moment: str) -> None:
        fresh = self.folder / "clock.new"
        fresh.write_text(moment + "\n")
        fresh.replace(self.folder / "clock.txt")

    def rows(self, query: str) -> list[Any]:
        with closing(sqlite3.connect(f"file:{self.folder / 'canaryd.db'}?mode=ro", uri=True)) as connection:
            return connection.execute(query).fetchall()

    def outcomes(self, day: str) -> list[tuple[str, str]]:
        return self.rows(
            "SELECT arm, outcome FROM run_start JOIN run_end USING (run_id) "
            f"WHERE slot_date = '{day}' AND series = 'main' ORDER BY arm, attempt"
        )

    def start(self, *options: str, port: int | None = None, log: str = "daemon.log") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "canaryd", "--config", str(self.config), "daemon"]
        listen = ["--web.listen-address", f"127.0.0.1:{port or self.port}"]
        with (self.folder / log).open("ab") as stderr:
            process = subprocess.Popen(
                [*command, *listen, *options],
                cwd=self.folder,
                stderr=stderr,
                env=os.environ
                | {"HOME": str(self.folder), "MPLCONFIGDIR": str(self.folder.parents[1] / "fonts")}
                | self.environment,
            )
        self.processes.append(process)
        return process

    @contextmanager
    def daemon(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        process = self.start(*options)
        wait_for(lambda: self.page("/-/ready") == "ready\n", "ready")
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, self.log()

    def page(self, path: str, port: int | None = None) -> str | None:
        try:
            return httpx.get(f"http://127.0.0.1:{port or self.port}{path}", timeout=5).text
        except httpx.TransportError:
            return None

    def metric(self, line: str, port: int | None = None) -> float | None:
        """Return the value of one series as it is exposed."""
        found = [each for each in (self.page("/metrics", port) or "").splitlines() if each.startswith(line + " ")]
        return float(found[0].rpartition(" ")[2]) if found else None

    def log(self) -> str:
        return (self.folder / "daemon.log").read_text()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log().splitlines()]


def arm(role: str, model: str) -> str:
    return f'[[series.arm]]\nname = "{role}"\nrole = "{role}"\nprovider = "simulated"\nmodel = "{model}"\n'


def asking(model: SlowModel) -> str:
    """Return the tracked arm that asks a model of ours."""
    simulated = arm("tracked", "large")
    wire = f'base_url = "{model.base_url}"\ncredential = "slow"\nconcurrency = 4\n'
    return simulated.replace("simulated", "openai") + wire


def series(name: str) -> str:
    return (
        f'[[series]]\nname = "{name}"\npanel = "panel/small.jsonl"\n'
        + arm("tracked", "large")
        + arm("control", "small")
    )


def here(*arguments: str | Path) -> None:
    """Run a command that must succeed in this process, which saves its start and its imports."""
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.exception


def make_project(folder: Path, port: int, names: tuple[str, ...] = ("main",)) -> Project:
    here("init", folder)
    write_sums(folder / "panel", 30, in_cluster=2)
    project = Project(folder, port)
    head = '[demo]\nclock = "clock.txt"\n[store]\nurl = "sqlite:///canaryd.db"\n'
    project.config.write_text(head + "".join(series(name) for name in names))
    project.set_clock("2027-01-01T12:00:00+00:00")
    for command in (
        ("panel", "freeze", folder / "panel" / "small.jsonl"),
        ("--config", project.config, "db", "upgrade"),
        *(("--config", project.config, "register", "--series", name) for name in names),
    ):
        here(*command)
    return project


def register_anew(project: Project, config: str) -> None:
    """Give a project another configuration before anything was measured; its series is registered with that one."""
    for file in project.folder.glob("canaryd.db*"):
        file.unlink()
    project.config.write_text(config)
    here("--config", project.config, "register")


@pytest.fixture
def project(tmp_path: Path, port: int) -> Iterator[Project]:
    made = make_project(tmp_path / "project", port)
    yield made
    for process in made.processes:
        if process.poll() is None:
            process.kill()
            process.wait()


DAY_1 = "2027-01-02"
BOTH_COMPLETED = [("control", "completed"), ("tracked", "completed")]


def test_a_day_is_measured_at_its_time_once_and_a_restart_changes_nothing(canaryd: Any, project: Project) -> None:
    with project.daemon():
        wait_for(lambda: "idle, next run 2027-01-02 03:10Z" in project.log(), "the first tick")
        assert "no report of main here yet" in (project.page("/series/main") or "")
        project.set_clock(f"{DAY_1}T03:12:00+00:00")
        wait_for(lambda: project.outcomes(DAY_1) == BOTH_COMPLETED, "the day")
        sampled = wait_for(lambda: project.metric('canaryd_samples_total{arm="tracked",series="main"}'), "the snapshot")
        assert sampled == 30.0
        assert project.metric('canaryd_schedule_lateness_seconds{series="main"}') == 120.0
        assert project.metric('canaryd_provider_requests_total{arm="tracked",series="main"}') >= 30.0
        kept = project.metric('canaryd_run_last_success_timestamp_seconds{arm="tracked",series="main"}')
        headline = canaryd("--config", project.config, "check", "--json").json["sentence"]
        wait_for(lambda: escape(headline) in (project.page("/series/main") or ""), "the report with the day")
        assert "What is " not in (project.page("/series/main") or "")
        assert project.page("/") == project.page("/series/main"), "the only series stands at / itself"
    with project.daemon():
        again = project.metric('canaryd_run_last_success_timestamp_seconds{arm="tracked",series="main"}')
        assert again == kept != 0, "the value is back before the first scrape"
        wait_for(lambda: "idle, next run 2027-01-03 03:10Z" in project.log(), "waiting")
        assert project.outcomes(DAY_1) == BOTH_COMPLETED
    assert all(line["event"] for line in project.events()), "the drawing of pictures writes no line of its own"


def test_status_asks_the_daemon_and_the_store_is_copied(canaryd: Any, project: Project) -> None:
    extra = (
        f'[daemon]\nlisten = "127.0.0.1:{project.port}"\n[backup]\nfolder = "copies"\n[export]\nfile = "ro/c.sqlite"\n'
    )
    project.config.write_text(project.config.read_text() + extra)
    dead = canaryd("--config", project.config, "status")
    assert f"daemon unknown: nothing answers (Connection refused) at 127.0.0.1:{project.port}" in dead.out
    unknown = canaryd("--config", project.config, "status", "--json").json
    assert (unknown["daemon"]["pid"], unknown["live"]) == (None, {"main": None})
    with project.daemon() as process:
        project.set_clock(f"{DAY_1}T03:12:00+00:00")
        wait_for(lambda: project.outcomes(DAY_1) == BOTH_COMPLETED, "the day")
        wait_for((project.folder / "ro" / "c.sqlite").exists, "the copy for readers")
        wait_for(lambda: project.metric("canaryd_store_backup_last_success_timestamp_seconds"), "the daily copy")
        assert len(list((project.folder / "copies").glob("canaryd-*.sqlite"))) == 1
        wait_for(lambda: "2027-01-03" in (project.page("/-/status") or ""), "waiting")
        alive = canaryd("--config", project.config, "status", "--json").json
        assert alive["daemon"]["pid"] == process.pid
        assert alive["live"]["main"]["next_run"] == "2027-01-03T03:10:00+00:00"
        command = [sys.executable, "-m", "canaryd", "--config", str(project.config), "status", "--watch", "1"]
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert watching.stdout is not None
        seen = 0
        while seen < 2:
            line = watching.stdout.readline()
            assert line, "it goes on until it is told to end"
            seen += f"(pid {process.pid})" in line
        watching.send_signal(signal.SIGTERM)
        assert watching.wait(PATIENCE_S) == 130
        assert watching.communicate()[1] == "\ncanaryd: not watched any more\n"


def test_after_a_long_sleep_the_lost_days_are_rows_and_only_today_runs(project: Project) -> None:
    project.set_clock("2027-01-05T04:00:00+00:00")
    with project.daemon():
        wait_for(lambda: project.outcomes("2027-01-05") == BOTH_COMPLETED, "the day")
        wait_for(lambda: project.metric('canaryd_slots_missed_total{series="main"}') == 3.0, "the missed days")
    for day in ("2027-01-02", "2027-01-03", "2027-01-04"):
        assert project.outcomes(day) == [("control", "missed"), ("tracked", "missed")]
    reasons = project.rows("SELECT DISTINCT reason FROM run_end WHERE outcome = 'missed'")
    assert reasons == [("no process ran it before its UTC day ended",)]


def test_a_daemon_killed_in_a_run_goes_on_and_asks_nothing_twice(project: Project) -> None:
    process = project.start()
    project.set_clock(f"{DAY_1}T03:10:00+00:00")
    count = "SELECT count(*) FROM sample"
    wait_for(lambda: project.rows(count)[0][0] >= 10, "ten answers")
    process.kill()
    process.wait()
    with project.daemon():
        wait_for(lambda: set(project.outcomes(DAY_1)) >= set(BOTH_COMPLETED), "the day")
    distinct = "SELECT count(DISTINCT arm || item_id) FROM sample JOIN run_start USING (run_id)"
    assert project.rows(count) == project.rows(distinct) == [(60,)]


@pytest.fixture
def switch() -> Iterator[tuple[str, list[str]]]:
    """Yield the URL of a dead-man's switch, and what it was sent."""
    sent: list[str] = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/day", sent
    server.shutdown()
    server.server_close()


def test_a_dead_mans_switch_hears_of_every_slot_that_was_begun(project: Project, switch: Any) -> None:
    url, sent = switch
    with project.config.open("a") as config:
        config.write(f'[series.notify]\nheartbeat_url = "{url}"\n')
    with project.daemon():
        project.set_clock(f"{DAY_1}T03:10:00+00:00")
        wait_for(lambda: sent == ["/day/start", "/day"], "a whole day")
        wait_for(lambda: "idle, next run 2027-01-03 03:10Z" in project.log(), "waiting")
        (project.folder / "panel" / "small.jsonl").write_text("changed\n")
        project.set_clock("2027-01-03T03:10:00+00:00")
        wait_for(lambda: sent[2:4] == ["/day/start", "/day/fail"], "a day that was refused")


def test_a_week_later_the_stored_replies_are_graded_again(project: Project) -> None:
    with project.daemon():
        project.set_clock(f"{DAY_1}T03:10:00+00:00")
        wait_for(lambda: "idle, next run 2027-01-03 03:10Z" in project.log(), "the first day")
        project.set_clock("2027-01-09T03:10:00+00:00")
        wait_for(lambda: project.metric('canaryd_regrade_mismatches{series="main"}') == 0.0, "the regrading")
    assert project.rows("SELECT identical, differing, since FROM regrade") == [(120, 0, None)]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(tmp_path / "notify")
    yield made
    made.close()


def test_reloads_refuse_what_was_registered_and_the_service_manager_is_told(project: Project, manager: Manager) -> None:
    project.environment |= {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "60000000"}
    web, written = project.folder / "web.yml", project.config.read_text()
    web.write_text("")

    def reload(*, succeeds: bool) -> None:
        before = len(manager.told)
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: manager.since(before, expected=["RELOADING=1", "READY=1"]), "the reload")
        assert project.metric("canaryd_config_last_reload_successful") == succeeds

    process = project.start("--web.config.file", str(web))
    wait_for(lambda: "READY=1" in manager.told, "ready")
    assert project.page("/-/ready") == "ready\n"
    wait_for(lambda: "STATUS=idle, next run 2027-01-02 03:10Z" in manager.told, "the line of its state")
    wait_for(lambda: "WATCHDOG=1" in manager.told, "a sign of life")
    project.config.write_text(written.replace('model = "large"', 'model = "larger"'))
    reload(succeeds=False)
    changed = "series 'main' arm 'tracked' (model) changed, which a running daemon does not take over; restore it"
    assert changed in project.log()
    project.set_clock(f"{DAY_1}T03:10:00+00:00")
    wait_for(lambda: project.outcomes(DAY_1) == BOTH_COMPLETED, "the day, with the configuration in force")
    project.config.write_text(written + "[retry]\ncalls = 2\n")
    web.write_text("basic_auth_users: [\n")
    reload(succeeds=False)
    assert "web.yml:2: is not YAML" in project.log()
    web.write_text("")
    reload(succeeds=True)
    before = len(manager.told)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    wait_for(lambda: manager.since(before, expected=["STOPPING=1\nEXTEND_TIMEOUT_USEC=90000000"]), "its end")


def test_an_edited_panel_blocks_the_run_and_the_daemon_stays(project: Project) -> None:
    panel = project.folder / "panel" / "small.jsonl"
    project.environment["NOTIFY_SOCKET"] = str(project.folder / "nobody")
    with project.daemon():
        panel.write_text(panel.read_text().replace("What is 3 +", "What is  3 +"))
        project.set_clock(f"{DAY_1}T03:10:00+00:00")
        blocked = 'canaryd_run_blocked{arm="tracked",reason="panel_mismatch",series="main"}'
        wait_for(lambda: project.metric(blocked) == 1.0, "the blocked reason")
        assert project.page("/-/healthy") == "healthy\n"
        assert project.rows("SELECT count(*) FROM sample") == [(0,)]
    assert project.log().count("service manager not told") == 1, "nor does a service manager that is not there end it"


def test_a_missing_key_of_one_arm_closes_that_arm_with_its_reason_and_the_other_is_measured(project: Project) -> None:
    config = project.config.read_text()
    register_anew(project, config.replace(arm("tracked", "large"), asking(SlowModel(at_once=0))))
    with project.daemon():
        project.set_clock(f"{DAY_1}T03:10:00+00:00")
        blocked = 'canaryd_run_blocked{arm="tracked",reason="credentials",series="main"}'
        wait_for(lambda: project.metric(blocked) == 1.0, "the blocked reason")
        assert project.metric(blocked.replace("tracked", "control")) == 0.0
    assert project.outcomes(DAY_1) == [("control", "completed"), ("tracked", "refused")]


def test_two_daemons_share_a_store_and_the_second_takes_over(project: Project) -> None:
    second_port = free_port()
    with project.daemon() as first:
        # A calendar that jumps over a night lapses the lease for whoever looks first; from here on it moves by less.
        project.set_clock(f"{DAY_1}T03:09:30+00:00")
        renewed = f"SELECT expires_at > '{DAY_1}T03:10' FROM lease"
        wait_for(lambda: project.rows(renewed) == [(1,)], "the lease of the new day")
        second = project.start(port=second_port, log="second.log")
        standby = project.folder / "second.log"
        wait_for(lambda: standby.exists() and f"held by process {first.pid}" in standby.read_text(), "the standby")
        assert project.page("/-/ready", second_port) == "ready\n", "a standby is ready"
        assert project.metric('canaryd_lease_held{series="main"}', second_port) == 0.0
        project.set_clock(f"{DAY_1}T03:10:00+00:00")
        wait_for(lambda: project.outcomes(DAY_1) == BOTH_COMPLETED, "the day")
        wait_for(lambda: project.metric('canaryd_lease_held{series="main"}') == 1.0, "the holder")
        assert project.metric('canaryd_lease_held{series="main"}', second_port) == 0.0
        assert project.metric('canaryd_provider_requests_total{arm="tracked",series="main"}', second_port) == 0.0
    project.set_clock("2027-01-03T03:10:00+00:00")
    wait_for(lambda: project.outcomes("2027-01-03") == BOTH_COMPLETED, "the next day, by the second")
    second.send_signal(signal.SIGTERM)
    assert second.wait(PATIENCE_S) == 0


def test_several_series_in_one_daemon(tmp_path: Path, port: int) -> None:
    project = make_project(tmp_path / "several", port, names=("main", "other"))
    with project.daemon():
        project.set_clock(f"{DAY_1}T03:10:00+00:00")
        ended = "SELECT series, arm, outcome FROM run_start JOIN run_end USING (run_id) ORDER BY series, arm"
        expected = [(name, arm, "completed") for name in ("main", "other") for arm in ("control", "tracked")]
        wait_for(lambda: project.rows(ended) == expected, "both series")


def test_without_a_daemon_the_same_figures_come_as_a_textfile(canaryd: Any, project: Project) -> None:
    project.set_clock(f"{DAY_1}T03:15:00+00:00")
    assert canaryd("--config", project.config, "run").code == 0
    written = project.folder / "canaryd.prom"
    done = canaryd("--config", project.config, "metrics", "--textfile", written)
    assert (done.code, done.out) == (0, "")
    text = written.read_text()
    assert 'canaryd_samples_total{arm="tracked",series="main"} 30.0' in text.splitlines()
    assert "canaryd_lease_held" not in text
    printed = canaryd("--config", project.config, "metrics").out
    assert 'canaryd_samples_total{arm="tracked",series="main"} 30.0' in printed.splitlines()


def test_a_store_that_is_not_there_ends_the_daemon_with_the_command_that_helps(project: Project) -> None:
    for part in project.folder.glob("canaryd.db*"):
        part.unlink()
    process = project.start()
    assert process.wait(PATIENCE_S) == 66
    assert "canaryd db upgrade" in project.log()


def test_an_address_that_faces_others_is_refused(project: Project) -> None:
    process = project.start("--web.listen-address", "0.0.0.0:0")
    assert process.wait(PATIENCE_S) == 78, "no restart would help"
    assert "faces other machines without TLS" in project.log()


def test_told_to_end_in_a_run_it_lets_calls_in_flight_land_and_keeps_the_slot_open(project: Project) -> None:
    model = SlowModel(at_once=8)
    (project.folder / "slow.key").write_text("a-key\n")
    config = project.config.read_text().replace(arm("tracked", "large"), asking(model))
    register_anew(project, config + '[credentials]\nslow_file = "slow.key"\n')
    process = project.start()
    project.set_clock(f"{DAY_1}T03:10:00+00:00")
    wait_for(lambda: model.arrived == 12, "four calls in flight")
    process.send_signal(signal.SIGTERM)
    wait_for(lambda: "stopping" in project.log(), "the drain")
    assert process.poll() is None, "it waits for them"
    model.release.set()
    assert process.wait(PATIENCE_S) == 0, project.log()
    assert model.arrived == model.answered == 12, "no further question was asked"
    stored = "SELECT count(*) FROM sample JOIN run_start USING (run_id) WHERE arm = 'tracked'"
    assert project.rows(stored) == [(11,)], "each answer that landed is stored; one call was the trivial task"
    assert ("tracked", "abandoned") in project.outcomes(DAY_1)
    spent = "SELECT calls FROM run_usage JOIN run_start USING (run_id) WHERE arm = 'tracked'"
    assert project.rows(spent) == [(12,)], "what it used up counts"
    assert project.rows("SELECT expires_at = heartbeat_at FROM lease") == [(1,)], (
        "by a clock that stands, held no longer"
    )
    with project.daemon():
        wait_for(lambda: ("tracked", "completed") in project.outcomes(DAY_1), "the rest of the day")
    assert project.rows(stored) == [(30,)]
