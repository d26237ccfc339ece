"""The configuration file: parsed into a frozen Config, every unknown key refused, and no key of a provider in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from canaryd import checks
from canaryd.errors import ConfigError, UsageError
from canaryd.judging import JudgeConfig, judge_of
from canaryd.params import json_values, request_params
from canaryd.records import JUDGE_GRADER, Arm, Role
from canaryd.service_config import ServiceConfig, parse_service
from canaryd.tables import Table, Taken, parse_table

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where keys may come from; never a key itself."""

    allow_env: bool = False
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retry:
    """Bounds of the retries of one call, and of a whole run: after `longest_run_s` no further request starts."""

    calls: int = 4
    first_wait_s: float = 2.0
    longest_wait_s: float = 60.0
    total_wait_s: float = 300.0
    longest_run_s: float = 21600.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a slot is due (minutes after 00:00 UTC) and how long it may be caught up the same day."""

    due_minute: int = 190
    catch_up_hours: float = 12.0
    attempts: int = 3


@dataclass(frozen=True, slots=True)
class Budget:
    """What the arms of a series may use up together in a UTC day and in a month; None is no limit."""

    calls_per_day: int | None = None
    calls_per_month: int | None = None
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None
    money_per_day: float | None = None
    money_per_month: float | None = None

    @property
    def counts_money(self) -> bool:
        """Whether prices are needed."""
        return self.money_per_day is not None or self.money_per_month is not None

    @property
    def counts_tokens(self) -> bool:
        """Whether it has to be foreseen how many tokens a call takes."""
        return self.counts_money or self.tokens_per_day is not None or self.tokens_per_month is not None


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs from a date on, a million tokens, in the currency of the budgets."""

    provider: str
    model: str
    first: date
    input_per_million: float
    output_per_million: float


@dataclass(frozen=True, slots=True)
class PanelJudge:
    """The judge of a panel's answers, and the file of anchors that it is held to."""

    config: JudgeConfig
    anchors: Path


