"""What became of the message of a transition: taken, silenced, still waiting to be taken, or given up as too old."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from canaryd.records import JsonValue
from canaryd.store.deliveries import DeliveryOutcome


class Standing(NamedTuple):
    """Where a message stands; how often the running daemon tried it in vain, the last error, and when it tries again.

    `attempts` is None where no daemon tells, or none of its attempts failed.
    """

    state: DeliveryOutcome | Literal["waiting", "given_up"]
    attempts: int | None = None
    last_error: str | None = None
    next_attempt: datetime | None = None

    def said(self) -> str:
        """Return it for a person."""
        parts = [self.state.replace("_", " ")]
        if self.attempts is not None:
            parts.append(
                f"{self.attempts} failed attempt{'s' if self.attempts != 1 else ''}, the last: {self.last_error}"
            )
        if self.next_attempt is not None:
            parts.append(f"next at {self.next_attempt:%Y-%m-%d %H:%M:%SZ}")
        return "; ".join(parts)

    def to_json(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        again_at = self.next_attempt.isoformat() if self.next_attempt else None
        return {**self._asdict(), "next_attempt": again_at}


def standing(notice: str, *, told: DeliveryOutcome | None, is_owed: bool, live: Mapping[str, Any]) -> Standing:
    """Return where the message of a notice stands.

    `told` is its stored outcome, `is_owed` whether it is one of `owed`, and `live` what the daemon says of the webhook
    of the series, empty where there is none.

    >>> standing("alarm/1", told=None, is_owed=False, live={}).said()
    'given up'
    """
    if told is not None:
        return Standing(told)
    failed = live.get("failed", {}).get(notice, {})
    again_at = live.get("next_attempt") if is_owed else None
    return Standing(
        "waiting" if is_owed else "given_up",
        failed.get("attempts"),
        failed.get("last_error"),
        datetime.fromisoformat(again_at) if again_at else None,
    )
