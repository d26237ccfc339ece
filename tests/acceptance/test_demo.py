"""The demo as its user runs it: the drop is declared, the null is not, and a killed play ends as an undisturbed one."""

import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

VERDICT_COLUMNS = (
    "window_index, kind, direction, attribution, reasons, decided_at, panel_digest, registration_digest, clauses"
)


def rows(folder: Path, query: str) -> list[Any]:
    with sqlite3.connect(folder / "canaryd.db") as connection:
        found = connection.execute(query).fetchall()
    connection.close()
    return found


def verdicts(folder: Path) -> list[Any]:
    return rows(folder, f"SELECT {VERDICT_COLUMNS} FROM verdict ORDER BY verdict_id")


def test_the_drop_is_declared_for_the_tracked_arm_alone(canaryd: Any, tmp_path: Path, port: int) -> None:
    demo = canaryd("demo", "--dir", "played", "--port", str(port))
    assert demo.code == 0, demo.err
    assert "declared regression" in demo.out
    assert "demo clock 2027-03-02" in demo.out
    kinds = [(window, kind, direction) for window, kind, direction, *_ in verdicts(tmp_path / "played")]
    assert kinds == [
        (1, "insufficient_data", None),
        (2, "no_change_detected", None),
        (3, "change", "down"),
        (4, "change", "down"),
    ]
    check = canaryd("--config", "played/config.toml", "check", "--json")
    assert (check.code, check.json["verdict"], check.json["direction"]) == (1, "change", "down")
    assert check.json["attribution"] == "model"
    status = canaryd("--config", "played/config.toml", "status", "--json").json
    (series,) = status["series"]
    assert (status["clock"], series["state"], series["window"]["index"]) == ("demo", "regression", 4)
    control = series["window"]["arms"][1]
    assert control["ci_lower"] < 0 < control["ci_upper"], "the control shows no change"
    assert demo.out.index("token shift of tracked in window 2") < demo.out.index("declared regression in window 3")
    assert rows(tmp_path / "played", "SELECT state FROM alarm ORDER BY alarm_id") == [("ok",), ("regression",)]
    page = (tmp_path / "played" / "demo.html").read_text()
    assert "<svg" in page
    assert "declared regression" in page


def test_the_null_declares_nothing(canaryd: Any, port: int) -> None:
    demo = canaryd("demo", "--no-drop", "--dir", "null", "--port", str(port))
    assert demo.code == 0, demo.err
    assert "declared" not in demo.out.replace("nothing was declared", "")
    check = canaryd("--config", "null/config.toml", "check", "--json")
    assert (check.code, check.json["verdict"], check.json["reason"]) == (0, "no_change_detected", "verdict")


def test_a_killed_play_that_goes_on_ends_as_an_undisturbed_one(canaryd: Any, quick_play: Path, tmp_path: Path) -> None:
    # The same address, since it is part of what verdicts rest on.
    port = int(re.findall(r"127\.0\.0\.1:(\d+)", (quick_play / "config.toml").read_text())[0])
    distinct_samples = "count(DISTINCT r.arm || r.slot_date || s.item_id)"
    once = f"SELECT count(*), {distinct_samples} FROM sample s JOIN run_start r USING (run_id)"
    ((whole, _),) = rows(quick_play, once)
    for seed in range(2):
        folder = tmp_path / f"cut-{seed}"
        for kill, moment in enumerate(sorted(random.Random(seed).sample(range(1, whole), 5))):
            kill_when_stored(folder, port, samples=moment, resume=kill > 0)
        done = canaryd("demo", "--quick", "--dir", folder, "--port", str(port), "--resume")
        assert done.code == 0, done.err
        assert verdicts(folder) == verdicts(quick_play)
        assert rows(folder, once) == [(whole, whole)], (
            "nothing was lost, and nothing that had an answer was asked again"
        )


def kill_when_stored(folder: Path, port: int, *, samples: int, resume: bool) -> None:
    """Start the quick demo in a folder and kill -9 it as soon as that many samples are stored."""
    command = [sys.executable, "-m", "canaryd", "demo", "--quick", "--dir", str(folder), "--port", str(port)]
    process = subprocess.Popen(command + ["--resume"] * resume, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    store = folder / "canaryd.db"
    while process.poll() is None:
        if store.exists() and stored(store) >= samples:
            os.kill(process.pid, signal.SIGKILL)
            break
        time.sleep(0.005)
    process.wait()


def stored(store: Path) -> int:
    connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    try:
        count: int = connection.execute("SELECT count(*) FROM sample").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()
    return count


def test_a_play_goes_on_as_it_was_begun(canaryd: Any, quick_play: Path, tmp_path: Path) -> None:
    shutil.copytree(quick_play, tmp_path / "play")
    other = canaryd("demo", "--dir", "play", "--resume", "--seed", "99")
    assert (other.code, "--seed: the play to go on with was begun otherwise" in other.err) == (64, True), other.err
    again = canaryd("demo", "--dir", "play", "--resume")
    assert again.code == 0, again.err
    assert "18 days, 24 items" in again.out
