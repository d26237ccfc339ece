"""Whether a lease's holder lives, with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from canaryd.store import process
from canaryd.store.process import Holder, is_alive, this_process

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no procfs on this system")

PRINT_SELF = (
    "from canaryd.store.process import this_process; h = this_process();"
    "print(h.host, h.machine, h.pid, h.process_start, sep='\\n', flush=True); input()"
)


def test_this_process_lives() -> None:
    assert is_alive(this_process())
    assert this_process() == this_process()


def test_a_process_is_dead_once_it_has_ended() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PRINT_SELF], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    host, machine, pid, start = (child.stdout.readline().strip() for _ in range(4))
    holder = Holder(host, machine, int(pid), int(start))
    assert is_alive(holder)
    child.communicate("\n")
    assert not is_alive(holder)


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PRINT_SELF], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdin is not None
    host, machine, pid, start = (child.stdout.readline().strip() for _ in range(4))
    child.stdin.close()
    child.stdout.read()
    child.stdout.close()
    while "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]:
        pass
    assert not is_alive(Holder(host, machine, int(pid), int(start)))
    child.wait()


def test_a_reused_process_id_is_another_process() -> None:
    assert not is_alive(replace(this_process(), process_start=1))


def test_a_process_of_another_machine_may_live() -> None:
    assert is_alive(replace(this_process(), machine="elsewhere", pid=2**22 + 1))


def test_without_procfs_nothing_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    holder = this_process()
    monkeypatch.setattr(process, "_PROC", tmp_path)
    unknown = this_process()
    assert (unknown.machine, unknown.process_start) == ("", 0)
    assert is_alive(unknown)
    assert is_alive(holder)


def test_a_boot_id_that_a_container_lays_over_proc_is_not_taken_for_that_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    of_service = replace(this_process(), pid=ended.pid)
    boot, _, namespace = of_service.machine.partition(":")
    assert boot
    stat = Path.stat

    def laid_over(path: Path, **options: bool) -> os.stat_result:
        found = stat(path, **options)
        return os.stat_result((*found[:2], found.st_dev + 1, *found[3:])) if path.name == "boot_id" else found

    monkeypatch.setattr(Path, "stat", laid_over)
    assert this_process().machine == f":{namespace}"
    assert not is_alive(of_service), "a service with a /proc of its own saw the boot id of the machine"
    assert is_alive(replace(of_service, host="elsewhere"))
    assert is_alive(replace(of_service, machine=f"{boot}:1"))
    assert this_process().is_same_process(replace(this_process(), machine=of_service.machine))


def test_a_process_that_procfs_hides_lives_as_long_as_it_exists(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    me = this_process()
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    seen = process.holder_of(other.pid)
    monkeypatch.setattr(process, "_PROC", tmp_path)
    monkeypatch.setattr(process, "_machine", lambda: me.machine)
    hidden = process.holder_of(other.pid)
    assert hidden == replace(seen, process_start=0)
    assert is_alive(hidden)
    assert is_alive(seen)
    other.communicate(b"\n")
    assert not is_alive(hidden)
    assert not is_alive(seen)


def test_a_start_that_was_not_seen_may_be_any() -> None:
    me = this_process()
    hidden = replace(me, process_start=0)
    assert me.is_same_process(hidden)
    assert hidden.is_same_process(me)
    assert not me.is_same_process(replace(me, process_start=1))
    assert not me.is_same_process(replace(hidden, pid=me.pid + 1))
    assert not me.is_same_process(replace(hidden, machine="elsewhere"))
