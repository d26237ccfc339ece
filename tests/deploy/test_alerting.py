"""The shipped rules, inhibitions and runbooks: checked by the real tools, and held against the catalogue of metrics."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import yaml

from canaryd.metrics.catalogue import METRICS, PREFIX, STATES
from canaryd.records import OUTCOME_FAILURES

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "canaryd.rules.yml"
ALERTMANAGER = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
RUNBOOKS = ROOT / "docs" / "runbooks"
GROUPS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = [rule for group in GROUPS for rule in group["rules"] if "alert" in rule]
NAMES = sorted(rule["alert"] for rule in ALERTS)
#: They call nobody: one lives when the chain does, the other holds pages back.
SIGNALS = {"CanarydWatchdog", "CanarydAcknowledged"}

Tool = Callable[..., str]


def run(*command: str | Path, cwd: Path | None = None) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
    return done.returncode, done.stdout + done.stderr


def test_promtool_accepts_the_rules(installed: Tool) -> None:
    code, said = run(installed("promtool"), "check", "rules", "--lint-fatal", RULES)
    assert code == 0, said


def test_promtool_accepts_the_example_configuration(installed: Tool) -> None:
    code, said = run(installed("promtool"), "check", "config", ROOT / "deploy" / "prometheus" / "prometheus.yml")
    assert code == 0, said


def rule_tests(folder: Path, rules: str, *, only: str = "") -> Path:
    """Write the rules with their tests, or those whose names begin so, and return the file of the tests."""
    tests = yaml.safe_load((Path(__file__).parent / "canaryd.rules.test.yml").read_text())
    tests["tests"] = [each for each in tests["tests"] if each["name"].startswith(only)]
    assert tests["tests"]
    (folder / "canaryd.rules.test.yml").write_text(yaml.safe_dump(tests))
    (folder / "canaryd.rules.yml").write_text(rules)
    return folder / "canaryd.rules.test.yml"


def test_every_alert_fires_when_it_should_and_not_before(installed: Tool, tmp_path: Path) -> None:
    code, said = run(installed("promtool"), "test", "rules", rule_tests(tmp_path, RULES.read_text()))
    assert code == 0, said


@pytest.mark.parametrize(
    ("noticed_by", "old", "new"),
    [
        (
            "a declared regression pages once",
            'last_over_time(canaryd_alarm_state{job="canaryd", state=~"regression|unattributed_regression"}[2d]) == 1',
            'canaryd_alarm_state{job="canaryd", state=~"regression|unattributed_regression"} == 1',
        ),
        ("a target that vanished", 'or absent(up{job="canaryd"})\n        for: 24h', "\n        for: 24h"),
        (
            "an acknowledgement holds",
            'last_over_time(canaryd_alarm_acknowledged_until_timestamp_seconds{job="canaryd"}[2d]) > time()',
            'canaryd_alarm_acknowledged_until_timestamp_seconds{job="canaryd"} > time()',
        ),
    ],
    ids=["a dead daemon resolves the page", "a vanished target is no alert", "a dead daemon ends the silence"],
)
def test_the_tests_of_the_rules_notice_a_wrong_rule(
    installed: Tool, tmp_path: Path, noticed_by: str, old: str, new: str
) -> None:
    rules = RULES.read_text()
    assert old in rules
    changed = rule_tests(tmp_path, rules.replace(old, new), only=noticed_by)
    code, _ = run(installed("promtool"), "test", "rules", changed)
    assert code != 0


def test_amtool_accepts_the_example_configuration(installed: Tool) -> None:
    code, said = run(installed("amtool"), "check-config", ALERTMANAGER)
    assert code == 0, said


@pytest.mark.parametrize("rule", ALERTS, ids=[rule["alert"] for rule in ALERTS])
def test_an_alert_follows_the_conventions(rule: dict[str, Any]) -> None:
    name, notes = rule["alert"], rule["annotations"]
    assert re.fullmatch(r"Canaryd([A-Z][a-z]+)+", name)
    assert rule["labels"]["severity"] in {"critical", "warning", "info"} or name in SIGNALS
    assert notes["summary"].endswith(".")
    assert "{{" not in notes["summary"], "grouped alerts share their summary"
    assert notes["description"]
    assert notes["runbook_url"].endswith("/" + name)
    assert "for" in rule or name in SIGNALS


def test_the_list_of_alerts() -> None:
    assert {rule["alert"] for rule in ALERTS if rule["labels"]["severity"] == "critical"} == {
        "CanarydRegressionDeclared",
        "CanarydSentinelCollapsed",
        "CanarydJudgeMoved",
        "CanarydZeroPass",
        "CanarydBlind",
        "CanarydUnreachable",
        "CanarydNotEvaluable",
    }
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_every_alert_has_a_runbook(name: str) -> None:
    text = (RUNBOOKS / f"{name}.md").read_text()
    headings = re.findall(r"^#+ .*$", text, flags=re.MULTILINE)
    assert headings == [f"# {name}", "## Meaning", "## Impact", "## Diagnosis", "## Mitigation"]
    assert all(len(part.strip()) > 20 for part in re.split(r"^#+ .*$", text, flags=re.MULTILINE)[2:])


def test_there_is_no_runbook_without_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("Canaryd*.md")} == set(NAMES)


def exposed() -> set[str]:
    return {PREFIX + metric.name for metric in METRICS}


def test_rules_and_runbooks_name_only_metrics_that_are_exported() -> None:
    recorded = {rule["record"] for group in GROUPS for rule in group["rules"] if "record" in rule}
    in_rules = set(
        re.findall(r"\bcanaryd_[a-z_:]+", "\n".join(str(rule.get("expr")) for g in GROUPS for rule in g["rules"]))
    )
    assert in_rules - recorded <= exposed()
    in_pages = {name for path in RUNBOOKS.glob("*.md") for name in re.findall(r"\bcanaryd_[a-z_]+", path.read_text())}
    assert in_pages <= exposed()


def test_states_and_reasons_in_the_rules_exist() -> None:
    for metric, selector in re.findall(r"canaryd_(\w+_state)\{([^}]*)\}", RULES.read_text()):
        (states,) = re.findall(r'state=~?"([^"]*)"', selector)
        assert set(states.split("|")) <= set(STATES[metric])
    (outcomes,) = re.findall(r'reason!~"(content_filtered[^"]*)"', RULES.read_text())
    assert set(outcomes.split("|")) == OUTCOME_FAILURES


def test_inhibitions_name_alerts_that_exist_and_labels_that_they_have() -> None:
    config = yaml.safe_load(ALERTMANAGER.read_text())
    for rule in config["inhibit_rules"]:
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            (names,) = re.findall(r'alertname=~?"([^"]*)"', matcher)
            assert set(names.split("|")) <= set(NAMES)
    assert config["route"]["group_by"] == ["alertname", "series"]
    repeats = {route["receiver"]: route.get("repeat_interval") for route in config["route"]["routes"]}
    assert (repeats["pages"], config["route"]["repeat_interval"]) == ("12h", "3d")


@contextmanager
def alertmanager(program: str, folder: Path) -> Iterator[str]:
    """Run an Alertmanager with the shipped file until the block ends, and yield its address."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [program, f"--config.file={ALERTMANAGER}", f"--web.listen-address={address}", "--cluster.listen-address="]
    process = subprocess.Popen(
        [*command, f"--storage.path={folder}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"http://{address}/api/v2/alerts"
    finally:
        process.terminate()
        process.wait(30)


def asked(url: str, condition: Callable[[Any], bool]) -> Any:
    """Return the alerts that an Alertmanager shows once a condition holds for them."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            answer = httpx.get(url, timeout=5, trust_env=False)
            if answer.status_code == 200 and condition(answer.json()):
                return answer.json()
        time.sleep(0.1)
    raise AssertionError(f"{url}: not within a minute")


def alert(name: str, series: str, *, job: str = "canaryd", **labels: str) -> dict[str, str]:
    return {"alertname": name, "job": job, "series": series, **labels}


WAITING = ("CanarydStale", "CanarydArmFailing", "CanarydScheduleOverdue")
BLOCKED = ("CanarydHarnessDriftRefused", "CanarydRegistrationMismatch", "CanarydBudgetExhausted", "CanarydRunBlocked")
ON = [
    {"alertname": "CanarydDown", "job": "dead", "severity": "warning"},
    *(alert(name, f"refused by {name}", severity="warning") for name in BLOCKED),
    alert("CanarydBlind", "blind", severity="critical"),
    alert("CanarydAcknowledged", "known", state="regression", severity="none"),
]
HELD_BACK = [
    alert("CanarydStale", "any", job="dead"),
    alert("CanarydScheduleOverdue", "any", job="dead"),
    {"alertname": "CanarydSnapshotStale", "job": "dead"},
    *(alert(name, f"refused by {reason}") for reason in BLOCKED for name in WAITING),
    alert("CanarydStale", "blind"),
    alert("CanarydRegressionDeclared", "known", state="regression"),
]
TOLD = [
    {"alertname": "CanarydSnapshotStale", "job": "canaryd"},
    alert("CanarydArmFailing", "any", job="dead"),
    *(alert(name, "another") for name in WAITING),
    alert("CanarydArmFailing", "blind"),
    alert("CanarydScheduleOverdue", "blind"),
    alert("CanarydRegressionDeclared", "refused by CanarydRunBlocked", state="regression"),
    alert("CanarydRegressionDeclared", "another", state="regression", severity="critical"),
    alert("CanarydNotEvaluable", "known", state="not_evaluable"),
    alert("CanarydSentinelCollapsed", "known", state="collapsed"),
]


def test_what_an_alert_explains_is_held_back_and_nothing_else(installed: Tool, tmp_path: Path) -> None:
    posted = [{"labels": labels} for labels in (*ON, *HELD_BACK, *TOLD)]
    with alertmanager(installed("prometheus-alertmanager", "alertmanager"), tmp_path) as url:
        asked(url, lambda shown: shown == [])
        httpx.post(url, json=posted, timeout=5, trust_env=False).raise_for_status()

        def held_back(shown: Any) -> list[dict[str, str]]:
            return [each["labels"] for each in shown if each["status"]["inhibitedBy"]]

        shown = asked(url, lambda shown: len(shown) == len(posted) and len(held_back(shown)) >= len(HELD_BACK))

    def in_order(alerts: list[dict[str, str]]) -> list[dict[str, str]]:
        return sorted(alerts, key=lambda labels: sorted(labels.items()))

    assert in_order(held_back(shown)) == in_order(HELD_BACK)
    receivers = {(each["labels"]["alertname"], each["receivers"][0]["name"]) for each in shown}
    assert {("CanarydAcknowledged", "nobody"), ("CanarydBlind", "pages"), ("CanarydDown", "tickets")} <= receivers
