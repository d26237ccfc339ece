"""What `canaryd doctor` says of a store into which nothing can be written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from canaryd.cli.doctor import _examine_store
from canaryd.status.remedies import remedy
from canaryd.store.engine import open_store


def test_a_store_without_room_or_permission_fails_with_its_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'canaryd.db'}"
    with open_store(url, create=True) as store:
        assert _examine_store(store) == 0
        assert capsys.readouterr().out == f"ok    store        {url}\n"
        with monkeypatch.context() as patch:
            disk = SimpleNamespace(f_flag=0, f_bavail=9, f_frsize=4096)
            patch.setattr("canaryd.store.trouble.os.statvfs", lambda _: disk)
            assert _examine_store(store) == 1
        assert f"the disk is full at {tmp_path}; free space on it" in capsys.readouterr().out
        with store.write() as connection:
            connection.exec_driver_sql("PRAGMA query_only=ON")
        assert _examine_store(store) == 1
    said = capsys.readouterr().out
    assert said.startswith("FAIL  store        store sqlite:")
    assert "readonly database; check the owner and the permissions of the file and of its folder" in said


def test_what_the_status_tells_to_run_for_the_store_is_what_looks_at_room_and_permission() -> None:
    assert remedy("store_unavailable", series="main") == "canaryd doctor --series main"
