"""What a registration says of calibration and validation, and how it refuses what makes no sense."""

import re
from pathlib import Path

import pytest

from canaryd.errors import ConfigError
from canaryd.prereg import load, parse

EXAMPLE = Path(__file__).parents[2] / "prereg.example.toml"
TEXT = EXAMPLE.read_text()
CONTROLS = re.search(r"(?ms)^controls = \[.*?^\]\n", TEXT)


def test_the_example_screens_and_validates_as_recommended() -> None:
    registered = load(EXAMPLE)
    screen, validation = registered.calibration, registered.validation
    assert (screen.screen_samples, screen.keep_min, screen.keep_max, screen.confirm_samples) == (4, 1, 3, 8)
    assert (validation.samples, validation.alpha, validation.seen_in) == (4, 0.01, ("score",))
    effort, swapped = validation.controls
    assert (effort.name, effort.arm, effort.params) == ("less-effort", None, {"effort": "low"})
    assert (swapped.arm, swapped.model, swapped.options) == ("control", None, {})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("screen_samples = 1", "calibration.screen_samples is 1, but must be between 2 and 1000"),
        ("keep_min = 5", "calibration.keep_min is 5.0, but must be between 0 and 4"),
        ("keep_max = 0", "calibration.keep_max is 0.0, but must be between 1 and 4"),
        ("confirm_samples = 1", "calibration.confirm_samples is 1, but must be between 2 and 1000"),
        ('seen_in = ["latency"]', "must name each stream once, of score, tokens, outcomes"),
        ("seen_in = []", "must name each stream once, of score, tokens, outcomes"),
    ],
)
def test_a_bad_number_is_refused_with_its_line(line: str, message: str) -> None:
    key = line.split(" ")[0]
    text, count = re.subn(rf"(?m)^{key} = [^#\n]*", f"{line} ", TEXT)
    assert count == 1
    with pytest.raises(ConfigError, match=re.escape(message)) as refused:
        parse(text.encode(), source="p.toml")
    assert re.match(r"p\.toml:\d+: ", str(refused.value))


@pytest.mark.parametrize(
    ("controls", "message"),
    [
        ("controls = []\n", "validation.controls is required: name at least one change"),
        (
            'controls = [{ name = "a", params = { max_tokens = 0 } }]\n',
            "params.max_tokens is 0, but must be a whole number from 1 on",
        ),
        ('controls = [{ name = "a", size = 3 }]\n', "size is unknown; allowed here: arm, model, name, options, params"),
        ('controls = [{ name = "a b" }]\n', "is 'a b', but must be 1 to 63 small letters, digits, - and _"),
        ('controls = [{ name = "a" }, { name = "a" }]\n', "names two controls 'a'; rename one"),
    ],
)
def test_controls_that_cannot_be_asked_are_refused(controls: str, message: str) -> None:
    assert CONTROLS is not None
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse(TEXT.replace(CONTROLS[0], controls).encode(), source="p.toml")
