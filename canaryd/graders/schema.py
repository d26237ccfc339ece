"""The `json_schema` grader: a JSON value that fits a schema and says what the target says."""

from __future__ import annotations

import json

from canaryd.graders import jsontext
from canaryd.graders.answers import extract
from canaryd.graders.base import Example, Grader, Option, Options, quoted, scored, unanswered
from canaryd.records import Grade, Item, JsonValue

#: Keywords whose checks take time linear in the reply (no pattern, no uniqueItems, no reference).
KEYWORDS = frozenset(
    {
        *("type", "enum", "const", "title", "description"),
        *("properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
    }
)


def _schema_complaint(schema: JsonValue) -> str | None:
    """Say why a schema cannot be used."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, dict):
        return "a schema must be an object"
    unknown = sorted(schema.keys() - KEYWORDS)
    if unknown:
        return f"the keyword {unknown[0]!r} is not among {', '.join(sorted(KEYWORDS))}"
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"{quoted(error.message)}"
    properties = schema.get("properties", {})
    inner = [*(properties.values() if isinstance(properties, dict) else ())]
    inner += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    return next((found for found in map(_schema_complaint, inner) if found), None)


def _judge(answer: str, item: Item) -> Grade:
    """Score the share of the target's fields that agree, 0 where the value does not fit the schema."""
    from jsonschema import Draft202012Validator

    try:
        value = jsontext.read(extract(answer, ("fence", "whole")) or "")
    except ValueError as error:
        return unanswered(f"no JSON ({quoted(str(error))})")
    schema = item.grader.options["schema"]
    if not isinstance(schema, dict):
        raise TypeError("the schema is not an object")
    if not Draft202012Validator(schema).is_valid(value):
        return scored(0.0, "does not fit the schema")
    if item.grader.options.get("compare") == "schema":
        return scored(1.0, "fits the schema")
    return scored(_agreement(value, item.target), "fits the schema")


def _agreement(value: JsonValue, target: JsonValue) -> float:
    """Return the share of keys on either side that agree; values other than objects agree as a whole."""
    if not (isinstance(value, dict) and isinstance(target, dict)):
        return float(jsontext.form(value) == jsontext.form(target))
    keys = value.keys() | target.keys()
    shared = value.keys() & target.keys()
    agreeing = sum(jsontext.form(value[key]) == jsontext.form(target[key]) for key in shared)
    return agreeing / len(keys) if keys else 1.0


def _target_complaint(target: JsonValue, options: Options) -> str | None:
    """Say why a schema or a target cannot be used."""
    from jsonschema import Draft202012Validator

    complaint = _schema_complaint(options["schema"])
    if complaint:
        return f"the option 'schema' is refused: {complaint}"
    schema = options["schema"]
    if isinstance(schema, dict) and not Draft202012Validator(schema).is_valid(target):
        return "the target does not fit the schema"
    return None


_SCHEMA: JsonValue = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
_ADA: JsonValue = {"name": "Ada", "age": 36}

SCHEMA = Grader(
    name="json_schema",
    version=1,
    summary="JSON that fits a schema; the score is the share of top-level fields that equal the target's.",
    options={
        "schema": Option(lambda value: isinstance(value, dict), "a JSON Schema of plain keywords", required=True),
        "compare": Option(
            lambda value: value in ("fields", "schema"),
            '"fields" (default: share of fields that agree) or "schema" (fitting is enough, the target is an example)',
        ),
    },
    target_complaint=_target_complaint,
    right_answer=lambda target, _: json.dumps(target),
    judge=_judge,
    examples=(
        Example(_ADA, '<answer>{"name": "Ada", "age": 36}</answer>', 1.0, options={"schema": _SCHEMA}),
        Example(_ADA, '<answer>{"age": 36.0, "name": "Ada"}</answer>', 1.0, options={"schema": _SCHEMA}),
        Example(
            _ADA, '<answer>\n```json\n{"name": "Ada", "age": 36}\n```\n</answer>', 1.0, options={"schema": _SCHEMA}
        ),
        Example(_ADA, '<answer>{"name": "Ada", "age": 37}</answer>', 0.5, options={"schema": _SCHEMA}),
        Example(_ADA, '<answer>{"name": "Ada", "age": "36"}</answer>', 0.0, options={"schema": _SCHEMA}),
        Example(_ADA, '<answer>{"name": "Ada"}</answer>', 0.0, options={"schema": _SCHEMA}),
        Example(
            _ADA, '<answer>{"name": "Bob", "age": 1}</answer>', 1.0, options={"schema": _SCHEMA, "compare": "schema"}
        ),
        Example([1, 2], "<answer>[1, 2]</answer>", 1.0, options={"schema": {"type": "array"}}),
        Example([1, 2], "<answer>[2, 1]</answer>", 0.0, options={"schema": {"type": "array"}}),
        Example(True, "<answer>1</answer>", 0.0, options={"schema": {}}),
        Example(_ADA, "<answer>{'name': 'Ada'}</answer>", 0.0, answered=False, options={"schema": _SCHEMA}),
        Example(_ADA, '<answer>{"age": NaN}</answer>', 0.0, answered=False, options={"schema": _SCHEMA}),
        Example(_ADA, '<answer>{"age": 1, "age": 2}</answer>', 0.0, answered=False, options={"schema": _SCHEMA}),
        Example(_ADA, '{"name": "Ada", "age": 36}', 0.0, answered=False, options={"schema": _SCHEMA}),
    ),
)
