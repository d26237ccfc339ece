"""Column types, escapes and stored texts, without a database."""

from __future__ import annotations

import bz2
import zlib
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql, sqlite

from canaryd.errors import ConfigError
from canaryd.store import texts
from canaryd.store.engine import parse_url
from canaryd.store.types import Day, UTCDateTime, escape, unescape

SQLITE, POSTGRES = sqlite.dialect(), postgresql.dialect()
ANYTHING = st.text(st.characters() | st.sampled_from("\\u0\x00\ud800"))


@given(ANYTHING)
def test_escapes_are_undone(text: str) -> None:
    escaped = escape(text)
    assert unescape(escaped) == text
    assert "\x00" not in escaped
    escaped.encode()


@given(ANYTHING, ANYTHING)
def test_different_texts_have_different_escapes(one: str, two: str) -> None:
    assert (escape(one) == escape(two)) == (one == two)


SAID = st.text(st.characters() | st.sampled_from("\ud800\x00\n"), max_size=300)


@given(st.lists(st.tuples(st.tuples(SAID, st.integers(0, 9)), SAID), max_size=8, unique_by=lambda each: each[0]))
def test_texts_come_back_from_their_block(said: list[tuple[tuple[str, int], str]]) -> None:
    blocks = list(texts.blocks((key, texts.encode(text)) for key, text in said))
    found = [(key, texts.decode(body)) for block in blocks for key, body in texts.unblock(block.content)]
    assert found == said
    assert sum(block.texts for block in blocks) == len(said)


def test_a_block_ends_before_it_grows_too_large() -> None:
    half = b"x" * (texts.BLOCK_BYTES // 2)
    bodies = [(("a", 0), half), (("b", 0), half), (("c", 0), b"y"), (("d", 0), half * 3), (("e", 0), b"")]
    assert [block.texts for block in texts.blocks(bodies)] == [2, 1, 1, 1]


def test_replies_that_are_alike_are_stored_together() -> None:
    bodies = [((f"i{n}", 0), texts.encode(f"The answer is {n}. " * 50)) for n in range(50)]
    (block,) = texts.blocks(bodies)
    assert len(block.content) < sum(len(body) for _, body in bodies) / 20


@pytest.mark.parametrize("content", [b"", b"no block", bz2.compress(b"[1]\n"), bz2.compress(b"\xff")])
def test_a_damaged_block_is_told(content: bytes) -> None:
    with pytest.raises(texts.DamagedText, match="the stored text of a reply is damaged"):
        list(texts.unblock(content))


def test_a_row_of_an_older_canaryd_is_read() -> None:
    assert texts.unpack("utf8+zlib", zlib.compress(b"said")) == texts.unpack("utf8", b"said") == b"said"
    with pytest.raises(texts.DamagedText):
        texts.unpack("utf8+zlib", b"said")
    with pytest.raises(texts.DamagedText):
        texts.decode(b"\xff")


INSTANTS = st.datetimes(
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=14)), timezone(-timedelta(hours=9.5))])
)


@given(INSTANTS, INSTANTS)
def test_stored_instants_come_back_and_sort(one: datetime, two: datetime) -> None:
    assume(min(one.year, two.year) > 1 and max(one.year, two.year) < 9999)
    column = UTCDateTime()
    stored = [column.process_bind_param(instant, SQLITE) for instant in (one, two)]
    assert [column.process_result_value(each, SQLITE) for each in stored] == [one, two]
    assert (stored[0] < stored[1]) == (one < two)
    assert column.process_bind_param(one, POSTGRES) == one


def test_a_wall_time_is_stored_as_its_instant() -> None:
    east = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert UTCDateTime().process_bind_param(east, SQLITE) == "2030-01-01T10:00:00.000000Z"
    assert UTCDateTime().process_bind_param(east.astimezone(UTC), SQLITE) == "2030-01-01T10:00:00.000000Z"


def test_naive_times_and_times_for_days_are_refused() -> None:
    with pytest.raises(ValueError, match="no time without an offset"):
        UTCDateTime().process_bind_param(datetime(2030, 1, 1, tzinfo=UTC).replace(tzinfo=None), SQLITE)
    with pytest.raises(TypeError, match="not a datetime"):
        Day().process_bind_param(datetime(2030, 1, 1, tzinfo=UTC), SQLITE)
    assert Day().process_bind_param(date(2030, 1, 1), SQLITE) == "2030-01-01"


@pytest.mark.parametrize("url", ["", "sqlite://", "sqlite:///:memory:", "mysql://h/db", "canaryd.db", "sqlite:///"])
def test_other_stores_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"store\.url is neither sqlite:///FILE nor postgresql://"):
        parse_url(url)


def test_both_kinds_of_url_are_read() -> None:
    assert parse_url("sqlite:////var/lib/canaryd/canaryd.db").database == "/var/lib/canaryd/canaryd.db"
    assert parse_url("postgresql://u@h/db").drivername == "postgresql+psycopg"
    assert parse_url("postgresql+psycopg://u@h/db").drivername == "postgresql+psycopg"
