"""How long each rule waits, what it holds while the daemon is dead, and that promtool sees it do so."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "canaryd.rules.yml"
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
#: Every other alert waits five minutes: one bad scrape must not fire.
WAITS = {
    "CanarydUnreachable": "24h",
    "CanarydDown": "15m",
    "CanarydStoreWriteFailing": "15m",
    "CanarydBackupStale": "1h",
    "CanarydAcknowledged": None,
    "CanarydWatchdog": None,
}
LIMITS = {
    "CanarydBlind": "> 60 * 3600",
    "CanarydArmFailing": "> 36 * 3600",
    "CanarydStale": "> 36 * 3600",
    "CanarydScheduleOverdue": "> 2 * 3600",
    "CanarydSnapshotStale": "> 900",
    "CanarydBackupStale": "> 3 * 86400",
    "CanarydResolvedModelChanged": "< 2 * 86400",
    "CanarydInputTokensChanged": "< 2 * 86400",
    "CanarydArmEvent": "< 2 * 86400",
    "CanarydSentinelUnjudged": ">= 2",
    "CanarydErrorRateHigh": "> 0.05",
    "CanarydBudgetNearLimit": "> 0.9",
}
#: What each alert that outlives the daemon looks at: a metric with its labels, and its value before and after.
Change = tuple[str, float | None, float]
ARM = 'arm="t"'
HELD: dict[str, tuple[Change, ...]] = {
    "CanarydRegressionDeclared": (('alarm_state{state="regression"', 0, 1),),
    "CanarydNotEvaluable": (('alarm_state{state="not_evaluable"', 0, 1),),
    "CanarydImprovementDeclared": (('alarm_state{state="unattributed_improvement"', 0, 1),),
    "CanarydPlatformChange": (('alarm_state{state="platform_change"', 0, 1),),
    "CanarydEarlyWarning": (('early_warning_state{stream="tokens", state="alarm"', 0, 1),),
    "CanarydSentinelCollapsed": (('sentinel_state{state="collapsed"', 0, 1),),
    "CanarydSentinelMoved": (('sentinel_state{state="moved"', 0, 1),),
    "CanarydSentinelUnjudged": (("sentinel_unjudged_slots{", 1, 2),),
    "CanarydJudgeMoved": (('judge_state{state="moved"', 0, 1), ("judged_primary{", 1, 1)),
    "CanarydJudgeMovedBeside": (('judge_state{state="moved"', 0, 1), ("judged_primary{", 0, 0)),
    "CanarydTokenShift": (('token_state{state="increase"', 0, 1),),
    "CanarydOutcomeRateShift": (('outcome_rate_state{state="moved"', 0, 1),),
    "CanarydZeroPass": ((f"run_zero_pass{{{ARM}", 0, 1), (f'arm_info{{{ARM}, role="tracked"', 1, 1)),
    "CanarydResolvedModelChanged": ((f"resolved_model_changed_timestamp_seconds{{{ARM}", None, 3600),),
    "CanarydInputTokensChanged": ((f"input_tokens_changed_timestamp_seconds{{{ARM}", None, 3600),),
    "CanarydArmEvent": ((f'event_last_timestamp_seconds{{{ARM}, kind="configuration"', None, 3600),),
    "CanarydHeadroomLost": ((f"baseline_score_ratio{{{ARM}", 0.89, 0.9),),
    "CanarydUnderpowered": (
        (f'window_mde_ratio{{{ARM}, window="latest"', 0.05, 0.06),
        ("rule_target_mde_ratio{", 0.05, 0.05),
    ),
    "CanarydErrorRateHigh": (
        (f'run_failed_samples{{{ARM}, reason="timeout"', 5, 6),
        (f"run_samples{{{ARM}", 100, 100),
    ),
    "CanarydRegradeMismatch": (("regrade_mismatches{", 0, 1),),
    "CanarydHarnessDriftRefused": ((f'run_blocked{{{ARM}, reason="harness_drift"', 0, 1),),
    "CanarydRegistrationMismatch": ((f'run_blocked{{{ARM}, reason="registration_mismatch"', 0, 1),),
    "CanarydBudgetExhausted": ((f'run_blocked{{{ARM}, reason="budget"', 0, 1),),
    "CanarydRunBlocked": ((f'run_blocked{{{ARM}, reason="store_unavailable"', 0, 1),),
}
#: Held as well, with a test of its own beside the rules: its end is a time.
ACKNOWLEDGED = "CanarydAcknowledged"


@pytest.mark.parametrize("name", sorted(ALERTS))
def test_a_rule_waits_as_long_as_it_should(name: str) -> None:
    assert ALERTS[name].get("for") == WAITS.get(name, "5m")
    compared = re.findall(r"[<>]=? [\d.]+(?: \* \d+)?", ALERTS[name]["expr"])
    assert name not in LIMITS or compared[-1] == LIMITS[name]


def test_every_alert_that_outlives_the_daemon_is_in_the_table() -> None:
    assert {*HELD, ACKNOWLEDGED} == {name for name, rule in ALERTS.items() if "last_over_time" in rule["expr"]}


@pytest.mark.parametrize("name", [*HELD, ACKNOWLEDGED])
def test_whatever_an_alert_of_a_state_looks_at_is_held_for_two_days(name: str) -> None:
    expression = ALERTS[name]["expr"]
    metrics = re.findall(r"\bcanaryd_\w+\{", expression)
    held = re.findall(r"last_over_time\((canaryd_\w+\{)[^}]*\}\[2d\]\)", expression)
    assert metrics == held != []


def test_no_state_ends_with_the_daemon(installed: Callable[..., str], tmp_path: Path) -> None:
    series = [
        {
            "series": f'canaryd_{metric}, job="canaryd", instance="i", series="{name}"}}'.replace("{, ", "{"),
            # An hour of the one value, an hour of the other, and then the daemon is dead.
            "values": f"{'_x12' if before is None else f'{before}x11'} {after}x11 stale _x700",
        }
        for name, changes in HELD.items()
        for metric, before, after in changes
    ]
    every_one = [{"labels": f'{{alertname="{name}", series="{name}"}}', "value": 1} for name in HELD]
    asked = 'count by (alertname, series) (ALERTS{alertstate="firing", series=~".+"})'
    expected: dict[str, list[Any]] = {"1h": [], "1h55m": every_one, "40h": every_one, "51h": []}
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "5m",
        "tests": [
            {
                "interval": "5m",
                "input_series": series,
                "promql_expr_test": [
                    {"expr": asked, "eval_time": when, "exp_samples": samples} for when, samples in expected.items()
                ],
            }
        ],
    }
    (tmp_path / "dies.yml").write_text(yaml.safe_dump(document))
    command = [installed("promtool"), "test", "rules", tmp_path / "dies.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
