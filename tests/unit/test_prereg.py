"""The registration: what it refuses, with the exact sentence, and what it warns of."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from canaryd.errors import ConfigError
from canaryd.prereg import check_plan, load, parse
from canaryd.stats.reach import PlannedPanel

EXAMPLE = Path(__file__).parents[2] / "prereg.example.toml"
TEXT = EXAMPLE.read_text()


def _with(*changes):
    """Return the example with keys set anew; the file keeps its lines."""
    text = TEXT
    for key, value in changes:
        text, count = re.subn(rf"(?m)^{key} = [^#\n\[]+?(?=\s*(#|$))", f"{key} = {value}", text)
        assert count == 1, key
    return parse(text.encode(), source="prereg.toml")


def _line(key):
    return next(number for number, line in enumerate(TEXT.splitlines(), 1) if line.startswith(f"{key} ="))


def test_the_example_is_the_recommended_registration():
    registered = load(EXAMPLE)
    assert registered.source == "prereg.example.toml"
    assert (registered.rule.mode, registered.rule.baseline_days, registered.rule.window_days) == ("canaryd", 20, 10)
    assert (registered.rule.estimate.confidence, registered.rule.min_effect) == (0.99, 0.03)
    assert registered.early_warning.baseline_days == registered.rule.baseline_days
    assert registered.early_warning.min_coverage == registered.rule.min_day_item_share
    assert registered.rule.mde.z_confidence == registered.rule.z
    assert registered.tokens.estimate == registered.rule.estimate
    assert registered.sentinels.false_alarms_per_year == 0.01
    assert len(registered.statement.exclusions) == 3


def test_the_digest_is_over_the_bytes_of_the_file():
    data = EXAMPLE.read_bytes()
    assert parse(data, source="a").digest == "sha256:" + hashlib.sha256(data).hexdigest()
    assert parse(data + b"\n", source="a").digest != parse(data, source="a").digest


def test_every_key_is_required():
    one_line_each = list(re.finditer(r"(?m)^(\w+) = ((?!\[\n).)*\n", TEXT))
    assert len(one_line_each) > 35
    for match in one_line_each:
        without = TEXT[: match.start()] + TEXT[match.end() :]
        with pytest.raises(ConfigError, match=rf"^p\.toml: ([a-z_]+\.)?{match.group(1)} is required"):
            parse(without.encode(), source="p.toml")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("mode", '"strict"', "mode is 'strict', but must be one of canaryd, prereg"),
        ("baseline_days", "0", "grid.baseline_days is 0, but must be between 1 and 366"),
        ("baseline_days", "20.5", "grid.baseline_days is 20.5, but must be a whole number"),
        ("window_days", "true", "grid.window_days is true, but must be a whole number"),
        (
            "horizon_days",
            "39",
            "grid.horizon_days is 39, but a change takes a baseline and two windows, 40 days, so none could ever be",
        ),
        (
            "window_days",
            "1",
            "grid.window_days is 1, of which rule.min_usable_day_share asks for fewer than 2 days, and one day shows",
        ),
        ("confidence", "99", "rule.confidence is 99.0, but must be at least 0.5 and below 1 (99 % is 0.99)"),
        (
            "min_effect",
            "1.0",
            "rule.min_effect is 1.0, but must be above 0 and below 1 (it is a fraction: 0.03 is 3 points)",
        ),
        ("min_effect", "nan", "rule.min_effect is nan, but must be above 0 and below 1"),
        ("max_error_rate", "0", "rule.max_error_rate is 0.0, but must be above 0 and below 1"),
        ("min_item_share", "1.1", "rule.min_item_share is 1.1, but must be above 0 and at most 1 (it is a share)"),
        ("min_df", "0", "rule.min_df is 0.0, but must be between 1 and 1000"),
        ("did_confidence", "1", "control.did_confidence is 1.0, but must be at least 0.5 and below 1"),
        ("target", "8", "mde.target is 8.0, but must be above 0 and below 1"),
        ("min_change", '"10%"', "tokens.min_change is '10%', but must be a number"),
        ("low", "0.95", "headroom.low is 0.95, but must be below headroom.high = 0.9"),
        (
            "streams",
            '["score", "latency"]',
            "streams is ['score', 'latency'], but must name each stream once, of score, tokens, difference",
        ),
        ("streams", '["score", "score"]', "must name each stream once"),
        ("streams", '[["score"]]', "must name each stream once"),
        ("thetas", "[1, 3]", "early_warning.thetas is [1, 3], but must be a list of odds, each above 1"),
        ("thetas", "[true]", "must be a list of odds"),
        ("max_segment_days", "20", "early_warning.max_segment_days is 20, but must be between 21 and 3660"),
        ("min_replicates", "1", "sentinels.min_replicates is 1, but must be between 2 and 100"),
        ("q", "5", "localisation.q is 5.0, but must be above 0 and below 1"),
    ],
)
def test_a_bad_value_is_refused_with_its_line(key, value, message):
    pattern = rf"(?m)^{key} = (\[[^\n]*\]|[^#\n]+?)(?=\s*(#|$))"
    text, count = re.subn(pattern, lambda _: f"{key} = {value}", TEXT, count=1)
    assert count == 1
    with pytest.raises(ConfigError) as refused:
        parse(text.encode(), source="prereg.toml")
    assert str(refused.value).startswith(f"prereg.toml:{_line(key)}: ")
    assert message in str(refused.value)


def test_an_unknown_key_is_refused_and_the_known_ones_are_listed():
    text = TEXT.replace("min_df = 4", "min_df = 4\nmin_clusters = 5")
    line = _line("min_df") + 1
    with pytest.raises(ConfigError, match=rf"^p\.toml:{line}: rule\.min_clusters is unknown; allowed here: .*min_df"):
        parse(text.encode(), source="p.toml")
    with pytest.raises(ConfigError, match=r"^p\.toml: rules is unknown|^p\.toml:\d+: rules is unknown"):
        parse((TEXT + "\n[rules]\nx = 1\n").encode(), source="p.toml")


def test_a_statement_that_says_nothing_is_refused():
    text = re.sub(r"(?m)^publication = .*$", 'publication = " "', TEXT)
    with pytest.raises(ConfigError, match=r"statement\.publication is ' ', but must not be empty"):
        parse(text.encode(), source="p.toml")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("min_effect = ", "min_efect = ", "rule.min_efect is unknown; did you mean min_effect?"),
        ("[rule]", "[rulle]", "rulle is unknown; did you mean rule?"),
    ],
)
def test_a_misspelt_key_is_named_before_the_one_that_is_missing(old, new, said):
    with pytest.raises(ConfigError, match=rf"^p\.toml:\d+: {re.escape(said)}"):
        parse(TEXT.replace(old, new, 1).encode(), source="p.toml")


def test_a_key_of_a_provider_is_refused_and_not_repeated():
    text = TEXT.replace("min_effect = ", 'min_effect = "sk-proj-1" #', 1)
    with pytest.raises(ConfigError, match=r"^p\.toml:\d+: a literal key stands in this file") as refused:
        parse(text.encode(), source="p.toml")
    assert "sk-proj" not in str(refused.value)


def test_what_is_no_toml_is_refused_by_its_line():
    with pytest.raises(ConfigError, match=r"^p\.toml:1: this is not valid TOML"):
        parse(b"mode = canaryd\n", source="p.toml")
    with pytest.raises(ConfigError, match="byte 8 is not UTF-8 text; save the file as UTF-8"):
        parse(b'mode = "\xff"', source="p.toml")


def _panel(items, *, templates=None, control=None, information=0.1):
    clusters = {f"i{n:03d}": f"t{n % (templates or items)}" for n in range(items)}
    control = frozenset(clusters) if control is None else frozenset(list(clusters)[:control])
    return PlannedPanel(
        clusters, information=dict.fromkeys(clusters, information), controls={"control": control} if control else {}
    )


def test_a_good_plan_has_no_warning():
    assert check_plan(load(EXAMPLE), _panel(78)) == ()


@pytest.mark.parametrize(
    ("panel", "why"),
    [
        (_panel(4), "panel of 4 items in 4 clusters, not even if every item fell from 1 to 0 (too_few_clusters)"),
        (_panel(78, templates=4), "panel of 78 items in 4 clusters"),
        (_panel(78, templates=1), "in 1 clusters"),
        (PlannedPanel({}), "the panel has no item that is measured"),
    ],
)
def test_a_panel_on_which_nothing_could_be_declared_is_refused(panel, why):
    with pytest.raises(ConfigError, match=re.escape(why)):
        check_plan(load(EXAMPLE), panel)


def test_a_confidence_that_no_collapse_reaches_is_refused():
    with pytest.raises(ConfigError, match="the interval is wider than the whole scale"):
        check_plan(_with(("confidence", "0.999999999")), _panel(5))


def test_short_periods_warn_of_a_weak_day_leg():
    warnings = check_plan(_with(("window_days", "5")), _panel(400))
    assert [warning.split(", so")[0] for warning in warnings] == ["prereg.toml: grid.window_days is 5"]
    assert "4 days only" in warnings[0]
    assert check_plan(_with(("window_days", "5"), ("mode", '"prereg"')), _panel(400)) == ()


def test_a_control_that_runs_other_items_warns():
    (warning,) = check_plan(load(EXAMPLE), _panel(78, control=12))
    assert "control 'control' does not run 66 of the tracked arm's 78 items ('i012' first)" in warning


def test_no_control_warns_of_what_cannot_be_said():
    (warning,) = check_plan(load(EXAMPLE), _panel(78, control=0))
    assert "every change will be called unattributed, and the difference stream" in warning
    (quiet,) = check_plan(_with(("direction", '"drop"')), _panel(78, control=0))
    assert "difference stream" in quiet


def test_a_panel_too_small_for_the_target_warns_and_names_both_numbers():
    (warning,) = check_plan(load(EXAMPLE), _panel(20))
    assert "mde.target is 10 points, but the rule sees 11.6 points with the registered power" in warning
    blind = PlannedPanel(_panel(20).clusters, controls=_panel(20).controls)
    (worse,) = check_plan(load(EXAMPLE), blind)
    assert "but at worst, as not every item is calibrated, the rule sees 18.4 points" in worse


def test_reading_a_registration_loads_no_numpy():
    code = (
        "import sys; from pathlib import Path; from canaryd.prereg import load; load(Path(sys.argv[1]));"
        "sys.exit('numpy' in sys.modules or 'scipy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(EXAMPLE)], check=True)
