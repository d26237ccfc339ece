"""What a person reads of an arm that was refused, of the budget, of an acknowledgement and of the daemon."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from canaryd.status import Status, as_text
from canaryd.status.live import Live, LiveSeries
from canaryd.status.model import AcknowledgedState, BlockedSeries, BudgetLine, LastRun, OpenRun, SeriesStatus

NOW = datetime(2027, 3, 28, 21, 8, tzinfo=UTC)
DUE = datetime(2027, 3, 29, 3, 10, tzinfo=UTC)


def series(**changes: Any) -> SeriesStatus:
    empty: dict[str, Any] = dict.fromkeys(SeriesStatus.__dataclass_fields__)
    empty |= {
        "name": "haiku",
        "state": "regression",
        "since": NOW,
        "phase": "day 3 of 7 of window 10",
        "deviations": (),
        "early_warnings": (),
        "last_runs": (),
        "budget": (),
        "open_runs": (),
        "quarantines": (),
        "slots_without_canary": (),
        "stale": False,
        "next_run": DUE,
    }
    return SeriesStatus(**(empty | changes))


def shown(one: SeriesStatus, live: Live | None = None) -> list[str]:
    status = Status("0.4.0", "sqlite:///c.db", NOW, "system", (one,))
    return [line.strip() for line in as_text(status, live).splitlines()]


def test_a_refused_arm_is_shown_with_the_command_that_helps() -> None:
    refused = LastRun("tracked", date(2027, 3, 28), "refused", "budget: calls_per_day is 5", "budget")
    lines = shown(series(last_runs=(refused,), budget=(BudgetLine("calls_per_day", 3, 5),)))
    assert "tracked: BLOCKED budget   run: canaryd doctor --series haiku" in lines
    assert "budget: calls per day 3/5" in lines
    assert lines[-1].endswith("next run 2027-03-29 03:10Z (in 6 h 2 min)")


def test_a_blocked_series_looks_blocked_and_keeps_its_state() -> None:
    blocked = BlockedSeries("harness_drift", date(2027, 3, 26), "canaryd doctor --series haiku")
    lines = shown(series(blocked=blocked, stale=True))
    assert lines[2] == "! haiku      BLOCKED harness_drift since 2027-03-26   run: canaryd doctor --series haiku"
    assert lines[3] == "REGRESSION since 2027-03-28   day 3 of 7 of window 10"
    status = Status("0.4.0", "sqlite:///c.db", NOW, "system", (series(blocked=blocked), series()))
    told, nothing = status.to_json()["series"]
    assert told["blocked"] == {"reason": "harness_drift", "since": "2027-03-26", "command": blocked.command}
    assert (told["state"], nothing["blocked"]) == ("regression", None)


def test_a_run_that_has_not_ended_is_running_or_its_process_is_gone() -> None:
    running = OpenRun("tracked", date(2027, 3, 28), NOW, is_running=True)
    assert "tracked: the run of 2027-03-28 is running since 2027-03-28 21:08Z" in shown(series(open_runs=(running,)))
    gone = (
        "tracked: the run of 2027-03-28 began 2027-03-28 21:08Z, and its process is gone; `canaryd run` or the "
        "daemon's next tick closes it, and the same day goes on where it stopped"
    )
    assert gone in shown(series(open_runs=(replace(running, is_running=False),)))


def test_an_age_is_never_negative() -> None:
    assert "last success 2027-03-28 21:08Z (0 h ago)" in shown(series(last_success=NOW))[-1]
    ahead = shown(series(last_success=DUE))[-1]
    assert "last success 2027-03-29 03:10Z (in the future: the clock was set back)" in ahead


def test_what_is_acknowledged_stays_on() -> None:
    lines = shown(series(acknowledged=AcknowledgedState(DUE, "the vendor is told")))
    assert lines[2].startswith("× haiku      REGRESSION since 2027-03-28")
    assert "acknowledged until 2027-03-29 03:10Z: the vendor is told" in lines


def test_the_daemon_is_shown_or_said_to_be_unknown() -> None:
    standby = LiveSeries("standby: held elsewhere", "not_holder", None, None, DUE)
    live = Live("127.0.0.1:1", None, "0.4.0", 930, NOW, {"haiku": standby})
    first, *_, last = shown(series(), live)
    assert first == "● canaryd 0.4.0   running since 2027-03-28 21:08Z (pid 930)   store sqlite:///c.db   schema ok"
    assert last == "daemon: standby: held elsewhere   run: canaryd doctor --series haiku"
    working = live._replace(series={"haiku": standby._replace(state="running 41/300", blocked=None)})
    assert shown(series(), working)[-1] == "daemon: running 41/300"
    behind = shown(series(), live._replace(series={}, copies={"backup": "the folder is read-only"}))
    assert behind[-1] == (
        "daemon: does not know this series, which it began without; restart it (systemctl restart canaryd)"
    )
    assert behind[1] == "! [backup] was not copied: the folder is read-only"
    dead = shown(series(), Live("127.0.0.1:1", "nothing answers (Connection refused)"))
    assert "daemon unknown: nothing answers (Connection refused) at 127.0.0.1:1" in dead[0]
    assert "daemon" not in shown(series())[0]
