"""What the receiver is told of a transition: numbers and the way to the runbook, and neither a cause nor advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from canaryd.records import Alarm, AlarmState, JsonValue, Verdict
from canaryd.service_config import Webhook
from canaryd.wording import interval, points

SCHEMA_VERSION = 1
_RUNBOOKS: Mapping[AlarmState, str] = {
    "regression": "CanarydRegressionDeclared",
    "unattributed_regression": "CanarydRegressionDeclared",
    "improvement": "CanarydImprovementDeclared",
    "unattributed_improvement": "CanarydImprovementDeclared",
    "platform_change": "CanarydPlatformChange",
    "not_evaluable": "CanarydNotEvaluable",
}
#: Where there is no alert, what each verdict means stands on one page.
_ANY_VERDICT = "verdicts"


@dataclass(frozen=True, slots=True)
class Message:
    """One message; `id` is the same however often it is sent, so that a receiver can tell a repetition."""

    id: str
    alarm: Alarm
    before: AlarmState
    verdict: Verdict | None
    min_effect: float
    synthetic: bool = False

    def body(self, webhook: Webhook) -> dict[str, JsonValue]:
        """Return the JSON to post: Slack's `text` alone, or everything that is known by name."""
        text = f"{self._text()}\nrunbook: {self.runbook_url(webhook)}"
        if webhook.format == "slack":
            return {"text": text}
        return {
            "schema_version": SCHEMA_VERSION,
            "id": self.id,
            "synthetic": self.synthetic,
            "series": self.alarm.series,
            "state": self.alarm.state,
            "before": self.before,
            "since": self.alarm.since.isoformat(),
            "window": None if self.verdict is None else _window(self.verdict, self.min_effect),
            "runbook_url": self.runbook_url(webhook),
            "text": text,
        }

    def runbook_url(self, webhook: Webhook) -> str:
        """Return the address of the page on this state."""
        return f"{webhook.runbooks}/{_RUNBOOKS.get(self.alarm.state, _ANY_VERDICT)}"

    def _text(self) -> str:
        said = f"canaryd {self.alarm.series}: {self.alarm.state} since {self.alarm.since:%Y-%m-%d %H:%MZ}"
        lines = [f"{said} (before: {self.before})"]
        if self.synthetic:
            lines[0] = f"[TEST, nothing is stored and no state changed] {lines[0]}"
        if self.verdict is not None:
            lines.append(_figures(_window(self.verdict, self.min_effect)))
        return "\n".join(lines)


def _window(verdict: Verdict, min_effect: float) -> dict[str, JsonValue]:
    """Return the figures of the window that a verdict decided; what is not known is null."""
    clauses: Mapping[str, Any] = verdict.clauses
    estimate, mde = clauses["window"]["estimate"], clauses["mde"]
    lower, upper = estimate.get("ci") or (None, None)
    return {
        "epoch": verdict.epoch,
        "index": verdict.window_index,
        "first": clauses["first"],
        "last": clauses["last"],
        "reasons": list(verdict.reasons),
        "delta": estimate["delta"],
        "ci_lower": lower,
        "ci_upper": upper,
        "min_effect": min_effect,
        "mde": mde["two_windows"] if mde else None,
        "pairs": estimate["items_paired"],
        "panel_items": clauses["panel_items"],
    }


def _figures(window: Mapping[str, Any]) -> str:
    around = interval(window["ci_lower"], window["ci_upper"])
    reasons = f", not evaluable: {', '.join(window['reasons'])}" if window["reasons"] else ""
    return (
        f"window {window['index']} ({window['first']} to {window['last']}): delta "
        f"{points(window['delta'])}{f' {around}' if around else ''}, minimum effect "
        f"{points(window['min_effect'], signed=False)}, MDE {points(window['mde'], signed=False)}, "
        f"items {window['pairs']}/{window['panel_items']}{reasons}"
    )
