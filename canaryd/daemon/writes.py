"""Counting what a process writes into the store, by listening to the database library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import IntegrityError


def count_writes(report: Callable[[Mapping[str, Any]], None]) -> None:
    """Report every committed transaction of this process, and every statement that the database failed.

    A reader's transaction is never committed. A refused row (a slot that is claimed already) is no failure.
    """

    @event.listens_for(Engine, "commit")
    def _committed(_connection: Connection) -> None:
        report({"event": "write", "failed": False})

    @event.listens_for(Engine, "handle_error")
    def _failed(context: ExceptionContext) -> None:
        if not isinstance(context.sqlalchemy_exception, IntegrityError):
            report({"event": "write", "failed": True})
