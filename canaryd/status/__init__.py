"""What is known of each series now, from stored rows alone: it works while nothing else runs, and starts fast."""

from canaryd.status.build import build_status
from canaryd.status.check import Check, check_status
from canaryd.status.live import Live, ask_daemon
from canaryd.status.load import read_status
from canaryd.status.model import SeriesRecords, SeriesStatus, Status, WindowFigures
from canaryd.status.text import as_text, with_invalid_text

__all__ = [
    "Check",
    "Live",
    "SeriesRecords",
    "SeriesStatus",
    "Status",
    "WindowFigures",
    "as_text",
    "ask_daemon",
    "build_status",
    "check_status",
    "read_status",
    "with_invalid_text",
]
