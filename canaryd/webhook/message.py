"""What the receiver is told: numbers and the way to the runbook, and neither a cause nor advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from canaryd.records import JsonValue, Verdict
from canaryd.service_config import Webhook
from canaryd.webhook.notices import Notice
from canaryd.wording import interval, points

SCHEMA_VERSION = 1
_RUNBOOKS: Mapping[tuple[str, str], str] = {
    ("alarm", "regression"): "CanarydRegressionDeclared",
    ("alarm", "unattributed_regression"): "CanarydRegressionDeclared",
    ("alarm", "improvement"): "CanarydImprovementDeclared",
    ("alarm", "unattributed_improvement"): "CanarydImprovementDeclared",
    ("alarm", "platform_change"): "CanarydPlatformChange",
    ("alarm", "not_evaluable"): "CanarydNotEvaluable",
    ("sentinels", "moved"): "CanarydSentinelMoved",
    ("sentinels", "collapsed"): "CanarydSentinelCollapsed",
    ("early_warning", "alarm"): "CanarydEarlyWarning",
    ("zero_pass", "zero_pass"): "CanarydZeroPass",
}
#: Where there is no alert, what each verdict means stands on one page.
_ANY_VERDICT = "verdicts"


@dataclass(frozen=True, slots=True)
class Message:
    """One notice with the verdict that it rests on, if it rests on one."""

    notice: Notice
    verdict: Verdict | None = None
    min_effect: float | None = None
    synthetic: bool = False

    @property
    def key(self) -> str:
        """The same however often it is sent, so that a receiver can tell a repetition."""
        return f"{self.notice.series}/{self.notice.id}"

    def body(self, webhook: Webhook) -> dict[str, JsonValue]:
        """Return the JSON to post: Slack's `text` alone, or everything that is known by name."""
        text = f"{self._text()}\nrunbook: {self.runbook_url(webhook)}"
        if webhook.format == "slack":
            return {"text": text}
        notice = self.notice
        return {
            "schema_version": SCHEMA_VERSION,
            "id": self.key,
            "synthetic": self.synthetic,
            "series": notice.series,
            "kind": notice.kind,
            "state": notice.state,
            "before": notice.before,
            "since": notice.since.isoformat(),
            "figures": dict(notice.figures) or None,
            "window": None if self.verdict is None else _window(self.verdict, self.min_effect),
            "runbook_url": self.runbook_url(webhook),
            "text": text,
        }

    def runbook_url(self, webhook: Webhook) -> str:
        """Return the address of the page on this state."""
        return f"{webhook.runbooks}/{_RUNBOOKS.get((self.notice.kind, self.notice.state), _ANY_VERDICT)}"

    def _text(self) -> str:
        lines = [f"canaryd {self.notice.series}: {_said(self.notice)}"]
        if self.synthetic:
            lines[0] = f"[{self.notice.id}: a TEST, nothing is stored and no state changed] {lines[0]}"
        if self.verdict is not None:
            lines.append(_figures(_window(self.verdict, self.min_effect)))
        return "\n".join(lines)


def _said(notice: Notice) -> str:
    figures: Mapping[str, Any] = notice.figures
    match notice.kind:
        case "alarm":
            return f"{notice.state} since {notice.since:%Y-%m-%d %H:%MZ} (before: {notice.before})"
        case "sentinels":
            moved = f": {', '.join(figures['moved'])}" if figures["moved"] else ""
            return f"sentinels {notice.state} in the slot of {figures['slot_date']} (before: {notice.before}){moved}"
        case "early_warning":
            reached = f"capital {figures['capital']:.3g} of {figures['threshold']:.3g}"
            return f"early warning of stream {figures['stream']} in the slot of {figures['slot_date']}: {reached}"
        case _:
            return f"not one answer of the tracked arm passed in the slot of {figures['slot_date']}"


def _window(verdict: Verdict, min_effect: float | None) -> dict[str, JsonValue]:
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
