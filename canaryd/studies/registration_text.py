"""The registration of a series as a document for people: written when it is registered, hashed, kept in the store."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from canaryd.config import SeriesConfig
from canaryd.errors import ConfigError
from canaryd.hashing import digest
from canaryd.panel import Panel
from canaryd.prereg import Prereg
from canaryd.records import Arm, JsonValue
from canaryd.store.engine import Store
from canaryd.store.studies import RegistrationDocument, keep_document
from canaryd.studies.characteristics import as_text
from canaryd.windows import Grid
from canaryd.wording import counted


@dataclass(frozen=True, slots=True)
class Subject:
    """What is registered: the series with its panel and rule, day 1, and the simulated operating characteristics."""

    series: SeriesConfig
    panel: Panel
    prereg: Prereg
    start_date: date
    simulation: JsonValue


def keep_registration(subject: Subject, *, store: Store, now: datetime) -> RegistrationDocument:
    """Keep the document of a registration in the store and return it.

    In a git work tree the document names the commit, and whether registration and panel are what was committed.
    """
    folder = subject.series.prereg.parent
    commit = git_commit(folder, files=(subject.series.prereg, subject.series.panel))
    content = document_text(subject, at=now, commit=commit).encode()
    document = RegistrationDocument(content, digest(content), commit, now)
    keep_document(store, subject.series.name, document=document)
    return document


def write_document(subject: Subject, document: RegistrationDocument, *, elsewhere: Path) -> Path:
    """Write registration-NAME.md beside the registration and return its path.

    Where that folder is not this user's to write in (a service's configuration, say), it is written `elsewhere`.

    Raises:
        ConfigError: it cannot be written; the series is registered all the same, and the store has the document.
    """
    name = f"registration-{subject.series.name}.md"
    problems = []
    for path in (subject.series.prereg.parent / name, elsewhere / name):
        try:
            path.write_bytes(document.content)
        except OSError as error:
            problems.append(f"{path}: cannot be written ({error.strerror})")
        else:
            return path
    raise ConfigError(
        f"{'; '.join(problems)}; the series is registered and the store keeps the document, so nothing needs to be "
        "registered again"
    )


def git_commit(folder: Path, *, files: Sequence[Path]) -> str | None:
    """Return the commit of the work tree that a folder lies in, None outside of one.

    Where one of the files is not what was committed, "+" follows the commit.
    """
    commit = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    if not commit:
        return None
    changed = _git(folder, "status", "--porcelain", "--ignored", "--", *(str(file) for file in files))
    return commit if changed == "" else f"{commit}+"


def _git(folder: Path, *arguments: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    command = [program, "-C", str(folder), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(  # noqa: S603 - an absolute path and no shell
        command,
        env=environment | {"GIT_OPTIONAL_LOCKS": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() if done.returncode == 0 else None


def document_text(subject: Subject, *, at: datetime, commit: str | None) -> str:
    """Return the document as Markdown."""
    return "\n".join(_document(subject, at=at, commit=commit)) + "\n"


def _document(subject: Subject, *, at: datetime, commit: str | None) -> Iterator[str]:
    yield f"# Registration of the series `{subject.series.name}`"
    yield ""
    yield from _pinned(subject, at=at, commit=commit)
    yield from _section("Arms", _arms(subject.series.arms))
    if subject.series.judge is not None:
        judge = subject.series.judge.config
        yield from _section("Judge", [f"`{judge.identity}`, of the family {judge.family}."])
    yield from _section("Calendar", _calendar(subject))
    yield from _section("The rule", _rule(subject.prereg))
    yield from _section("Beside the rule", _beside(subject.prereg))
    yield from _section("Calibration and validation", _studies(subject.prereg))
    yield from _section("Operating characteristics, simulated before any data", _simulated(subject.simulation))
    statement = subject.prereg.statement
    yield from _section("Exclusions", _bullets(statement.exclusions))
    yield from _section("Secondary analyses", _bullets(statement.secondary_analyses))
    yield from _section("Threats to validity", _bullets(statement.threats))
    yield from _section("Publication", [statement.publication])


def _section(title: str, lines: Sequence[str] | Iterator[str]) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield from lines


def _bullets(sentences: Sequence[str]) -> list[str]:
    return [f"- {sentence}" for sentence in sentences] or ["None."]


def _pinned(subject: Subject, *, at: datetime, commit: str | None) -> Iterator[str]:
    panel = subject.panel
    yield f"- registered {at:%Y-%m-%d %H:%M} UTC, before the first day"
    yield f"- registration `{subject.prereg.digest}` ({subject.series.prereg.name})"
    yield f"- panel {panel.name} {panel.version}, {counted(len(panel.items), 'item')}, `{panel.digest}`"
    if commit is None:
        yield "- git commit: none, the folder is in no work tree that git can read"
    else:
        state = "registration or panel differ from it" if commit.endswith("+") else "registration and panel as in it"
        yield f"- git commit `{commit.removesuffix('+')}` ({state})"


def _arms(arms: Sequence[Arm]) -> Iterator[str]:
    yield "| arm | role | provider | model | request parameters |"
    yield "|---|---|---|---|---|"
    for arm in arms:
        params = ", ".join(f"{name} = {value}" for name, value in arm.params.items()) or "none are sent"
        yield f"| {arm.name} | {arm.role} | {arm.provider} | {arm.model} | {params} |"


def _calendar(subject: Subject) -> Iterator[str]:
    rule = subject.prereg.rule
    grid = Grid(subject.start_date, rule.baseline_days, rule.window_days)
    yield f"- slots are UTC dates; day 1 is {grid.start}"
    yield f"- baseline: {counted(rule.baseline_days, 'day')}, to {grid.baseline.last}"
    yield f"- then a window every {counted(rule.window_days, 'day')}; the first ends on {grid.window(1).last}"
    yield f"- a change can be declared once {grid.window(2).last} has ended"
    yield f"- horizon: {subject.prereg.horizon_days} days"


def _rule(prereg: Prereg) -> Iterator[str]:
    rule = prereg.rule
    yield (
        "A change is declared when two neighbouring windows are both evaluable and both hits of the same sign. "
        f"Mode `{rule.mode}`."
    )
    yield ""
    if rule.mode == "canaryd":
        level = f"{100 * rule.estimate.confidence:g} %"
        yield f"- hit: the {level} interval of the mean paired delta excludes 0 on the items (clustered, CR2, t)"
        yield f"- and on the days (Welch, {level}), and the delta is at least {_points(rule.min_effect)}"
        yield f"- blamed on the model only beyond a control on shared items ({100 * rule.did_confidence:g} % interval)"
    else:
        yield f"- hit: the mean paired delta exceeds {rule.z:g} clustered SE and {_points(rule.min_effect)}"
        yield "- blamed on the platform when the control is a hit of the same sign in both windows, else on the model"
    shares = (rule.max_error_rate, rule.min_usable_day_share, rule.min_day_item_share, rule.min_item_share)
    errors, days, of_day, paired = (f"{100 * share:g} %" for share in shares)
    yield f"- evaluable: errors below {errors}, {days} usable days (each with {of_day} of the items),"
    yield f"  {paired} of the items paired, at least {rule.estimate.min_df:g} degrees of freedom, one harness"
    yield f"- wanted: a change of {_points(prereg.target_mde)} seen; every null is printed with what would have been"


def _beside(prereg: Prereg) -> Iterator[str]:
    early, sentinels = prereg.early_warning, prereg.sentinels
    yield "None of these declares a change; each is a ticket of its own."
    yield ""
    yield f"- early warning on {', '.join(early.streams)}: at most {early.alpha:g} false alarms over its whole life"
    yield f"- output tokens: a change of at least {100 * prereg.tokens.min_change:g} %"
    yield f"- refused, filtered, truncated, empty and malformed answers: exact tests at {prereg.outcome_alpha:g}"
    yield f"- sentinels: at most {sentinels.false_alarms_per_year:g} false alarms a year"
    yield f"- items that moved, after a declared change only: false discovery rate {prereg.localisation_q:g}"
    if prereg.judge is not None:
        enter = "enter the estimates" if prereg.judge.primary else "are described and enter no estimate"
        anchors = prereg.judge.max_anchors_moved
        yield f"- items that a judge grades {enter}; the judge has moved when more than {anchors}"
        yield "  of its anchors get another verdict, or another model answers for it"


def _studies(prereg: Prereg) -> Iterator[str]:
    screen, validation = prereg.calibration, prereg.validation
    yield (
        f"- screen: {counted(screen.screen_samples, 'sample')} an item, kept when they sum to {screen.keep_min:g} .. "
        f"{screen.keep_max:g}; confirmation: {screen.confirm_samples} fresh samples, which drop nothing"
    )
    yield f"- odd against even baseline days must not differ, and days no more than by chance, at {validation.alpha:g}"
    controls = ", ".join(control.name for control in validation.controls)
    yield f"- positive controls that must be seen in {' or '.join(validation.seen_in)}: {controls}"


def _simulated(simulation: JsonValue) -> Iterator[str]:
    answer: Mapping[str, Any] = simulation if isinstance(simulation, dict) else {}
    yield f"Pass rates {answer['rates']}, seed {answer['seed']}."
    yield ""
    yield "```"
    yield as_text(answer)
    yield "```"


def _points(fraction: float) -> str:
    return f"{100 * fraction:g} points"
