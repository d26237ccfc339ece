"""The command that helps with each reason for which an arm is not measured."""

from __future__ import annotations

from collections.abc import Mapping

_DOCTOR = "canaryd doctor --series {series}"
#: Each is typed as it is printed; what to do then is what the command says.
REMEDIES: Mapping[str, str] = {
    "harness_drift": _DOCTOR,
    "panel_mismatch": _DOCTOR,
    "registration_mismatch": "canaryd config check",
    "budget": _DOCTOR,
    "credentials": _DOCTOR,
    "configuration": _DOCTOR,
    "sandbox_unavailable": _DOCTOR,
    "store_unavailable": _DOCTOR,
    "schema_outdated": "canaryd db upgrade",
    "not_holder": _DOCTOR,
    "clock_untrusted": _DOCTOR,
    "canary_failed": _DOCTOR,
}


def remedy(reason: str, *, series: str) -> str | None:
    """Return the command that helps a series which is blocked for a reason of the contract, as it is typed.

    >>> remedy("panel_mismatch", series="main"), remedy("no such reason", series="main")
    ('canaryd doctor --series main', None)
    """
    return REMEDIES[reason].format(series=series) if reason in REMEDIES else None


#: What a provider says that refuses the first question, as the reason for which its arm is not measured.
_REFUSALS: Mapping[str, str] = {
    "auth": "credentials",
    "not_found": "configuration",
    "bad_request": "configuration",
    "quota": "configuration",
}


def blocked_by(outcome: str, reason: str) -> str | None:
    """Return for which reason of the contract a run was refused, by canaryd or the provider; None where it was not.

    >>> blocked_by("refused", "budget: calls_per_day is 50"), blocked_by("missed", "budget: x")
    ('budget', None)
    >>> blocked_by("config_error", "canary_failed: auth: no key"), blocked_by("config_error", "auth: no key")
    ('canary_failed', 'credentials')
    """
    if outcome not in ("refused", "config_error"):
        return None
    word = reason.partition(":")[0]
    return word if word in REMEDIES else _REFUSALS.get(word)
