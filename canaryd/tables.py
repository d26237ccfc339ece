"""Reading a TOML document into typed values: every key is known or refused, with the line it stands on."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from difflib import SequenceMatcher
from typing import Any, NamedTuple, NoReturn, TypeVar
from urllib.parse import urlsplit

from canaryd.errors import ConfigError
from canaryd.wording import as_toml

T = TypeVar("T")

_HEADER = re.compile(r"\s*\[(?P<array>\[)?\s*(?P<name>[A-Za-z0-9_.\s\-]+?)\s*\]+\s*(#.*)?$")
#: The beginnings by which keys of providers are known, wherever they stand in a text.
_LITERAL_KEY = re.compile(r"(?<![\w-])(?:sk-\w|(?:AKIA|ASIA)[0-9A-Z]|xox[bp]-\w|ghp_\w|AIza\w)[\w-]*")


class Taken(NamedTuple):
    """A value that was taken, under its full name, with the line it stands on; None is a default."""

    name: str
    value: Any
    line: int | None


class Table:
    """One TOML table that is emptied key by key; what is left at the end is unknown and refused."""

    def __init__(
        self,
        values: Mapping[str, Any],
        *,
        source: str,
        text: str,
        path: str = "",
        absent_in: Table | None = None,
        taken: list[Taken] | None = None,
    ) -> None:
        self._left = dict(values)
        self._known: list[str] = []
        #: The table in which this one does not stand.
        self._absent_in = absent_in
        self.source = source
        self.path = path
        self._text = text
        #: Every value that was taken of the document so far, from this table or another.
        self.taken: list[Taken] = [] if taken is None else taken

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def line_of(self, key: str) -> int | None:
        """Return the line on which `key` of this table is set, or None when it stands nowhere."""
        key_pattern = rf'"?{re.escape(key)}"?\s*[.=]'
        for number, header, line in _lines_with_header(self._text):
            if header == self.path and re.match(rf"\s*{key_pattern}", line):
                return number
            inside = f"{header}." if header else ""
            if self.path != header and self.path.startswith(inside):
                inline = self.path.removeprefix(inside).split(".")[0]
                if re.match(rf"\s*{re.escape(inline)}\s*[.=]", line) and re.search(rf"[{{,.]\s*{key_pattern}", line):
                    return number
        dotted = f"{self.path}.{key}" if self.path else key
        headers = ((n, _HEADER.match(line)) for n, line in enumerate(self._text.splitlines(), start=1))
        return next((n for n, header in headers if header and header["name"].strip() == dotted), None)

    def where(self, key: str) -> str:
        """Return `file:line: key` (without the line when the key is absent)."""
        line = self.line_of(key)
        dotted = f"{self.path}.{key}" if self.path else key
        return f"{self.source}:{line}: {dotted}" if line else f"{self.source}: {dotted}"

    def refuse(self, key: str, why: str) -> NoReturn:
        """Raise ConfigError naming the place of `key`."""
        raise ConfigError(f"{self.where(key)} {why}")

    def take(
        self, key: str, kind: type[T], *, default: T | None = None, check: Callable[[T], str | None] | None = None
    ) -> T:
        """Return the value of `key`; without a default the key is required.

        `check` returns why a value is refused, or None. An integer is accepted where a float is asked for.
        """
        self._known.append(key)
        if key not in self._left:
            if default is not None:
                self._note(key, default)
                return default
            self.refuse_misspelt(key, kind)
            if self._absent_in is not None:
                self._absent_in.refuse_misspelt(self.path.rsplit(".", 1)[-1], dict)
            self.refuse(key, f"is required; add it as {_example(kind)}")
        value = self._left.pop(key)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            self.refuse(key, f"is {as_toml(value)}, but must be {_example(kind)}")
        if check and (why := check(value)):
            self.refuse(key, f"is {as_toml(value)}, but {why}")
        self._note(key, value)
        return value

    def _note(self, key: str, value: Any) -> None:
        """Keep what was taken; a table and an array of tables are noted by their own keys."""
        if isinstance(value, dict) or (isinstance(value, list) and all(isinstance(each, dict) for each in value)):
            return
        self.taken.append(Taken(f"{self.path}.{key}" if self.path else key, value, self.line_of(key)))

    def optional(self, key: str, kind: type[T], *, check: Callable[[T], str | None] | None = None) -> T | None:
        """Return the value of `key`, or None when it is absent."""
        if key not in self._left:
            self._known.append(key)
            return None
        return self.take(key, kind, check=check)

    def optional_url(self, key: str) -> str | None:
        """Return the http(s) address at `key`, or None when it is absent; one that may hold a key is not repeated."""
        url = self.optional(key, str)
        if url is None:
            return None
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or parts.username or parts.password or re.search(r"[\s?#]", url):
            self.refuse(
                key,
                "must be http:// or https://, a host, and at most a port and a path; a user, a password or a query in "
                "it is refused, give the key as a credential",
            )
        return url

    def url(self, key: str) -> str:
        """Return the http(s) address at `key`, which is required; one that may hold a key is not repeated."""
        url = self.optional_url(key)
        return self.take(key, str) if url is None else url

    def table(self, key: str) -> Table:
        """Return the sub-table `key`, empty when it is absent."""
        values = self.take(key, dict, default={})
        path = f"{self.path}.{key}" if self.path else key
        absent_in = None if values else self
        return Table(values, source=self.source, text=self._text, path=path, absent_in=absent_in, taken=self.taken)

    def optional_table(self, key: str) -> Table | None:
        """Return the sub-table `key`, or None when it is absent."""
        if key not in self._left:
            self._known.append(key)
            return None
        return self.table(key)

    def tables(self, key: str) -> list[Table]:
        """Return the array of tables `key`, empty when it is absent."""
        values = self.take(key, list, default=[])
        if not all(isinstance(value, dict) for value in values):
            self.refuse(key, f"must be an array of tables, written [[{key}]]")
        path = f"{self.path}.{key}" if self.path else key
        return [
            Table(value, source=self.source, text=self._text, path=f"{path}[{n}]", taken=self.taken)
            for n, value in enumerate(values)
        ]

    def rest(self) -> dict[str, Any]:
        """Return every key that was not taken, and take it."""
        left, self._left = self._left, {}
        for key, value in left.items():
            self.taken.append(Taken(f"{self.path}.{key}" if self.path else key, value, self.line_of(key)))
        return left

    def done(self) -> None:
        """Refuse the keys that nobody took.

        Raises:
            ConfigError: there is an unknown key; the message lists the allowed ones.
        """
        if self._left:
            unknown = next(iter(self._left))
            known = sorted(self._known)
            meant = next((f"did you mean {key}? Allowed" for key in known if _is_near(unknown, key)), "allowed")
            self.refuse(unknown, f"is unknown; {meant} here: {', '.join(known) or 'nothing'}")

    def refuse_misspelt(self, key: str, kind: type) -> None:
        """Refuse the key that stands here in the place of the absent and required `key`, if one does.

        Raises:
            ConfigError: there is one, and it is what must be mended.
        """
        fitting = (int, float) if kind is float else kind
        for left, value in self._left.items():
            if isinstance(value, fitting) and _is_near(left, key):
                self.refuse(left, f"is unknown; did you mean {key}? It is missing here")


def parse_table(text: str, *, source: str, taken: list[Taken] | None = None) -> Table:
    """Return the root table of a TOML text; what is taken from it and the tables in it is noted in `taken`.

    Raises:
        ConfigError: the text is not TOML, or a key of a provider stands in it; the message has the line.
    """
    if text.startswith("\ufeff"):
        raise ConfigError(f"{source}:1: begins with a byte order mark; save the file as UTF-8 without one")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        place = f"{source}:{line.group(1)}" if line else source
        raise ConfigError(f"{place}: this is not valid TOML ({error}); mend that line") from None
    _refuse_literal_keys(values, text, source=source)
    return Table(values, source=source, text=text, taken=taken)


_EXAMPLES: dict[type, str] = {
    str: 'a text ("...")',
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a table",
    list: "a list",
    date: "a date (2027-01-31, without quotes)",
}


def _example(kind: type) -> str:
    return _EXAMPLES.get(kind, str(kind))


def _refuse_literal_keys(values: object, text: str, *, source: str) -> None:
    """Refuse a document that holds a key of a provider, before any other message could repeat it."""
    for literal in filter(None, map(_LITERAL_KEY.search, _texts(values))):
        number = next((n for n, line in enumerate(text.splitlines(), start=1) if literal.group() in line), None)
        place = f"{source}:{number}" if number else source
        raise ConfigError(
            f"{place}: a literal key stands in this file; put it in a file of its own and name that file in "
            "[credentials], or pass it as a systemd credential"
        )


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a document, names of keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _is_near(written: str, meant: str) -> bool:
    """Return whether one name looks like the other misspelt.

    >>> _is_near("min_efect", "min_effect"), _is_near("min_item_share", "min_day_item_share")
    (True, False)
    """
    return abs(len(written) - len(meant)) <= 2 and SequenceMatcher(None, written, meant).ratio() >= 0.8


def _lines_with_header(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line number, path of the table the line stands in, line); `[[a.b]]` counts up within its own `a`."""
    counts: dict[str, int] = {}
    current = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _HEADER.match(line):
            name = match.group("name").strip()
            if match.group("array"):
                counts[name] = counts.get(name, -1) + 1
                counts = {other: n for other, n in counts.items() if not other.startswith(f"{name}.")}
            parts = name.split(".")
            prefixes = [".".join(parts[: n + 1]) for n in range(len(parts))]
            current = ".".join(
                f"{part}[{counts[prefix]}]" if prefix in counts else part
                for part, prefix in zip(parts, prefixes, strict=True)
            )
        else:
            yield number, current, line