@dataclass(frozen=True, slots=True)
class SeriesConfig:
    """One series: its panel, its registration and its arms (exactly one of them tracked)."""

    name: str
    panel: Path
    prereg: Path
    seed: int
    arms: tuple[Arm, ...]
    judge: PanelJudge | None = None
    budget: Budget = Budget()
    heartbeat_url: str | None = None

    @property
    def tracked(self) -> Arm:
        """The tracked arm."""
        return next(arm for arm in self.arms if arm.role == "tracked")

    @property
    def asked(self) -> tuple[Arm, ...]:
        """Everything that is asked and costs: the arms, and the judge as one more."""
        return self.arms if self.judge is None else (*self.arms, self.judge.config.arm)


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration; paths are absolute. Without `retain_texts_days` texts stay for ever."""

    path: Path
    store_url: str
    schedule: Schedule
    retry: Retry
    credentials: Credentials
    series: tuple[SeriesConfig, ...]
    demo_clock: Path | None = None
    prices: tuple[Price, ...] = ()
    service: ServiceConfig = field(default_factory=ServiceConfig)
    retain_texts_days: int | None = None

    def one_series(self, name: str | None) -> SeriesConfig:
        """Return the series of that name, or the only one.

        Raises:
            UsageError: there is no such series, or several and no name was given.
        """
        names = ", ".join(series.name for series in self.series)
        if name is None and len(self.series) == 1:
            return self.series[0]
        if name is None:
            raise UsageError(f"{self.path}: there are several series ({names}); say which with --series NAME")
        for series in self.series:
            if series.name == name:
                return series
        raise UsageError(f"{self.path}: there is no series {name!r}; there is {names}")


def parse(text: str, *, path: Path, taken: list[Taken] | None = None) -> Config:
    """Return the Config of a TOML text; relative paths in it are taken from the folder of `path`.

    Every value in force is noted in `taken`, with its line where it is no default.

    Raises:
        ConfigError: a key is unknown, missing, of the wrong type or out of range; one sentence with file, line and key.
    """
    root = parse_table(text, source=path.name, taken=taken)
    folder = path.resolve().parent
    store = root.table("store")
    store_url = _store_url(store.take("url", str, default="sqlite:///canaryd.db"), store, folder=folder)
    retain_texts_days = store.optional("retain_texts_days", int, check=_between(1, 36_500))
    store.done()
    series = tuple(_series(table, folder=folder) for table in root.tables("series"))
    if not series:
        root.refuse_misspelt("series", list)
        raise ConfigError(f"{path.name}: there is no [[series]]; add one as in config.example.toml")
    names = [entry.name for entry in series]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"{path.name}: two series are named {repeated!r}; a name is an identity, rename one")
    prices = tuple(_price(table) for table in root.tables("price"))
    _require_prices(series, prices, source=path.name)
    demo = root.table("demo")
    clock = demo.optional("clock", str, check=checks.filled)
    demo.done()
    config = Config(
        path=path.resolve(),
        store_url=store_url,
        retain_texts_days=retain_texts_days,
        schedule=_schedule(root.table("schedule")),
        retry=_retry(root.table("retry")),
        credentials=_credentials(root.table("credentials"), folder=folder),
        series=series,
        demo_clock=folder / clock if clock else None,
        prices=prices,
        service=parse_service(root, folder=folder, store_url=store_url),
    )
    root.done()
    return config


def _store_url(url: str, table: Table, *, folder: Path) -> str:
    if url.startswith("sqlite:///"):
        name = url.removeprefix("sqlite:///")
        if not name or "?" in name:
            table.refuse("url", f"is {url!r}, but must be sqlite:///FILE, without options")
        return f"sqlite:///{folder / name}"
    if not url.startswith(("postgresql://", "postgresql+psycopg://")):
        # Not repeated: a connection string of another form may hold a password.
        table.refuse("url", "must begin with sqlite:/// or postgresql://")
    address, _, query = url.partition("://")[2].partition("?")
    # Up to the last @, as the driver reads it: a password may hold a / or another @.
    if ":" in address.rpartition("@")[0] or {"password", "sslpassword"} & parse_qs(query).keys():
        table.refuse("url", "holds a password; use peer authentication, a service or a passfile (PGPASSFILE)")
    try:
        is_usable = urlsplit(url).port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        table.refuse("url", "has a host or a port that is none; write postgresql://USER@HOST:PORT/NAME")
    return url


def _schedule(table: Table) -> Schedule:
    text = table.take("time_utc", str, default="03:10")
    match = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)", text)
    if not match:
        table.refuse(
            "time_utc",
            f'is {text!r}, but must be "HH:MM" in UTC: slots are UTC dates, so a zone or a local time is refused',
        )
    schedule = Schedule(
        due_minute=int(match[1]) * 60 + int(match[2]),
        catch_up_hours=table.take("catch_up_hours", float, default=12.0, check=_between(0.5, 24)),
        attempts=table.take("attempts", int, default=3, check=_between(1, 20)),
    )
    table.done()
    return schedule


def _retry(table: Table) -> Retry:
    retry = Retry(
        calls=table.take("calls", int, default=4, check=_between(1, 20)),
        first_wait_s=table.take("first_wait_s", float, default=2.0, check=_between(0, 600)),
        longest_wait_s=table.take("longest_wait_s", float, default=60.0, check=_between(0, 3600)),
        total_wait_s=table.take("total_wait_s", float, default=300.0, check=_between(0, 7200)),
        longest_run_s=table.take("longest_run_s", float, default=21600.0, check=_between(1, 86400)),
    )
    table.done()
    return retry


def _credentials(table: Table, *, folder: Path) -> Credentials:
    allow_env = table.take("allow_env", bool, default=False)
    files = {}
    for key, value in table.rest().items():
        if not key.endswith("_file") or not isinstance(value, str):
            table.refuse(key, 'is unknown; write allow_env, or NAME_file = "path" for the key that arms call NAME')
        files[key.removesuffix("_file")] = str(folder / value)
    return Credentials(allow_env=allow_env, files=files)


def _series(table: Table, *, folder: Path) -> SeriesConfig:
    name = table.take("name", str, check=_name)
    series = SeriesConfig(
        name=name,
        panel=folder / table.take("panel", str, check=checks.filled),
        prereg=folder / table.take("prereg", str, default="prereg.toml", check=checks.filled),
        seed=table.take("seed", int, default=1, check=_between(0, 2**53)),
        arms=tuple(_arm(arm) for arm in table.tables("arm")),
        judge=_judge(judge, folder=folder) if (judge := table.optional_table("judge")) else None,
        budget=_budget(table.table("budget")),
        heartbeat_url=_heartbeat_url(table.table("notify")),
    )
    table.done()
    tracked = [arm.name for arm in series.arms if arm.role == "tracked"]
    if len(tracked) != 1:
        table.refuse("arm", f'needs exactly one arm with role = "tracked" in series {name!r}, there are {len(tracked)}')
    names = [arm.name for arm in series.asked]
    if repeated := next((arm for arm in names if names.count(arm) > 1), None):
        table.refuse("arm", f"names two arms {repeated!r} in series {name!r}; rename one")
    return series


def _judge(table: Table, *, folder: Path) -> PanelJudge:
    judge = judge_of(table, name=JUDGE_GRADER)
    paced = replace(judge.arm, requests_per_minute=_requests_per_minute(table))
    anchors = folder / table.take("anchors", str, check=checks.filled)
    table.done()
    return PanelJudge(replace(judge, arm=paced), anchors)


def _requests_per_minute(table: Table) -> float | None:
    return table.optional("requests_per_minute", float, check=_between(0.1, 1e6))


def _budget(table: Table) -> Budget:
    budget = Budget(
        calls_per_day=table.optional("calls_per_day", int, check=_between(1, 1e9)),
        calls_per_month=table.optional("calls_per_month", int, check=_between(1, 1e9)),
        tokens_per_day=table.optional("tokens_per_day", int, check=_between(1, 1e12)),
        tokens_per_month=table.optional("tokens_per_month", int, check=_between(1, 1e12)),
        money_per_day=table.optional("money_per_day", float, check=_between(0, 1e9)),
        money_per_month=table.optional("money_per_month", float, check=_between(0, 1e9)),
    )
    table.done()
    return budget


def _heartbeat_url(table: Table) -> str | None:
    url = table.optional_url("heartbeat_url")
    table.done()
    return url


def _price(table: Table) -> Price:
    price = Price(
        provider=table.take("provider", str),
        model=table.take("model", str),
        first=table.take("from", date, check=_day),
        input_per_million=table.take("input_per_million", float, check=_between(0, 1e9)),
        output_per_million=table.take("output_per_million", float, check=_between(0, 1e9)),
    )
    table.done()
    return price


def _require_prices(series: Iterable[SeriesConfig], prices: Iterable[Price], *, source: str) -> None:
    priced = {(price.provider, price.model) for price in prices}
    for one in series:
        for arm in one.asked:
            if one.budget.counts_money and (arm.provider, arm.model) not in priced:
                raise ConfigError(
                    f"{source}: series {one.name!r} has a budget in money, but there is no price of {arm.model!r} on "
                    f"{arm.provider!r} (arm {arm.name!r}); add a [[price]] with provider, model, from, "
                    "input_per_million and output_per_million"
                )


def _arm(table: Table) -> Arm:
    role = table.take("role", str, check=_one_of("tracked", "control", "replica"))
    arm = Arm(
        name=table.take("name", str, check=_name),
        role=cast("Role", role),
        provider=table.take("provider", str),
        model=table.take("model", str, check=lambda text: None if text else "a model must be named"),
        base_url=table.optional_url("base_url"),
        credential=table.optional("credential", str, check=_name),
        params=request_params(table.table("params")),
        options=json_values(table.table("options")),
        timeout_s=table.take("timeout_s", float, default=60.0, check=_between(0.1, 3600)),
        concurrency=table.take("concurrency", int, default=4, check=_between(1, 256)),
        requests_per_minute=_requests_per_minute(table),
        expect_resolved=table.optional("expect_resolved", str, check=checks.filled),
        redact=table.take("redact", bool, default=False),
    )
    table.done()
    return arm


def _between(low: float, high: float) -> Any:
    def check(value: float) -> str | None:
        return None if low <= value <= high else f"must be between {low:g} and {high:g}"

    return check


def _one_of(*allowed: str) -> Any:
    def check(value: str) -> str | None:
        return None if value in allowed else f"must be one of {', '.join(allowed)}"

    return check


def _name(value: str) -> str | None:
    return (
        None
        if NAME.fullmatch(value)
        else "must be 1 to 63 small letters, digits, - and _, beginning with a letter or digit"
    )


def _day(value: date) -> str | None:
    return "must be a date without a time" if isinstance(value, datetime) else None
