"""What a grader refuses when a panel is loaded, with the sentence that says why."""

from __future__ import annotations

import pytest

from canaryd import graders
from canaryd.records import GraderSpec, Item, JsonValue

SCHEMA: JsonValue = {"type": "object"}


@pytest.mark.parametrize(
    ("grader", "target", "options", "sentence"),
    [
        ("exakt", "a", {}, "does not exist; use one of exact"),
        ("exact", "a", {"tolerance": 1}, "has no option 'tolerance'; it takes"),
        ("exact", "a", {"ignore_case": "yes"}, "'ignore_case' of grader exact must be true or false"),
        ("exact", "a", {"fallbacks": ["tag"]}, "must be a list out of boxed, line, fence, whole"),
        ("exact", "a", {"fallbacks": ["line", "line"]}, "must be a list out of"),
        ("exact", "", {}, "the target must be a string"),
        ("exact", ["a", 1], {}, "the target must be a string"),
        ("exact", "`", {"strip": "`"}, "not empty once normalised"),
        ("edit", 5, {}, "the target must be a string"),
        ("edit", "a" * 10_001, {}, "longer than 10000"),
        ("edit", "a", {"pass_at": 0}, "a number in (0, 1]"),
        ("choice", "E", {}, "one of the letters ABCD"),
        ("choice", "A", {"labels": "AA"}, "different capital letters"),
        ("number", True, {}, "the target must be a number"),
        ("number", "many", {}, "the target must be a number"),
        ("number", 5, {"abs_tol": -1}, "a number >= 0"),
        ("number", 5, {"percent": "both"}, '"fraction"'),
        ("digits", 1.5, {}, "the target must be an integer"),
        ("digits", "1.5", {}, "the target must be an integer"),
        ("constraints", "a", {}, "needs the option 'checks'"),
        ("constraints", "a", {"checks": []}, "'checks' of grader constraints must be a list"),
        ("constraints", "a", {"checks": [{"kind": "rhymes"}]}, "'kind' is one of"),
        ("constraints", "a", {"checks": [{"kind": "words", "exactly": 1}]}, "unknown argument 'exactly'"),
        ("constraints", "a", {"checks": [{"kind": "words"}]}, "the check words needs"),
        ("constraints", "a", {"checks": [{"kind": "occurs", "max": 1}]}, "the check occurs needs"),
        ("constraints", "a", {"checks": [{"kind": "words", "max": -1}]}, "no count"),
        ("constraints", "a", {"checks": [{"kind": "ends_with", "text": ""}]}, "no text"),
        ("constraints", "A", {"checks": [{"kind": "lowercase"}]}, "it fails lowercase"),
        ("constraints", "", {"checks": [{"kind": "lowercase"}]}, "must be an example"),
        ("json_schema", {}, {}, "needs the option 'schema'"),
        ("json_schema", {}, {"schema": {"pattern": "(a+)+"}}, "the keyword 'pattern' is not among"),
        ("json_schema", {}, {"schema": {"properties": {"a": {"$ref": "#"}}}}, "the keyword '$ref'"),
        ("json_schema", {}, {"schema": {"items": {"uniqueItems": True}}}, "the keyword 'uniqueItems'"),
        ("json_schema", {}, {"schema": {"type": "objekt"}}, "the option 'schema' is refused"),
        ("json_schema", [], {"schema": SCHEMA}, "the target does not fit the schema"),
        ("json_schema", {}, {"schema": SCHEMA, "compare": "some"}, '"fields"'),
        ("regex", "a", {"pattern": "("}, "no RE2 pattern"),
        ("regex", "aa", {"pattern": "(a)\\1"}, "no RE2 pattern"),
        ("regex", "b", {"pattern": "a"}, "must be an example"),
        ("code", {"tests": []}, {"entry": "f"}, "the target must be"),
        ("code", {"solution": "f = 1", "tests": []}, {"entry": "f"}, "the target must be"),
        ("code", {"solution": "f = 1", "tests": [{"args": 1, "returns": 1}]}, {"entry": "f"}, "the target must be"),
        ("code", {}, {"entry": "class"}, "the name of the function"),
    ],
)
def test_an_item_that_cannot_be_graded_is_refused(
    grader: str, target: JsonValue, options: dict[str, JsonValue], sentence: str
) -> None:
    item = Item("i", family="f", cluster="c", prompt="?", target=target, grader=GraderSpec(grader, options))

    complaint = graders.complaint(item)

    assert complaint is not None
    assert sentence in complaint
