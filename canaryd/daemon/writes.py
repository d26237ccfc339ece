"""Noting what a process writes into the store, by listening to the database library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError

from canaryd.store.engine import file_of, is_unavailable, is_writer
from canaryd.store.trouble import said_of


def count_writes(report: Callable[[Mapping[str, Any]], None], *, on: type[Engine] | Engine = Engine) -> None:
    """Report every committed transaction of this process, and every one that the database failed, with why.

    A reader's transaction is never committed. A refused row (a slot that is claimed already) is no failure.
    """

    @event.listens_for(on, "commit")
    def _committed(_connection: Connection) -> None:
        report({"event": "write", "failed": None})

    @event.listens_for(on, "handle_error")
    def _failed(context: ExceptionContext) -> None:
        engine, error = context.engine, context.sqlalchemy_exception
        if engine is not None and is_writer(engine) and isinstance(error, DBAPIError) and is_unavailable(error):
            report({"event": "write", "failed": said_of(error, near=file_of(engine.url))})
