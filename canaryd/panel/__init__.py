"""A panel: a header and items as JSON lines, a system prompt beside them, and the lock that freezes both.

Graders come in as an argument (the module `canaryd.graders` is one `Grading`): a panel is judged by them and does not
know them.
"""

from canaryd.panel.lint import lint
from canaryd.panel.lock import diff, freeze, verify
from canaryd.panel.model import Grading, Lock, Panel, lock_path, system_path
from canaryd.panel.parse import load, parse, read

__all__ = [
    "Grading",
    "Lock",
    "Panel",
    "diff",
    "freeze",
    "lint",
    "load",
    "lock_path",
    "parse",
    "read",
    "system_path",
    "verify",
]
