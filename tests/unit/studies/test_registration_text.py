"""The readable registration: everything that was registered stands in it, and the commit where there is one."""

import shutil
import subprocess
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from canaryd import graders, prereg
from canaryd.config import SeriesConfig
from canaryd.errors import ConfigError
from canaryd.generators import generate
from canaryd.hashing import digest
from canaryd.panel import load, system_path
from canaryd.records import Arm
from canaryd.runner.characteristics import short_simulation
from canaryd.store.engine import open_store
from canaryd.store.studies import RegistrationDocument, registration_document
from canaryd.studies.registration_text import Subject, document_text, git_commit, keep_registration, write_document

EXAMPLE = Path(__file__).parents[3] / "prereg.example.toml"
AT = datetime(2027, 2, 28, 9, 30, tzinfo=UTC)


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    (tmp_path / "prereg.toml").write_text(EXAMPLE.read_text().replace("series = 2000", "series = 100"))
    path = tmp_path / "mine.jsonl"
    made = generate("words", size=24, name="mine", families=("arith", "bases"))
    path.write_bytes(made.items)
    Path(system_path(str(path))).write_bytes(made.system)
    panel, protocol = load(str(path), graders=graders), prereg.load(tmp_path / "prereg.toml")
    arms = (
        Arm("tracked", "tracked", "openai", "big", "https://secret.example/v1", "a_key", {"max_tokens": 99}),
        Arm("control", "control", "openai", "small"),
    )
    series = SeriesConfig(name="main", panel=path, prereg=tmp_path / "prereg.toml", seed=1, arms=arms)
    simulation = short_simulation(protocol, panel.measured, has_control=True)
    return Subject(series, panel, protocol, date(2027, 3, 1), simulation)


def test_everything_that_was_registered_stands_in_it(subject: Subject) -> None:
    text = document_text(subject, at=AT, commit=None)
    statement = subject.prereg.statement
    for said in (
        *(subject.prereg.digest, subject.panel.digest, statement.publication),
        *(*statement.exclusions, *statement.secondary_analyses, *statement.threats),
        *("registered 2027-02-28 09:30 UTC", "day 1 is 2027-03-01", "baseline: 20 days, to 2027-03-20"),
        *("a change can be declared once 2027-04-09 has ended", "horizon: 365 days"),
        *(
            "| tracked | tracked | openai | big | max_tokens = 99 |",
            "| control | control | openai | small | none are sent |",
        ),
        *("the 99 % interval", "at least 3 points", "errors below 5 %", "at least 4 degrees of freedom"),
        *("kept when they sum to 1 .. 3", "less-effort, swapped", "in no work tree"),
        "-10.0 points after day 20, model",
    ):
        assert said in text, said
    assert "secret.example" not in text
    assert "a_key" not in text


def test_the_published_rule_is_told_in_its_own_words(subject: Subject) -> None:
    text = (subject.series.prereg).read_text().replace('mode = "canaryd"', 'mode = "prereg"')
    protocol = prereg.parse(text.encode(), source="p.toml")
    told = document_text(
        Subject(subject.series, subject.panel, protocol, date(2027, 3, 1), subject.simulation), at=AT, commit=None
    )
    assert "exceeds 2.576 clustered SE and 3 points" in told
    assert "Welch" not in told


def test_the_document_is_kept_with_its_hash(subject: Subject, tmp_path: Path) -> None:
    from canaryd.config import parse
    from canaryd.runner.registering import register

    config = parse(
        '[[series]]\nname = "main"\npanel = "mine.jsonl"\n'
        '[[series.arm]]\nname = "t"\nrole = "tracked"\nprovider = "simulated"\nmodel = "m"\n'
        '[[series.arm]]\nname = "control"\nrole = "control"\nprovider = "simulated"\nmodel = "c"\n',
        path=tmp_path / "config.toml",
    )
    with open_store(f"sqlite:///{tmp_path / 'canaryd.db'}", create=True) as store:
        register(config.series[0], subject.panel, store=store, now=AT, start_date=date(2027, 3, 1))
        document = keep_registration(subject, store=store, now=AT)
        with store.read() as connection:
            assert registration_document(connection, "main") == document
            assert registration_document(connection, "other") is None
    written = write_document(subject, document, elsewhere=tmp_path)
    assert written.parent == subject.series.prereg.parent
    assert written.read_bytes() == document.content
    assert document.digest == digest(document.content)


def test_the_commit_says_whether_the_files_are_as_committed(tmp_path: Path) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is missing")
    file = tmp_path / "prereg.toml"
    file.write_text("a")

    def run(*arguments: str) -> str:
        named = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
        done = subprocess.run([git, *named, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    assert git_commit(tmp_path, files=[file]) is None
    run("init", "--quiet")
    assert git_commit(tmp_path, files=[file]) is None, "there is no commit yet"
    run("add", "prereg.toml")
    run("commit", "--quiet", "-m", "a")
    commit = run("rev-parse", "HEAD")
    assert git_commit(tmp_path, files=[file]) == commit
    (tmp_path / "other").write_text("b")
    assert git_commit(tmp_path, files=[file]) == commit, "another file does not matter"
    assert git_commit(tmp_path, files=[file, tmp_path / "other"]) == commit + "+"
    file.write_text("b")
    assert git_commit(tmp_path, files=[file]) == commit + "+"


def test_a_document_that_cannot_be_written_is_said_and_kept(subject: Subject, tmp_path: Path) -> None:
    (tmp_path / "registration-main.md").mkdir()
    document = RegistrationDocument(b"text", digest(b"text"), None, AT)
    beside_store = tmp_path / "store"
    with pytest.raises(ConfigError, match=r"store/registration-main\.md.*the series is registered and the store keeps"):
        write_document(subject, document, elsewhere=beside_store)
    beside_store.mkdir()
    written = write_document(subject, document, elsewhere=beside_store)
    assert (written, written.read_bytes()) == (beside_store / "registration-main.md", b"text")
