"""What was pinned before the first day, and the refusal to measure with anything else."""

from __future__ import annotations

from canaryd.errors import MeasurementRefused
from canaryd.panel import Panel, verify


def require_frozen(panel: Panel, lock: bytes) -> None:
    """Refuse a panel that is not the one in its lock.

    Raises:
        MeasurementRefused: an item, the system prompt or a grader differs; the text names the first one.
    """
    differences = verify(panel, lock)
    if differences:
        more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
        raise MeasurementRefused(f"{differences[0]}{more}", reason="panel_mismatch")


def require_registered(
    panel: Panel, registration_digest: str, *, registered_panel: str, registered: str, prereg_path: str
) -> None:
    """Refuse a panel or a registration that is not the one the series was registered with.

    Raises:
        MeasurementRefused: one of the two digests differs.
    """
    if panel.digest != registered_panel:
        raise MeasurementRefused(
            f"{panel.path}: this panel is {panel.digest[:19]}…, the series was registered with "
            f"{registered_panel[:19]}…; restore that panel, or register a new series",
            reason="panel_mismatch",
        )
    if registration_digest != registered:
        raise MeasurementRefused(
            f"{prereg_path}: was edited after the series was registered ({registration_digest[:19]}… is not "
            f"{registered[:19]}…); restore it: a rule is not changed once there are data",
            reason="registration_mismatch",
        )
