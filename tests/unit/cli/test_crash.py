"""The file that an unexpected error leaves."""

from pathlib import Path

import pytest

from canaryd.cli.crash import write_crash_file


def test_errors_that_name_each_other_are_written_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = ValueError("sk-secret"), RuntimeError("another")
    first.__context__, second.__cause__ = second, first
    said = write_crash_file(first)
    (file,) = tmp_path.iterdir()
    assert said == f"the details are in {file}"
    assert file.read_text().count("raised through") == 2
    assert "sk-secret" not in file.read_text()
