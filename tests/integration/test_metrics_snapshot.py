"""The snapshot of a store on both databases, and the whole exposition against the catalogue and promtool."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from canaryd.config import Budget, Price
from canaryd.judging import Reading
from canaryd.metrics.catalogue import BLOCKED_REASONS, METRICS, PREFIX, STATES
from canaryd.metrics.collector import ProcessMetrics, SnapshotCollector
from canaryd.metrics.money import Purse
from canaryd.metrics.snapshot import take_snapshot
from canaryd.metrics.values import Snapshot
from canaryd.records import (
    JUDGE_GRADER,
    Alarm,
    EarlyWarningDay,
    Failure,
    GraderSpec,
    Item,
    Reply,
    RunEnd,
    Verdict,
)
from canaryd.resources import resource
from canaryd.runner.silencing import silence
from canaryd.schedule import SlotPolicy
from canaryd.stats.watch_state import SentinelState
from canaryd.store.engine import Store
from canaryd.store.events import Event, add_events
from canaryd.store.harness import Spending, keep_duration, keep_usage
from canaryd.store.judges import add_judged_items, keep_reading
from canaryd.store.lease import Lease, acquire_lease
from canaryd.store.process import this_process
from canaryd.store.regrades import Difference, Regrade, append_regrade
from canaryd.store.rows import Invalid, Span
from canaryd.store.samples import samples
from canaryd.store.sentinels import SentinelDay, add_days
from canaryd.store.write import (
    append_alarm,
    append_early_warning,
    append_samples,
    append_validity,
    append_verdict,
    end_run,
    record_missed,
    register_series,
)

POLICY = SlotPolicy(due_minute=190, catch_up=timedelta(hours=12), attempts=3)
DAY_1 = date(2030, 1, 1)
NOON_2 = datetime(2030, 1, 2, 12, tzinfo=UTC)
ARMS = ("old", "ctl")


def begin(store: Store, study: Any) -> Lease:
    """Register the study with a registration that can be read, and a judge in it."""
    judged = b"\n[judge]\nprimary = false\nmax_anchors_moved = 1\n"
    registration = resource("prereg.example.toml").read_bytes() + judged
    register_series(store, replace(study.plan(), registration=registration))
    return acquire_lease(store, "s", holder=study.holder(), now=study.now, policy=study.policy)


def measure(store: Store, study: Any, lease: Lease, *, arm: str, results: dict[str, Any], outcome: str) -> int:
    """Store a run of day 1 with one sample per item, ended 90 s after its start by a calendar that was set on."""
    (run,) = study.claim(store, lease, study.start(arm=arm))
    tokens = {"input_tokens": 5, "output_tokens": 7, "reasoning_tokens": 2}
    rows = [
        study.sample(run, item, result, **({} if isinstance(result, Failure) else tokens))
        for item, result in results.items()
    ]
    append_samples(store, rows, run_id=run.run_id, lease=lease)
    end = RunEnd(run.start.started_at + timedelta(seconds=90), outcome, "why")
    keep_duration(store, 61.25, run_id=run.run_id, lease=lease)
    end_run(store, end, run_id=run.run_id, lease=lease)
    return int(run.run_id)


PURSE = Purse(
    {"s": Budget(money_per_day=2.0, money_per_month=40.0)},
    tuple(Price("simulated", model, DAY_1, 1.0, 10.0) for model in ("m-1", "m-2")),
)


def snapshot(store: Store, now: datetime = NOON_2, purse: Purse | None = PURSE) -> Snapshot:
    return take_snapshot(store, ["s"], policy=POLICY, now=now, purse=purse)


def test_a_fresh_series_has_its_states_and_no_number_that_nobody_measured(store: Store, study: Any) -> None:
    begin(store, study)
    values = snapshot(store, study.now).values
    assert values["alarm_state"]["s", "warming_up"] == 1
    assert values["run_last_success_timestamp_seconds"] == {("s", arm): 0 for arm in ARMS}
    assert values["next_run_timestamp_seconds"]["s",] == datetime(2030, 1, 1, 3, 10, tzinfo=UTC).timestamp()
    assert values["sentinels_excluded"]["s",] == 1
    for absent in ("run_score_ratio", "run_samples", "window_delta_ratio", "schedule_lateness_seconds", "harness_info"):
        assert absent not in values


def test_a_measured_day(store: Store, study: Any) -> None:
    lease = begin(store, study)
    scores = {"a": 1.0, "b": 0.5, "c": Failure("refusal", "no"), "d": 0.0}
    measure(store, study, lease, arm="old", results=scores, outcome="completed")
    values = snapshot(store).values
    assert values["run_score_ratio"]["s", "old"] == 0.75, "the sentinel enters no mean"
    assert values["run_samples"]["s", "old"] == 4
    assert values["run_failed_samples"]["s", "old", "refusal"] == 1
    assert values["samples_failed_total"]["s", "old", "refusal"] == 1
    assert values["run_last_duration_seconds"]["s", "old"] == 61.25
    assert values["runs_total"] == {("s", "old"): 1, ("s", "ctl"): 0}
    assert values["samples_total"]["s", "old"] == 4
    assert values["tokens_total"]["s", "old", "output"] == 21
    assert values["run_tokens_per_sample"]["s", "old", "output"] == 7, "of the three that reported them"
    assert values["run_last_success_timestamp_seconds"]["s", "ctl"] == 0


def test_a_day_on_which_every_call_failed_is_no_pass_rate_of_zero(store: Store, study: Any) -> None:
    lease = begin(store, study)
    failed = {item: Failure("timeout", "slow") for item in "abcd"}
    measure(store, study, lease, arm="old", results=failed, outcome="incomplete")
    values = snapshot(store).values
    assert ("s", "old") not in values.get("run_score_ratio", {})
    assert values["run_failed_samples"]["s", "old", "timeout"] == 4
    assert values["run_zero_pass"]["s", "old"] == 0
    assert values["run_last_success_timestamp_seconds"]["s", "old"] == 0
    assert values["run_last_completion_timestamp_seconds"]["s", "old"] > 0


def test_a_run_in_which_nothing_passed_is_seen(store: Store, study: Any) -> None:
    lease = begin(store, study)
    run_id = measure(store, study, lease, arm="old", results=dict.fromkeys("abcd", 0.0), outcome="completed")
    append_validity(store, Invalid("zero_pass_all", "4 samples", study.now, run_id=run_id))
    assert snapshot(store).values["run_zero_pass"] == {("s", "old"): 1, ("s", "ctl"): 0}


def test_missed_and_refused_slots(store: Store, study: Any) -> None:
    lease = begin(store, study)
    starts = [study.start(arm=arm) for arm in ARMS]
    record_missed(store, starts, end=RunEnd(study.now, "missed", "no process"), lease=lease, epoch=1)
    later = [study.start(2, arm=arm) for arm in ARMS]
    refused = RunEnd(NOON_2, "refused", "harness_drift: temperature 0 -> 1")
    record_missed(store, later, end=refused, lease=lease, epoch=1)
    values = snapshot(store).values
    assert values["slots_missed_total"]["s",] == 1
    blocked = {reason: values["run_blocked"]["s", "old", reason] for reason in BLOCKED_REASONS}
    assert blocked == {reason: reason == "harness_drift" for reason in BLOCKED_REASONS}
    assert values["runs_total"]["s", "old"] == 0


def test_an_open_run_is_in_progress_and_a_late_start_is_said(store: Store, study: Any) -> None:
    lease = begin(store, study)
    start = study.start()
    study.claim(store, lease, replace(start, started_at=start.due_at + timedelta(hours=6)))
    values = snapshot(store, study.now).values
    assert values["run_in_progress"]["s",] == 1
    assert values["schedule_lateness_seconds"]["s",] == 6 * 3600


def test_an_arm_that_was_last_measured_some_days_ago_shows_that_run(store: Store, study: Any) -> None:
    lease = begin(store, study)
    measure(store, study, lease, arm="ctl", results=dict.fromkeys("abc", 1.0), outcome="completed")
    for day in (2, 3):
        missed = RunEnd(study.now, "missed", "no process")
        record_missed(store, [study.start(day, arm="ctl")], end=missed, lease=lease, epoch=1)
        (run,) = study.claim(store, lease, study.start(day))
        end_run(store, RunEnd(study.now, "incomplete"), run_id=run.run_id, lease=lease)
    values = snapshot(store, datetime(2030, 1, 4, 12, tzinfo=UTC)).values
    assert values["run_samples"]["s", "ctl"] == 3
    ended = values["run_last_completion_timestamp_seconds"]
    assert ended["s", "ctl"] == study.start().started_at.timestamp() + 90
    assert ended["s", "old"] == study.now.timestamp()
    assert values["run_in_progress"]["s",] == 0


def test_an_open_run_whose_process_is_gone_is_not_in_progress(store: Store, study: Any) -> None:
    study.claim(store, begin(store, study), study.start())
    assert snapshot(store, study.now + timedelta(seconds=60)).values["run_in_progress"]["s",] == 0, "the lease lapsed"
    me = this_process()
    later = study.now + timedelta(seconds=60)
    acquire_lease(store, "s", holder=me, now=later, policy=study.policy)
    assert snapshot(store, later).values["run_in_progress"]["s",] == 1
    ended = replace(me, process_start=me.process_start - 1)
    acquire_lease(store, "s", holder=ended, now=later + timedelta(seconds=60), policy=study.policy)
    assert snapshot(store, later + timedelta(seconds=60)).values["run_in_progress"]["s",] == 0, "nobody holds it"


def test_the_sentinels_of_a_series(store: Store, study: Any) -> None:
    lease = begin(store, study)
    assert snapshot(store).values["sentinel_state"]["s", "warming_up"] == 1, "none is judged yet"
    days = [SentinelDay("s", DAY_1, "d", "moved", 80, 0.9, 0.0, 0.5, 1.0)]
    add_days(store, days, lease=lease)
    states = {labels[1]: value for labels, value in snapshot(store).values["sentinel_state"].items()}
    assert states == {state: state == "moved" for state in STATES["sentinel_state"]}


def test_slots_in_a_row_without_a_judgement_are_counted_by_sentinel(store: Store, study: Any) -> None:
    lease = begin(store, study)

    def unjudged_after(day: int, **states: SentinelState) -> float:
        slot_date = DAY_1 + timedelta(days=day)
        rows = [SentinelDay("s", slot_date, item, state, 80, 0.9, 0.0, 0.5, 1.0) for item, state in states.items()]
        add_days(store, rows, lease=lease)
        return snapshot(store).values["sentinel_unjudged_slots"]["s",]

    assert snapshot(store).values["sentinel_unjudged_slots"] == {("s",): 0}
    assert unjudged_after(0, a="unjudged", d="ok") == 1
    assert unjudged_after(1, a="ok", d="unjudged") == 1, "another one is no second slot"
    assert unjudged_after(2, a="moved", d="unjudged") == 2, "a graver state of another hides nothing"
    assert unjudged_after(3, a="ok", d="warming_up") == 0


def test_ten_thousand_different_names_and_texts_add_no_series(store: Store, study: Any) -> None:
    lease = begin(store, study)
    (run,) = study.claim(store, lease, study.start())
    rows = [
        replace(
            study.sample(run, "a", Failure("malformed", f"text {n}"), replicate=n),
            reply=Reply("x", "stop", resolved_model=f"m-{n:05}", standing="reported"),
        )
        for n in range(1000)
    ]
    append_samples(store, rows, run_id=run.run_id, lease=lease)
    end_run(store, RunEnd(study.now, "completed"), run_id=run.run_id, lease=lease)
    values = snapshot(store).values
    assert len(values["arm_resolved_info"]) == 8
    assert sum(values["run_failed_samples"].values()) == 1000
    assert max(len(series) for series in values.values()) < 100


def regrade(store: Store, study: Any, *, differing: int = 0) -> None:
    """Store a pass over the replies that judged so many of them otherwise."""
    with store.read() as connection:
        (row, *_) = samples(connection, Span("s", "old", DAY_1, DAY_1))
    otherwise = [Difference(row.sample_id, row.key, old=row.result, new=Failure("grader_error", ""))] * differing
    append_regrade(store, Regrade("s", study.now, None, ("exact@1",), 4, 0, 0, tuple(otherwise)))


def test_a_regrading_that_differs_shows_until_the_next_pass(store: Store, study: Any) -> None:
    lease = begin(store, study)
    measure(store, study, lease, arm="old", results=dict.fromkeys("abcd", 1.0), outcome="completed")
    assert "regrade_mismatches" not in snapshot(store).values, "nobody looked yet"
    regrade(store, study, differing=1)
    assert snapshot(store).values["regrade_mismatches"] == {("s",): 1}
    regrade(store, study)
    assert snapshot(store).values["regrade_mismatches"] == {("s",): 0}


def test_money_spent_in_a_day_and_a_month_and_since_the_start(store: Store, study: Any) -> None:
    lease = begin(store, study)
    run_id = measure(store, study, lease, arm="old", results=dict.fromkeys("abcd", 1.0), outcome="completed")
    keep_usage(store, Spending(9, 100_000, 20_000), run_id=run_id, lease=lease)
    values = snapshot(store, study.now).values
    assert values["cost_usd_total"] == {("s", "old"): pytest.approx(0.3), ("s", "ctl"): 0}
    assert values["budget_spent_usd"] == {("s", period): pytest.approx(0.3) for period in ("day", "month")}
    assert values["budget_limit_usd"] == {("s", "day"): 2, ("s", "month"): 40}
    tomorrow, next_month = snapshot(store).values, snapshot(store, NOON_2 + timedelta(days=31)).values
    assert tomorrow["budget_spent_usd"] == {("s", "day"): 0, ("s", "month"): pytest.approx(0.3)}
    assert next_month["budget_spent_usd"] == {("s", "day"): 0, ("s", "month"): 0}
    assert next_month["cost_usd_total"]["s", "old"] == pytest.approx(0.3)


def test_of_money_without_a_price_nothing_is_said(store: Store, study: Any) -> None:
    lease = begin(store, study)
    measure(store, study, lease, arm="old", results=dict.fromkeys("abcd", 1.0), outcome="completed")
    unpriced = snapshot(store, study.now, Purse({"s": Budget(calls_per_day=5)})).values
    assert not {"cost_usd_total", "budget_spent_usd", "budget_limit_usd"} & set(unpriced)
    later = Purse({}, (Price("simulated", "m-1", date(2030, 1, 2), 1.0, 1.0),))
    values = snapshot(store, NOON_2, later).values
    assert values["cost_usd_total"] == {("s", "ctl"): 0}, "the first day of old has no price in force"
    assert values["budget_spent_usd"] == {("s", "day"): 0}


def everything(store: Store, study: Any) -> CollectorRegistry:
    """Return a registry over a store that holds something of every kind."""
    lease = begin(store, study)
    runs = [
        measure(store, study, lease, arm=arm, results=dict.fromkeys("abcd", 0.5), outcome="completed") for arm in ARMS
    ]
    with store.write() as connection:
        judged = Item("a", "f", "a", "What is a?", "a", GraderSpec(JUDGE_GRADER))
        add_judged_items(connection, "s", items=[judged], measured=False)
    reading = Reading(DAY_1, 1, "openai:judge:1", {"x": "right"}, {"x": "right"}, ("judge-1",))
    keep_reading(store, reading, run_id=runs[0], lease=lease)
    add_events(
        store,
        [Event("s", "old", DAY_1, kind, {}, study.now) for kind in ("model_roll", "input_tokens")],
        lease=lease,
    )
    append_alarm(store, Alarm("s", "regression", study.now, append_verdict(store, verdict(), lease=lease)), lease=lease)
    append_early_warning(store, [EarlyWarningDay("s", "score", 1, DAY_1, 3, 1.5, 40.0, False, None)], lease=lease)
    regrade(store, study)
    silence(store, "s", until=study.now + timedelta(days=1), reason="known", now=study.now)
    registry = CollectorRegistry()
    taken = snapshot(store)
    registry.register(SnapshotCollector(lambda: taken))
    process = ProcessMetrics(registry, settled=registry, arms=[("s", arm) for arm in ARMS])
    process.loaded_config.labels("sha256:c").set(1)
    process.show_copy(0.0)
    return registry


def verdict() -> Verdict:
    estimate = {"status": "ok", "delta": -0.1, "ci": [-0.2, 0.0], "se": 0.03, "items_paired": 3, "ci_item": [-0.2, 0.0]}
    window = {"estimate": estimate, "usable_days": 9, "errors": 0, "attempts": 30}
    beside = {
        "tokens": {"state": "ok", "change": 0.01, "ci": [-0.1, 0.1]},
        "outcomes": {"state": "ok", "answered_window": 30, "tests": [{"kind": "any", "failed_window": 1}]},
        "headroom": {"mean": 0.6},
    }
    clauses: dict[str, Any] = {
        "first": "2030-01-21",
        "last": "2030-01-30",
        "panel_items": 3,
        "mde": {"two_windows": 0.03},
        "window": window,
        "controls": {"ctl": {"window": window}},
        "attribution": {"controls": {"ctl": {"difference": estimate}}},
        "differences": {"ctl": estimate},
        "arms": dict.fromkeys(ARMS, beside),
    }
    return Verdict(
        series="s",
        epoch=1,
        window_index=2,
        kind="change",
        direction="down",
        attribution="model",
        reasons=(),
        decided_at=datetime(2030, 1, 31, tzinfo=UTC),
        panel_digest="p",
        registration_digest="r",
        clauses=clauses,
    )


def test_names_types_and_labels_are_those_of_the_catalogue(store: Store, study: Any) -> None:
    text = generate_latest(everything(store, study)).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    expected = {metric.name.removesuffix("_total"): metric for metric in METRICS}
    assert {name.removeprefix(PREFIX) for name in families} == set(expected)
    for name, metric in expected.items():
        family = families[PREFIX + name]
        assert family.type == metric.kind, name
        labels = {tuple(sorted(set(sample.labels) - {"le"})) for sample in family.samples}
        assert labels == {tuple(sorted(metric.labels))}, name
    assert "nan" not in text.lower()
    for state, values in STATES.items():
        if PREFIX + state in families:
            samples = families[PREFIX + state].samples
            assert {sample.labels["state"] for sample in samples} == set(values)
            assert {sample.value for sample in samples} == {0.0, 1.0}


def test_promtool_finds_nothing_to_lint(store: Store, study: Any, installed: Callable[..., str]) -> None:
    text = generate_latest(everything(store, study))
    done = subprocess.run([installed("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    found = (done.stdout + done.stderr).decode().splitlines()
    # A number of days is a count here and no duration, so it has no base unit to be given in.
    assert [line for line in found if "canaryd_window_usable_days" not in line] == []


def test_no_single_metric_grows_past_a_hundred_series(store: Store, study: Any, tmp_path: Path) -> None:
    text = generate_latest(everything(store, study)).decode()
    for family in text_string_to_metric_families(text):
        assert len(family.samples) <= 100, family.name


def test_metrics_are_only_read_from_the_store_when_a_snapshot_is_taken(store: Store, study: Any) -> None:
    registry = everything(store, study)
    store.close()
    first = generate_latest(registry)
    assert first == generate_latest(registry)
    assert b'canaryd_alarm_state{series="s",state="regression"} 1.0' in first


@pytest.mark.parametrize("name", ["runs_total", "samples_total", "slots_missed_total"])
def test_counters_of_the_store_do_not_reset(store: Store, study: Any, name: str) -> None:
    lease = begin(store, study)
    before = sum(snapshot(store).values[name].values())
    measure(store, study, lease, arm="old", results=dict.fromkeys("abcd", 0.5), outcome="completed")
    starts = [study.start(2, arm=arm) for arm in ARMS]
    record_missed(store, starts, end=RunEnd(NOON_2, "missed", "no process"), lease=lease, epoch=1)
    after = sum(snapshot(store).values[name].values())
    assert after > before
    assert sum(snapshot(store).values[name].values()) == after
