"""The command that helps with each reason for which an arm is not measured."""

from __future__ import annotations

from collections.abc import Mapping

REMEDIES: Mapping[str, str] = {
    "harness_drift": "canaryd doctor (what differs), canaryd deviation accept --reason TEXT",
    "panel_mismatch": "canaryd panel verify",
    "registration_mismatch": "canaryd config check",
    "budget": "canaryd config show (the limits)",
    "credentials": "canaryd doctor",
    "sandbox_unavailable": "canaryd doctor",
    "store_unavailable": "canaryd db check",
    "schema_outdated": "canaryd db upgrade",
    "not_holder": "canaryd status on the host that holds the series",
    "clock_untrusted": "timedatectl status",
    "canary_failed": "canaryd doctor",
}


def blocked_by(outcome: str, reason: str) -> str | None:
    """Return for which reason of the contract a run was refused; None where it was not.

    >>> blocked_by("refused", "budget: calls_per_day is 50"), blocked_by("missed", "budget: x")
    ('budget', None)
    """
    word = reason.partition(":")[0]
    return word if outcome == "refused" and word in REMEDIES else None
