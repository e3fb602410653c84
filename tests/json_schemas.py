"""Hypothesis strategies for what a JSON Schema allows: the keywords that the schemas of retrykit use, and no others."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from datetime import datetime

import jsonschema
from hypothesis import strategies as st

from retrykit.testing.strategies import json_values

_STRUCTURE = {"type", "enum", "const", "anyOf", "allOf", "if", "then", "not", "$ref", "$defs", "required", "properties"}
_LIMITS = {"additionalProperties", "items", "minimum", "maximum", "pattern", "format"}
_NOTES = {"$schema", "$id", "title", "description"}


def documents(schema):
    """Values that a schema allows, those with names it does not know included."""
    jsonschema.Draft202012Validator.check_schema(schema)
    return _values(schema, schema).filter(jsonschema.Draft202012Validator(schema).is_valid)


def _values(schema, root):
    """The strategy of a schema, made once: to make it again for every value drawn costs more than all the rest."""
    return _made(json.dumps(schema, sort_keys=True), json.dumps(root, sort_keys=True))


@functools.cache
def _made(schema_text, root_text):
    schema, root = json.loads(schema_text), json.loads(root_text)
    unknown = set(schema) - _STRUCTURE - _LIMITS - _NOTES
    assert not unknown, f"teach this file the keywords {unknown}"
    schema = _resolved(schema, root)
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([_values(branch, root) for branch in schema["anyOf"]])
    kinds = schema["type"]
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return st.one_of([_KINDS[kind](schema, root) for kind in kinds])


def _resolved(schema, root):
    """The schema with what it refers to; what it says itself wins."""
    while "$ref" in schema:
        place = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            place = place[step]
        schema = {**place, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def _strings(schema, root):
    strings = st.text(max_size=20)
    if "pattern" in schema:
        strings = st.from_regex(schema["pattern"], fullmatch=True)
    if schema.get("format") == "date-time":
        strings = strings.filter(_is_instant)
    forbidden = schema.get("not", {}).get("enum", ())
    return strings.filter(lambda text: text not in forbidden)


def _is_instant(text):
    """What the pattern of a format cannot say: whether the month has that day."""
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _numbers(schema, root):
    return st.floats(schema.get("minimum"), schema.get("maximum"), allow_nan=False, allow_infinity=False)


def _integers(schema, root):
    """A whole number may be written as 4.0: to JSON Schema, as to JSON, it is the same number."""
    whole = st.integers(schema.get("minimum"), schema.get("maximum"))
    return whole | whole.filter(lambda number: number == float(number)).map(float)


def _arrays(schema, root):
    return st.lists(_values(schema["items"], root) if "items" in schema else json_values, max_size=2)


@st.composite
def _objects(draw, schema, root):
    properties = dict(schema.get("properties", {}))
    required = set(schema.get("required", ()))
    for part in schema.get("allOf", ()):
        condition = _resolved(part, root)
        if "anyOf" in condition:
            _overlay(properties, draw(st.sampled_from(condition["anyOf"])))
        elif draw(st.booleans()):  # else the filter sees to it
            _overlay(properties, condition["if"])
            _overlay(properties, condition["then"])
            required |= set(condition["if"]["required"])
    fields = {name: _values(properties[name], root) for name in properties}
    optional = {name: values for name, values in fields.items() if name not in required}
    unknown = schema.get("additionalProperties")
    other = json_values if unknown is None else _values(unknown, root)
    return {
        **draw(st.dictionaries(st.text(max_size=9), other, max_size=3)),
        **draw(st.fixed_dictionaries({name: fields[name] for name in sorted(required)}, optional=optional)),
    }


def _overlay(properties, condition):
    for name, more in condition["properties"].items():
        properties[name] = {**properties.get(name, {}), **more}


_KINDS: Mapping[str, object] = {
    "null": lambda schema, root: st.none(),
    "boolean": lambda schema, root: st.booleans(),
    "string": _strings,
    "number": _numbers,
    "integer": _integers,
    "array": _arrays,
    "object": _objects,
}
