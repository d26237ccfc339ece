"""Column types that hold the same value on both databases; on SQLite each maps to a type that STRICT tables allow."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import REAL, BigInteger, Boolean, Date, DateTime, Dialect, Double, Integer, Text
from sqlalchemy.types import TypeDecorator, TypeEngine

from canaryd.errors import StoreUnavailable
from canaryd.hashing import canonical_json


class UnreadableValue(StoreUnavailable):
    """A stored value is none of its column's type, as no program of this project writes it."""

    def __init__(self, wanted: str) -> None:
        super().__init__(f"a row of the store has {wanted} that cannot be read; `canaryd verify` says which")


#: 64-bit whole numbers.
WideInteger: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")
#: 64-bit floating point numbers.
Real: TypeEngine[float] = Double().with_variant(REAL(), "sqlite")

_UNSTORABLE = re.compile("[\\\\\x00\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(\\|u[0-9a-f]{4})")


def escape(text: str) -> str:
    r"""Return text that every database stores: a backslash, NUL and lone surrogates become backslash escapes.

    >>> escape("a\\b\x00")
    'a\\\\b\\u0000'
    """
    return _UNSTORABLE.sub(lambda match: "\\\\" if match[0] == "\\" else f"\\u{ord(match[0]):04x}", text)


def unescape(text: str) -> str:
    r"""Return what `escape` was given.

    >>> unescape(escape("\ud800 \\u0000")) == "\ud800 \\u0000"
    True
    """
    return _ESCAPED.sub(lambda match: "\\" if match[1] == "\\" else chr(int(match[1][1:], 16)), text)


class AnyText(TypeDecorator[str]):
    """Text with any code point in it, NUL and lone surrogates included (PostgreSQL refuses both as they are)."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        """Escape what a database may refuse."""
        return None if value is None else escape(value)

    def process_result_value(self, value: str | None, _dialect: Dialect) -> str | None:
        """Undo the escapes."""
        return None if value is None else unescape(value)


class UTCDateTime(TypeDecorator[datetime]):
    """An instant: timestamptz on PostgreSQL, RFC 3339 text in UTC (which sorts) on SQLite. Naive times are refused."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose text on SQLite."""
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Convert to UTC; raise ValueError for a naive time."""
        if value is None:
            return None
        if value.utcoffset() is None:
            raise ValueError(f"the store takes no time without an offset: {value.isoformat()}; pass an aware datetime")
        instant = value.astimezone(UTC)
        if dialect.name != "sqlite":
            return instant
        return instant.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"

    def process_result_value(self, value: Any, _dialect: Dialect) -> datetime | None:
        """Return an aware time in UTC."""
        if value is None:
            return None
        try:
            instant = datetime.fromisoformat(value) if isinstance(value, str) else value
        except ValueError:
            raise UnreadableValue("a time") from None
        return instant.astimezone(UTC)


class Day(TypeDecorator[date]):
    """A UTC date: date on PostgreSQL, ISO text on SQLite."""

    impl = Date
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose text on SQLite."""
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else Date())

    def process_bind_param(self, value: date | None, dialect: Dialect) -> Any:
        """Write ISO text on SQLite; raise TypeError for a datetime, whose date depends on a zone."""
        if isinstance(value, datetime):
            raise TypeError("a day is a date, not a datetime")
        return value if value is None or dialect.name != "sqlite" else value.isoformat()

    def process_result_value(self, value: Any, _dialect: Dialect) -> date | None:
        """Return a date."""
        try:
            return date.fromisoformat(value) if isinstance(value, str) else value
        except ValueError:
            raise UnreadableValue("a date") from None


class Flag(TypeDecorator[bool]):
    """True or false: boolean on PostgreSQL, 0 or 1 on SQLite."""

    impl = Boolean
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose an integer on SQLite."""
        return dialect.type_descriptor(Integer() if dialect.name == "sqlite" else Boolean())

    def process_result_value(self, value: Any, _dialect: Dialect) -> bool | None:
        """Return a bool."""
        return None if value is None else bool(value)


class CanonicalJson(TypeDecorator[Any]):
    """A JSON value as RFC 8785 text, so that equal values are equal bytes; None is SQL NULL, NaN is refused."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: Dialect) -> str | None:
        """Write the canonical form; raise ValueError where there is none."""
        return None if value is None else canonical_json(value).decode()

    def process_result_value(self, value: str | None, _dialect: Dialect) -> Any:
        """Parse the text."""
        try:
            return None if value is None else json.loads(value)
        except (ValueError, RecursionError):
            raise UnreadableValue("a JSON value") from None
