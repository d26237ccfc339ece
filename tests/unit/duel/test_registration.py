"""The plan of a duel: every key is known or refused, and it must be able to decide."""

import re

import pytest

from canaryd.duel.model import Question
from canaryd.duel.registration import bind, parse_plan, warnings_of
from canaryd.errors import ConfigError
from canaryd.resources import resource

EXAMPLE = resource("examples/duel/duel.toml").read_text()


def parsed(*changes):
    text = EXAMPLE
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return parse_plan(text.encode(), source="duel.toml")


def questions(**families):
    return [Question(f"{name}-{n}", name, f"{name} {n}?") for name, size in families.items() for n in range(size)]


def test_the_example():
    plan = parsed()
    assert [judge.identity for judge in plan.judges] == ["openai:judge-one:1", "openai:judge-two:1"]
    assert (plan.substrates[0].kind, plan.substrates[0].target) == ("python", ("canaryd.duel.example:search_lines",))
    assert plan.thresholds.max_unjudged_share == 0.05
    assert plan.credentials.files == {"judge": "judge-key.txt"}


def test_every_kind_of_substrate_and_prices():
    old = 'kind = "python"\nentry = "canaryd.duel.example:search_lines"'
    http = 'kind = "http"\nurl = "http://h/x"\nquery_field = "q"\ntext_path = "r.0.text"\ncredential = "judge"'
    substrate = parsed((old, http)).substrates[0]
    assert (substrate.target, substrate.query_field, substrate.text_path) == (("http://h/x",), "q", "r.0.text")
    assert parsed((old, 'kind = "command"\ncommand = ["./s", "-n"]')).substrates[0].target == ("./s", "-n")
    prices = (
        "concurrency = 4\n\n[[judge]]",
        "concurrency = 4\nusd_per_million = { input = 1, output = 4 }\n\n[[judge]]",
    )
    assert parsed(prices).judges[0].usd_per_million == {"input": 1.0, "output": 4.0}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("min_gap = 0.20 ", "", "threshold.min_gap is required"),
        ("min_gap = 0.20", "min_gap = 20", "threshold.min_gap is 20.0, but must be above 0 and at most 1"),
        ("retrieval_tokens = 300", "retrieval_tokens = 0", "duel.toml:6: retrieval_tokens is 0"),
        ("bootstrap_draws", "bootstrap_draw", "threshold.bootstrap_draw is unknown; did you mean bootstrap_draws?"),
        ('name = "doc', 'colour = "x"\nname = "doc', "colour is unknown"),
        ("compare = 0.2", "compare = 0.3", "weights add up to 1.1, but must add up to 1"),
        ("compare = 0.2", 'compare = "0.2"', "weights.compare is '0.2'"),
        ('family = "second-family"', 'family = "first-family"', "must be of different families"),
        ('model = "judge-two"', 'model = "judge-one"', "they must be two"),
        ('id = "sections"', 'id = "lines"', "substrate.b.id is 'lines' like that of substrate a"),
        ('kind = "python"', 'kind = "magic"', "must be one of http, command, python"),
        ("example:search_lines", "example.search_lines", "must be written package.module:function"),
        ("timeout_s = 20", "timeout_s = 0", "substrate.a.timeout_s is 0.0"),
        ('judge_file = "judge-key.txt"', 'judge = "x"', "write allow_env, or NAME_file"),
        ('judge_file = "judge-key.txt"', 'judge_file = "sk-123456"', "a literal key stands in this file"),
        (
            '[[judge]]\nfamily = "second',
            '[[judges]]\nfamily = "second',
            "needs exactly two [[judge]] tables, there are 1",
        ),
    ],
)
def test_refusals(old, new, said):
    with pytest.raises(ConfigError) as refused:
        parsed((old, new))
    assert said in str(refused.value)
    assert str(refused.value).startswith("duel.toml")


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('credential = "judge"', 'credential = "sk-right-key-777"', 'sk-right-key-777"'),
        ("[[judge]]", '[[judge]]\noptions = { extra_body = { api_key = "sk-proj-1" } }', "sk-"),
        ("example:search_lines", "http://127.0.0.1/s?api_key=sk-proj-1", "sk-"),
        ("example:search_lines", "Authorization: Bearer sk-proj-1", "sk-"),
        (
            "timeout_s = 20",
            'timeout_s = 20\ncommand = ["curl", "-H", "Authorization: Bearer AKIAIOSFODNN7EXAMPLE"]',
            "AKIA",
        ),
        ("[weights]", '[weights]\nsk-proj-1 = "x"', "sk-"),
    ],
)
def test_a_key_anywhere_in_the_plan_is_refused_by_its_line_and_not_repeated(old, new, line):
    with pytest.raises(ConfigError) as refused:
        parsed((old, new))
    assert re.match(
        r"duel\.toml:\d+: a literal key stands in this file; put it in a file of its own", str(refused.value)
    )
    assert line not in str(refused.value)


def test_a_url_that_may_hold_a_key_is_not_repeated():
    http = 'kind = "http"\nurl = "http://127.0.0.1/s?token=hidden"\nquery_field = "q"\ntext_path = "t"\n'
    with pytest.raises(ConfigError, match=r"substrate\.a\.url must be http.* a query in it is refused") as refused:
        parsed(('kind = "python"\nentry = "canaryd.duel.example:search_lines"\n', http))
    assert "hidden" not in str(refused.value)


def test_what_is_no_text_or_no_toml():
    for data in (b"\xff", b"name = "):
        with pytest.raises(ConfigError, match=r"duel\.toml"):
            parse_plan(data, source="duel.toml")


@pytest.mark.parametrize(
    ("families", "said"),
    [
        ({"registration": 8, "duel": 8, "compare": 8, "more": 8}, "the family 'more' of fixture.jsonl has no weight"),
        ({"registration": 8, "duel": 8}, "weights.compare is 0.2, but fixture.jsonl holds 0 questions"),
        ({"registration": 8, "duel": 8, "compare": 1}, "holds 1 questions of that family, and an interval takes"),
        ({"registration": 80, "duel": 8, "compare": 13}, "101 questions and 0 anchors take 404 judge calls"),
    ],
)
def test_a_duel_that_could_not_decide_is_refused(families, said):
    with pytest.raises(ConfigError) as refused:
        bind(parsed(), [b"x"], questions=questions(**families), anchors=())
    assert said in str(refused.value)


def test_the_digest_is_over_every_file_and_small_families_warn():
    asked = questions(registration=8, duel=8, compare=7)
    duel = bind(parsed(), [b"plan", b"fixture", b""], questions=asked, anchors=())
    assert duel.digest != bind(parsed(), [b"plan", b"fixtur", b"e"], questions=asked, anchors=()).digest
    small, few, no_anchors = warnings_of(duel)
    assert "holds 23 questions; 60 and more" in few
    assert "family 'compare' has 7 questions" in small
    assert "there are no anchors" in no_anchors
