"""A hand-written store of four items and three windows: its verdicts hold the numbers that statsmodels computes."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm

from canaryd.analysis import analyse
from canaryd.hashing import digest
from canaryd.records import Arm, Grade, GraderSpec, Item, Reply, RunEnd, RunStart, Sample, SampleKey
from canaryd.store import read, write
from canaryd.store.engine import Store
from canaryd.store.lease import LeasePolicy, acquire_lease
from canaryd.store.process import Holder
from canaryd.store.rows import PanelFiles, Plan

ROOT = Path(__file__).parents[2]
START = date(2027, 1, 1)
BASELINE_DAYS, WINDOW_DAYS = 4, 2
CLUSTERS = {"a": "one", "b": "one", "c": "two", "d": "three"}
#: One line an arm and item, one digit a day: baseline of four days, then three windows of two.
SCORES = {
    "tracked": {"a": "1101 10 00 01", "b": "1111 11 10 00", "c": "0110 01 00 00", "d": "1000 10 01 10"},
    "control": {"a": "1011 11 10 11", "b": "0111 01 11 10", "c": "1010 10 01 10", "d": "0110 01 10 01"},
}
TOKENS = {"a": 100, "b": 200, "c": 50, "d": 400}


def digits(arm: str) -> dict[str, str]:
    return {item: line.replace(" ", "") for item, line in SCORES[arm].items()}


def registration() -> bytes:
    text = (ROOT / "prereg.example.toml").read_text()
    for key, old, new in [("baseline_days", 20, 4), ("window_days", 10, 2), ("horizon_days", 365, 10)]:
        assert f"{key} = {old}" in text
        text = text.replace(f"{key} = {old}", f"{key} = {new}")
    return text.encode()


def fill(store: Store) -> None:
    items = [Item(i, "sums", CLUSTERS[i], f"prompt {i}", "1", GraderSpec("exact")) for i in CLUSTERS]
    content = registration()
    plan = Plan(
        series="hand",
        registered_at=datetime(2026, 12, 31, tzinfo=UTC),
        start_date=START,
        seed=1,
        registration=content,
        registration_digest=digest(content),
        panel=PanelFiles("sha256:panel", "hand", "1", b"{}", b""),
        items=items,
        arms=[Arm("tracked", "tracked", "openai", "m"), Arm("control", "control", "openai", "c")],
    )
    write.register_series(store, plan)
    lease = acquire_lease(
        store,
        "hand",
        holder=Holder("host", "machine", 1, 1),
        now=datetime(2027, 1, 1, tzinfo=UTC),
        policy=LeasePolicy(timedelta(days=100), lambda holder: True),
    )
    for day in range(BASELINE_DAYS + 3 * WINDOW_DAYS):
        slot = START + timedelta(days=day)
        now = datetime.combine(slot, datetime.min.time(), UTC) + timedelta(hours=3)
        starts = [RunStart("hand", arm, slot, 1, now, now, "sha256:panel", digest(content), "f") for arm in SCORES]
        runs = write.claim_slot(store, starts, lease=lease, epoch=1)
        assert isinstance(runs, tuple)
        for run in runs:
            arm = run.start.arm
            samples = [
                Sample(
                    SampleKey("hand", arm, slot, item, 0),
                    Grade(float(scores[day]), True, scores[day] == "1", "", "exact@1"),
                    Reply("text", "stop", output_tokens=TOKENS[item] + day, standing="echo", resolved_model="m"),
                    asked_at=now,
                    ended_at=now,
                )
                for item, scores in digits(arm).items()
            ]
            write.append_samples(store, samples, run_id=run.run_id, lease=lease)
            write.end_run(store, RunEnd(now, "completed"), run_id=run.run_id, lease=lease)
    analyse(store, "hand", lease=lease, now=datetime(2027, 1, 12, tzinfo=UTC))


def by_statsmodels(arm: str, window: int) -> tuple[float, float, float]:
    """Return mean delta, CR1 standard error of the mean, and the mean log token ratio."""
    first = BASELINE_DAYS + WINDOW_DAYS * (window - 1)

    def mean(item: str, days: slice) -> float:
        return float(np.mean([int(digit) for digit in digits(arm)[item][days]]))

    deltas = [mean(i, slice(first, first + WINDOW_DAYS)) - mean(i, slice(0, BASELINE_DAYS)) for i in CLUSTERS]
    codes = {name: code for code, name in enumerate(dict.fromkeys(CLUSTERS.values()))}
    groups = np.array([codes[CLUSTERS[item]] for item in CLUSTERS])
    robust = {"groups": groups, "df_correction": True}
    fit = sm.OLS(np.array(deltas), np.ones(len(deltas))).fit(cov_type="cluster", cov_kwds=robust)
    # statsmodels multiplies by G/(G-1) * (n-1)/(n-k), and k is 1 here.
    tokens = [
        np.log(np.mean([TOKENS[i] + day for day in range(first, first + WINDOW_DAYS)]))
        - np.log(np.mean([TOKENS[i] + day for day in range(BASELINE_DAYS)]))
        for i in CLUSTERS
    ]
    return float(fit.params[0]), float(fit.bse[0]), float(np.mean(tokens))


@pytest.mark.filterwarnings("ignore:.*covariance of constraints:Warning")
@pytest.mark.parametrize("window", [1, 2, 3])
def test_the_verdict_rows_hold_the_numbers_of_statsmodels(store: Store, window: int) -> None:
    fill(store)
    with store.read() as connection:
        stored = read.verdicts(connection, "hand")
    assert [one.verdict.window_index for one in stored] == [1, 2, 3]
    clauses: dict[str, object] = dict(stored[window - 1].verdict.clauses)
    for arm in SCORES:
        found = clauses["window"] if arm == "tracked" else clauses["controls"][arm]["window"]
        delta, se, log_ratio = by_statsmodels(arm, window)
        assert found["estimate"]["delta"] == pytest.approx(delta, abs=1e-11)
        assert found["estimate"]["se_cr1"] == pytest.approx(se, abs=1e-11)
        tokens = clauses["arms"][arm]["tokens"]["log_ratio"]["delta"]
        assert tokens == pytest.approx(log_ratio, abs=1e-11)


@pytest.mark.parametrize("window", [1, 2, 3])
def test_the_difference_to_the_control_stands_beside_every_verdict(store: Store, window: int) -> None:
    fill(store)
    with store.read() as connection:
        verdict = read.verdicts(connection, "hand")[window - 1].verdict
    differences: dict[str, object] = verdict.clauses["differences"]
    assert verdict.attribution is None
    apart = by_statsmodels("tracked", window)[0] - by_statsmodels("control", window)[0]
    assert differences["control"]["delta"] == pytest.approx(apart, abs=1e-11)


def test_three_clusters_decide_nothing_and_say_so(store: Store) -> None:
    fill(store)
    with store.read() as connection:
        kinds = {(one.verdict.kind, one.verdict.reasons) for one in read.verdicts(connection, "hand")}
    assert kinds == {("not_evaluable", ("too_few_clusters",))}
