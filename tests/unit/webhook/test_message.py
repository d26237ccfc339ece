"""What the receiver is told: the figures of the verdict, the state before, the runbook."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest

from canaryd.records import AlarmState, JsonValue, Verdict
from canaryd.service_config import Webhook
from canaryd.webhook.message import Message
from canaryd.webhook.notices import Kind, Notice

ROOT = Path(__file__).parents[3]
SINCE = datetime(2027, 3, 27, 3, 31, tzinfo=UTC)
SLACK = Webhook("hook", "slack", "https://wiki/runbooks")
GENERIC = Webhook("hook", "generic", "https://wiki/runbooks")


def verdict(**clauses: Any) -> Verdict:
    estimate = {"status": "ok", "delta": -0.041, "ci": [-0.06, -0.022], "items_paired": 298}
    held = {
        "first": "2027-03-20",
        "last": "2027-03-26",
        "panel_items": 300,
        "mde": {"two_windows": 0.024},
        "window": {"estimate": estimate},
    }
    return Verdict(
        series="sonnet",
        epoch=1,
        window_index=9,
        kind="change",
        direction="down",
        attribution="model",
        reasons=(),
        decided_at=SINCE,
        panel_digest="p",
        registration_digest="r",
        clauses=held | clauses,
    )


def message(state: AlarmState, held: Verdict | None) -> Message:
    return Message(Notice("alarm/7", "sonnet", "alarm", state, "ok", SINCE), held, min_effect=0.03)


def other(kind: Kind, state: str, before: str | None, **figures: JsonValue) -> Message:
    return Message(Notice("x", "sonnet", kind, state, before, SINCE, figures={"slot_date": "2027-03-27"} | figures))


def test_slack_gets_the_figures_as_text() -> None:
    assert message("regression", verdict()).body(SLACK) == {
        "text": "canaryd sonnet: regression since 2027-03-27 03:31Z (before: ok)\n"
        "window 9 (2027-03-20 to 2027-03-26): delta -4.1 points [-6.0, -2.2], minimum effect 3.0 points, "
        "MDE 2.4 points, items 298/300\n"
        "runbook: https://wiki/runbooks/CanarydRegressionDeclared"
    }


def test_generic_names_every_figure_and_null_is_unknown() -> None:
    empty = {"status": "too_few", "delta": None, "items_paired": 0}
    body = message("not_evaluable", verdict(mde=None, window={"estimate": empty})).body(GENERIC)
    assert body["window"] == {
        "epoch": 1,
        "index": 9,
        "first": "2027-03-20",
        "last": "2027-03-26",
        "reasons": [],
        "delta": None,
        "ci_lower": None,
        "ci_upper": None,
        "min_effect": 0.03,
        "mde": None,
        "pairs": 0,
        "panel_items": 300,
    }
    assert {key: body[key] for key in ("schema_version", "id", "series", "state", "before", "synthetic")} == {
        "schema_version": 1,
        "id": "sonnet/alarm/7",
        "series": "sonnet",
        "state": "not_evaluable",
        "before": "ok",
        "synthetic": False,
    }
    assert "delta unknown, minimum effect 3.0 points, MDE unknown" in str(body["text"])
    assert message("warming_up", None).body(GENERIC)["window"] is None


@pytest.mark.parametrize(
    ("one", "text", "page"),
    [
        (
            other("sentinels", "collapsed", "ok", moved=["alias", "date"]),
            "sentinels collapsed in the slot of 2027-03-27 (before: ok): alias, date",
            "CanarydSentinelCollapsed",
        ),
        (
            other("sentinels", "ok", "moved", moved=[]),
            "sentinels ok in the slot of 2027-03-27 (before: moved)",
            "verdicts",
        ),
        (
            other("early_warning", "alarm", None, stream="score", capital=45.21, threshold=40.0),
            "early warning of stream score in the slot of 2027-03-27: capital 45.2 of 40",
            "CanarydEarlyWarning",
        ),
        (
            other("zero_pass", "zero_pass", None),
            "not one answer of the tracked arm passed in the slot of 2027-03-27",
            "CanarydZeroPass",
        ),
    ],
)
def test_what_is_no_alarm_state_has_figures_of_its_own(one: Message, text: str, page: str) -> None:
    body = one.body(GENERIC)
    assert body["text"] == f"canaryd sonnet: {text}\nrunbook: https://wiki/runbooks/{page}"
    assert (body["kind"], body["figures"]) == (one.notice.kind, dict(one.notice.figures))
    assert (ROOT / "docs" / "runbooks" / f"{page}.md").is_file()


@pytest.mark.parametrize("state", get_args(AlarmState))
def test_every_state_has_a_page(state: AlarmState) -> None:
    page = message(state, None).runbook_url(SLACK).removeprefix("https://wiki/runbooks/")
    assert (ROOT / "docs" / "runbooks" / f"{page}.md").is_file()


def test_no_cause_and_no_advice() -> None:
    for state in get_args(AlarmState):
        text = str(message(state, verdict()).body(SLACK)["text"])
        assert not re.search(r"because|caused|due to|should|recommend|likely", text)
