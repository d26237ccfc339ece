"""The registration of a duel: everything by which it is decided stands in one TOML file, and nothing has a default."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canaryd import checks
from canaryd.config import Credentials
from canaryd.duel.fixture import LEAST_QUESTIONS, notices_of
from canaryd.duel.judge import RUBRIC_DIGEST
from canaryd.duel.model import Anchor, Question, SubstrateConfig, Thresholds
from canaryd.errors import ConfigError
from canaryd.hashing import digest_parts
from canaryd.judging import JudgeConfig, judge_of
from canaryd.tables import Table, parse_table
from canaryd.wording import as_toml

CALLS_PER_QUESTION = 4
#: Three thirds written as 0.333333 still add up to 1.
WEIGHT_DUST = 1e-5


@dataclass(frozen=True, slots=True)
class DuelPlan:
    """One duel as it is written; `fixture`, `anchors` and key files are paths as written in the file."""

    name: str
    source: str
    fixture: str
    anchors: str | None
    retrieval_tokens: int
    max_calls: int
    weights: Mapping[str, float]
    thresholds: Thresholds
    substrates: tuple[SubstrateConfig, SubstrateConfig]
    judges: tuple[JudgeConfig, JudgeConfig]
    credentials: Credentials


@dataclass(frozen=True, slots=True)
class Duel:
    """A plan with what it judges; `digest` is over plan, fixture, anchors and rubric, and names the duel."""

    plan: DuelPlan
    digest: str
    questions: tuple[Question, ...]
    anchors: tuple[Anchor, ...]


def bind(plan: DuelPlan, files: Sequence[bytes], *, questions: Sequence[Question], anchors: Sequence[Anchor]) -> Duel:
    """Return the duel of a plan and its files (the plan's own bytes, the fixture's, the anchors').

    Raises:
        ConfigError: families and weights do not fit each other, a family is too small, or the budget is.
    """
    sizes = Counter(question.family for question in questions)
    for family in sizes.keys() - plan.weights.keys():
        raise ConfigError(
            f"{plan.source}: weights: the family {family!r} of {plan.fixture} has no weight; give every family one"
        )
    for family, weight in plan.weights.items():
        if sizes[family] < LEAST_QUESTIONS:
            raise ConfigError(
                f"{plan.source}: weights.{family} is {weight:g}, but {plan.fixture} holds {sizes[family]} questions of "
                "that family, and an interval takes at least 2; add questions or drop the family"
            )
    calls = CALLS_PER_QUESTION * (len(questions) + len(anchors))
    if calls > plan.max_calls:
        raise ConfigError(
            f"{plan.source}: budget.max_calls is {plan.max_calls}, but {len(questions)} questions and {len(anchors)} "
            f"anchors take {calls} judge calls when every answer parses; raise it or shorten the fixture"
        )
    return Duel(plan, digest_parts([*files, RUBRIC_DIGEST.encode()]), tuple(questions), tuple(anchors))


def warnings_of(duel: Duel) -> list[str]:
    """Return the warnings about a duel, one sentence each."""
    warnings = notices_of(duel.questions, source=duel.plan.fixture)
    if not duel.anchors:
        warnings.append(
            f"{duel.plan.source}: there are no anchors, so a judge that moves between two duels cannot be told from a "
            'substrate that moved; name a file with anchors = "..."'
        )
    return warnings


def parse_plan(data: bytes, *, source: str) -> DuelPlan:
    """Return the plan in the bytes of a TOML file.

    Raises:
        ConfigError: it is not UTF-8 or TOML, a key is unknown, missing, of the wrong type or out of range, or the two
            judges are of one family; one sentence with file, line and key.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: byte {error.start} is not UTF-8 text; save the file as UTF-8") from None
    root = parse_table(text, source=source)
    budget, substrates = root.table("budget"), root.table("substrate")
    plan = DuelPlan(
        name=root.take("name", str, check=checks.name),
        source=source,
        fixture=root.take("fixture", str, check=checks.filled),
        anchors=root.optional("anchors", str, check=checks.filled),
        retrieval_tokens=root.take("retrieval_tokens", int, check=checks.between(1, 100_000)),
        max_calls=budget.take("max_calls", int, check=checks.between(1, 1_000_000)),
        weights=_weights(root.table("weights")),
        thresholds=_thresholds(root.table("threshold")),
        substrates=(_substrate(substrates.table("a")), _substrate(substrates.table("b"))),
        judges=_judges(root),
        credentials=_credentials(root.table("credentials")),
    )
    for table in (budget, substrates, root):
        table.done()
    if plan.substrates[0].id == plan.substrates[1].id:
        substrates.table("b").refuse("id", f"is {plan.substrates[1].id!r} like that of substrate a; give each its own")
    return plan


def _weights(table: Table) -> dict[str, float]:
    weights: dict[str, float] = {}
    for family, value in table.rest().items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
            table.refuse(family, f"is {as_toml(value)}, but must be a number above 0 and at most 1")
        weights[family] = float(value)
    if abs(sum(weights.values()) - 1) > WEIGHT_DUST:
        raise ConfigError(f"{table.source}: weights add up to {sum(weights.values()):g}, but must add up to 1")
    return weights


def _thresholds(table: Table) -> Thresholds:
    thresholds = Thresholds(
        min_gap=table.take("min_gap", float, check=checks.share),
        min_fabrication_ratio=table.take("min_fabrication_ratio", float, check=checks.between(1, 1000)),
        min_fabrications_against_zero=table.take("min_fabrications_against_zero", int, check=checks.between(1, 1000)),
        confidence=table.take("confidence", float, check=checks.between(0.5, 0.9999)),
        max_unjudged_share=table.take("max_unjudged_share", float, check=checks.between(0, 1)),
        bootstrap_draws=table.take("bootstrap_draws", int, check=checks.between(100, 1_000_000)),
        max_anchors_moved=table.take("max_anchors_moved", int, check=checks.between(0, 1000)),
    )
    table.done()
    return thresholds


def _substrate(table: Table) -> SubstrateConfig:
    kind = table.take("kind", str, check=checks.one_of("http", "command", "python"))
    shared: dict[str, Any] = {
        "id": table.take("id", str, check=checks.filled),
        "timeout_s": table.take("timeout_s", float, check=checks.between(0.1, 3600)),
    }
    if kind == "http":
        substrate = SubstrateConfig(
            kind="http",
            target=(table.url("url"),),
            query_field=table.take("query_field", str, check=checks.filled),
            text_path=table.take("text_path", str, check=checks.filled),
            credential=table.optional("credential", str, check=checks.name),
            **shared,
        )
    elif kind == "command":
        words: list[Any] = table.take("command", list, check=_command_line)
        substrate = SubstrateConfig(kind="command", target=tuple(words), **shared)
    else:
        substrate = SubstrateConfig(kind="python", target=(table.take("entry", str, check=_entry_point),), **shared)
    table.done()
    return substrate


def _judges(root: Table) -> tuple[JudgeConfig, JudgeConfig]:
    tables = root.tables("judge")
    if len(tables) != 2:
        root.refuse(
            "judge", f"needs exactly two [[judge]] tables, there are {len(tables)}; two families check each other"
        )
    first, second = (_judge(table, name=f"judge-{n}") for n, table in enumerate(tables, start=1))
    if first.family == second.family:
        tables[1].refuse(
            "family", f"is {second.family!r} like the first judge's; the two must be of different families"
        )
    if first.identity == second.identity:
        tables[1].refuse("model", f"makes both judges {second.identity!r}; they must be two")
    return first, second


def _judge(table: Table, *, name: str) -> JudgeConfig:
    judge = dataclasses.replace(judge_of(table, name=name), usd_per_million=_prices(table))
    table.done()
    return judge


def _prices(table: Table) -> dict[str, float]:
    prices = table.table("usd_per_million")
    known = {side: prices.optional(side, float, check=checks.between(0, 100_000)) for side in ("input", "output")}
    prices.done()
    found = {side: price for side, price in known.items() if price is not None}
    if len(found) == 1:
        table.refuse("usd_per_million", "names one of input and output; a cost takes both")
    return found


def _credentials(table: Table) -> Credentials:
    allow_env = table.take("allow_env", bool, default=False)
    files = {}
    for key, value in table.rest().items():
        if not key.endswith("_file") or not isinstance(value, str):
            table.refuse(key, 'is unknown; write allow_env, or NAME_file = "path" for the key that is called NAME')
        files[key.removesuffix("_file")] = value
    return Credentials(allow_env=allow_env, files=files)


def _command_line(value: list[Any]) -> str | None:
    good = value and all(isinstance(word, str) and word for word in value)
    return None if good else 'must be a list of words such as ["./search", "--top", "3"]'


def _entry_point(value: str) -> str | None:
    return None if re.fullmatch(r"[\w.]+:\w+", value) else "must be written package.module:function"
