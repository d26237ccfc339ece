"""Keys are never shown, and texts lose those that they hold."""

from __future__ import annotations

import copy
import pickle
import traceback

import pytest

from canaryd.errors import CredentialsError
from canaryd.providers.secret import Secret, redact

KEY = "zq/planted+key=0123456789"


@pytest.fixture
def secret():
    return Secret(KEY, source="planted")


def test_no_way_of_printing_shows_the_key(secret):
    shown = f"{secret} {secret!r} {[secret]} {[secret]!s}" + str(secret)
    assert KEY not in shown
    assert repr(secret) == "***"
    with pytest.raises(TypeError):
        vars(secret)


@pytest.mark.parametrize("leak", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_secret_is_neither_pickled_nor_copied(secret, leak):
    with pytest.raises(TypeError, match="never pickled"):
        leak(secret)


def test_secrets_compare_by_value_and_show_a_fingerprint(secret):
    assert secret == Secret(KEY, source="elsewhere")
    assert secret != Secret("another", source="planted")
    assert len({secret, Secret(KEY, source="elsewhere")}) == 1
    assert len(secret.fingerprint) == 4
    assert secret.reveal() == KEY


@pytest.mark.parametrize("value", ["", " k", "k\n", "schlüssel", "a\nb"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(value):
    with pytest.raises(CredentialsError, match="planted: the key") as caught:
        Secret(value, source="planted")
    assert "schlüssel" not in "".join(traceback.format_exception(caught.value, limit=0))


@pytest.mark.parametrize(
    "text",
    [
        f"bad key {KEY}!",
        "at https://h/?k=zq%2Fplanted%2Bkey%3D0123456789",
        "Incorrect API key provided: sk-proj-0123456789.",
        "AKIAIOSFODNN7EXAMPLE is not known",
        "header Authorization: Bearer abcdef0123456789",
        "https://user:hunter22@host/v1",
        '{"api_key": "hunter22hunter22"}',
        "token=hunter22hunter22",
    ],
)
def test_keys_are_removed_by_value_and_by_pattern(secret, text):
    cleaned = redact(text, secrets=(secret, None))
    assert "***" in cleaned
    for part in (KEY, "zq%2F", "0123456789", "AKIA", "hunter22"):
        assert part not in cleaned


def test_a_key_at_the_cut_leaves_no_part_of_itself(secret):
    assert "zq/" not in redact("x" * 290 + KEY, secrets=(secret,))


def test_a_detail_is_one_short_line_without_the_panel(secret):
    prompt = "What is twenty plus twenty-two?"
    cleaned = redact(f"refused:\n\x1b[31m{prompt}\n" + "y" * 400, private=(prompt, "a"))
    assert cleaned.startswith("refused: [31m[private] yyy")
    assert len(cleaned) == 300
