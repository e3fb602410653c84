"""Policy matrices in TOML: read, written, and described by a JSON Schema.

A file holds one matrix; in a ``pyproject.toml`` it is the table ``[tool.retrykit]``::

    max_attempts = 12
    max_age = "3d"

    [classes]                       # the application's own classes, with their groups
    card_declined = "permanent_recipient"

    [policies.network_timeout]      # a class or a group
    max_retries = 5
    backoff = ["5s", "15s", "30s", "1m", "2m"]

    [policies.transient_infrastructure]
    max_retries = 5
    backoff = { kind = "exponential", base = "5s", cap = "1h", jitter = "quarter" }

    [policies.card_declined]
    on_exhausted = "mark_bounced"

The same file may hold the classifier's rules (`retrykit.classification.load_rules`), and the `url` of the backend that commands
work on. What is written here is read back as an equal matrix. An error names the file, the key, the value seen and what is allowed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from ..codec import JSON
from ..decision import Action
from ..errors import ConfigurationError
from ..failure import BUILT_IN_CLASSES, ErrorClass, ErrorGroup
from ..tables import Table, as_table, at, check_keys, load_table, nearest, own_classes
from ..times import Duration
from .backoff import (
    Backoff,
    Decorrelated,
    Delays,
    Exponential,
    Jitter,
    Linear,
    as_jitter,
    constant,
    decorrelated,
    delays,
    exponential,
    linear,
    plus_minus,
    upward,
)
from .matrix import PolicyKey, PolicyMatrix, RetryPolicy

__all__ = ["from_dict", "load", "matrix_schema", "to_dict", "to_toml"]

_LIMITS: Final = ("max_attempts", "max_age", "max_retry_after", "on_unknown", "verify_backoff")
_POLICY: Final = ("max_retries", "backoff", "on_exhausted", "throttle", "audit")
_BACKOFFS: Final[Mapping[str, tuple[str, ...]]] = {
    "delays": ("delays", "jitter"),
    "constant": ("delay", "jitter"),
    "linear": ("base", "step", "cap", "jitter"),
    "exponential": ("base", "factor", "cap", "jitter"),
    "decorrelated": ("base", "cap"),
}
_JITTERS: Final = ("none", "full", "equal", "quarter")


def load(path: str | os.PathLike[str]) -> PolicyMatrix:
    """Read a matrix from a TOML file; from the table ``[tool.retrykit]`` if it is a ``pyproject.toml``.

    Raises:
        ConfigurationError: the file cannot be read, is not TOML, or holds a value that is not allowed.
    """
    table, where = load_table(path, "the matrix")
    return from_dict(table, where=where)


def from_dict(table: Table, *, where: str = "the matrix") -> PolicyMatrix:
    """Make a matrix of a table, as TOML or JSON gives it.

    Args:
        table: see the module.
        where: what to call it in errors.

    Raises:
        ConfigurationError: a key is unknown, or a value is not allowed.
    """
    others = ("rules", "url")  # for the classifier and for the command line
    check_keys(table, (*_LIMITS, "classes", "policies", "default", *others), where)
    classes = own_classes(table, where)
    policies: dict[PolicyKey, RetryPolicy] = {}
    for name, policy in as_table(table.get("policies", {}), f"{where}: policies").items():
        key = _key(name, classes, where)
        policies[key] = _policy(policy, f"{where}: policies.{name}")
    default = table.get("default")
    with at(where):
        limits: dict[str, Any] = {name: table[name] for name in ("max_attempts", "max_retry_after") if name in table}
        if "max_age" in table:
            limits["max_age"] = _max_age(table["max_age"])
        if "on_unknown" in table:
            limits["on_unknown"] = _action(table["on_unknown"], "on_unknown")
        if "verify_backoff" in table:
            limits["verify_backoff"] = _backoff(table["verify_backoff"], "verify_backoff")
        return PolicyMatrix(
            policies,
            default=None if default is None else _policy(default, "default"),
            **limits,
        )


def _max_age(value: object) -> Duration | None:
    if value is False:
        return None
    if value is True or value == 0:
        raise ConfigurationError(f"max_age is {value!r}; allowed are a duration > 0, and false for no limit")
    return cast("Duration", value)


def _key(name: str, classes: Mapping[str, ErrorClass], where: str) -> PolicyKey:
    if name in list(ErrorGroup):
        return ErrorGroup(name)
    key = classes.get(name) or BUILT_IN_CLASSES.get(name)
    if key is None:
        hint = nearest(name, (*ErrorGroup, *BUILT_IN_CLASSES, *classes))
        raise ConfigurationError(
            f"{where}: policies.{name} is neither a class nor a group{hint}; an application's own class is listed in [classes]"
        )
    return key


_FINAL: Final = tuple(action for action in Action if action not in (Action.RETRY, Action.VERIFY))


def _action(value: object, where: str, allowed: Sequence[Action] = tuple(Action)) -> Action:
    if value not in allowed:
        raise ConfigurationError(f"{where} is {value!r}{nearest(value, allowed)}")
    return Action(cast("str", value))


def _policy(value: object, where: str) -> RetryPolicy:
    table = as_table(value, where)
    check_keys(table, _POLICY, where)
    fields: dict[str, Any] = {"max_retries": 0, **table}
    for name in ("throttle", "audit"):
        if not isinstance(fields.get(name, False), bool):
            raise ConfigurationError(f"{where}.{name} is {fields[name]!r}; allowed are true and false")
    if "on_exhausted" in table:
        fields["on_exhausted"] = _action(table["on_exhausted"], f"{where}.on_exhausted", _FINAL)
    if "backoff" in table:
        fields["backoff"] = _backoff(table["backoff"], f"{where}.backoff")
    elif isinstance(fields["max_retries"], int) and fields["max_retries"] is not True and fields["max_retries"] > 0:
        raise ConfigurationError(f'{where} has retries and no backoff; give it one, for example ["1m", "15m"]')
    with at(where):
        return RetryPolicy(**fields)


def _backoff(value: object, where: str) -> Backoff:
    with at(where):
        if isinstance(value, list):
            return delays(*cast("list[Duration]", value))
        if not isinstance(value, Mapping):
            return constant(cast("Duration", value))
        table = cast("Table", value)
        kind = table.get("kind")
        if not isinstance(kind, str) or kind not in _BACKOFFS:
            raise ConfigurationError(f"kind is {kind!r}{nearest(kind, _BACKOFFS)}")
        check_keys(table, ("kind", *_BACKOFFS[kind]), f"a backoff of the kind {kind!r}")
        fields: dict[str, Any] = {name: item for name, item in table.items() if name != "kind"}
        if "jitter" in fields:
            fields["jitter"] = _jitter(fields["jitter"])
        first = _BACKOFFS[kind][0]
        if first not in fields:
            raise ConfigurationError(f"the kind {kind!r} needs {first!r}")
        if kind == "delays":
            rungs = fields.pop("delays")
            if not isinstance(rungs, list):
                raise ConfigurationError(f"delays is {rungs!r}; allowed is a list of durations")
            return delays(*cast("list[Duration]", rungs), **fields)
        return _MAKERS[kind](fields.pop(first), **fields)


_MAKERS: Final[Mapping[str, Callable[..., Backoff]]] = {
    "constant": constant,
    "linear": linear,
    "exponential": exponential,
    "decorrelated": decorrelated,
}


def _jitter(value: object) -> Jitter:
    if isinstance(value, Mapping):
        table = cast("Table", value)
        if len(table) == 1 and next(iter(table)) in ("upward", "plus_minus"):
            ((name, share),) = table.items()
            return {"upward": upward, "plus_minus": plus_minus}[name](cast("float", share))
    elif value in _JITTERS:
        return as_jitter(value)
    allowed = ", ".join(repr(name) for name in _JITTERS)
    raise ConfigurationError(
        f"jitter is {value!r}; allowed are {allowed}, {{ upward = 0.1 }} and {{ plus_minus = 0.1 }}"
    )


_STEPS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def _duration(seconds: float) -> JSON:
    """Return a duration as people write it, where that is exact."""
    for unit, size in _STEPS:
        if 0 < seconds < 1e12 and seconds % size == 0:  # text holds twelve digits
            return f"{seconds // size:.0f}{unit}"
    return seconds


def _backoff_table(backoff: Backoff, where: str) -> JSON:
    jitter = backoff.jitter
    spread: JSON = jitter.name
    if jitter.name == "upward":
        spread = {"upward": jitter.spread}
    elif jitter.name == "plus_minus":
        spread = {"plus_minus": jitter.spread / 2}
    match backoff:
        case Delays(rungs):
            return {"kind": "delays", "delays": [_duration(rung) for rung in rungs], "jitter": spread}
        case Linear(base, step, cap):
            return {
                "kind": "linear",
                "base": _duration(base),
                "step": _duration(step),
                "cap": _duration(cap),
                "jitter": spread,
            }
        case Exponential(base, factor, cap):
            return {
                "kind": "exponential",
                "base": _duration(base),
                "factor": factor,
                "cap": _duration(cap),
                "jitter": spread,
            }
        case Decorrelated(base, cap):
            return {"kind": "decorrelated", "base": _duration(base), "cap": _duration(cap)}
        case _:
            raise ConfigurationError(f"{where} is {backoff}, which only code can say; TOML holds the named backoffs")


def _policy_table(policy: RetryPolicy, where: str) -> dict[str, JSON]:
    table: dict[str, JSON] = {"max_retries": policy.max_retries}
    if policy.max_retries or policy.backoff != RetryPolicy.never().backoff:
        table["backoff"] = _backoff_table(policy.backoff, f"{where}.backoff")
    table["on_exhausted"] = policy.on_exhausted.value
    for name in ("throttle", "audit"):
        if getattr(policy, name):
            table[name] = True
    return table


def to_dict(matrix: PolicyMatrix) -> dict[str, JSON]:
    """Return a matrix as a table; `from_dict` makes an equal one of it.

    Raises:
        ConfigurationError: a backoff is a function, which only code can say.
    """
    own = {str(key): key.group.value for key in matrix.policies if isinstance(key, ErrorClass) and not key.is_built_in}
    table: dict[str, JSON] = {
        "max_attempts": matrix.max_attempts,
        "max_age": False if matrix.max_age is None else _duration(matrix.max_age),
        "max_retry_after": _duration(matrix.max_retry_after),
        "on_unknown": matrix.on_unknown.value,
        "verify_backoff": _backoff_table(matrix.verify_backoff, "verify_backoff"),
    }
    if own:
        table["classes"] = own
    if matrix.default is not None:
        table["default"] = _policy_table(matrix.default, "default")
    table["policies"] = {str(key): _policy_table(policy, f"policies.{key}") for key, policy in matrix.policies.items()}
    return table


def to_toml(matrix: PolicyMatrix) -> str:
    """Return a matrix as TOML; `PolicyMatrix.from_toml` makes an equal one of it.

    Raises:
        ConfigurationError: as for `to_dict`.
    """
    table = to_dict(matrix)
    lines = [f"{name} = {_toml(table[name])}" for name in _LIMITS]
    for name in ("classes", "default"):
        if name in table:
            lines += ["", f"[{name}]", *_toml_lines(cast("Mapping[str, JSON]", table[name]))]
    for name, policy in cast("Mapping[str, Mapping[str, JSON]]", table["policies"]).items():
        lines += ["", f"[policies.{_toml_key(name)}]", *_toml_lines(policy)]
    return "\n".join(lines) + "\n"


def _toml_lines(table: Mapping[str, JSON]) -> list[str]:
    return [f"{_toml_key(name)} = {_toml(value)}" for name, value in table.items()]


def _toml_key(name: str) -> str:
    return f'"{name}"' if "." in name else name  # class names hold nothing else that TOML would mind


def _toml(value: JSON) -> str:
    """Return a value as TOML writes it; the values here are plain, and their text needs no escapes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_toml(item)}" for name, item in value.items()) + " }"
    return repr(value)


_DURATION: Final = r"^\s*(\d{1,12}(\.\d{1,9})? *([mM]?[sS]|[mMhHdDwW]) *){1,6}\s*$"
"""What `retrykit.times.seconds` reads."""


def matrix_schema() -> dict[str, JSON]:
    """Return the JSON Schema (2020-12) of a matrix in TOML, for editors that complete and check it."""
    duration: JSON = {
        "description": 'seconds, or text such as "500ms", "30s", "15m", "1h30m", "3d"',
        "oneOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": _DURATION}],
    }
    reference: JSON = {"$ref": "#/$defs/duration"}
    jitter: JSON = {
        "oneOf": [
            {"enum": list(_JITTERS)},
            *(
                {
                    "type": "object",
                    "properties": {name: {"type": "number", "minimum": 0, "maximum": 1}},
                    "required": [name],
                    "additionalProperties": False,
                }
                for name in ("upward", "plus_minus")
            ),
        ]
    }
    special: dict[str, JSON] = {
        "delays": {"type": "array", "items": reference, "minItems": 1},
        "factor": {"type": "number", "minimum": 1},
        "jitter": {"$ref": "#/$defs/jitter"},
    }
    kinds: list[JSON] = []
    for kind, names in _BACKOFFS.items():
        properties: dict[str, JSON] = {"kind": {"const": kind}}
        for name in names:
            properties[name] = special.get(name, reference)
        kinds.append(
            {"type": "object", "properties": properties, "required": ["kind", names[0]], "additionalProperties": False}
        )
    backoff: JSON = {"oneOf": [reference, {"type": "array", "items": reference, "minItems": 1}, *kinds]}
    final: JSON = {"enum": [action.value for action in _FINAL]}
    policy: JSON = {
        "type": "object",
        "properties": {
            "max_retries": {"type": "integer", "minimum": 0},
            "backoff": {"$ref": "#/$defs/backoff"},
            "on_exhausted": final,
            "throttle": {"type": "boolean"},
            "audit": {"type": "boolean"},
        },
        "additionalProperties": False,
        "if": {"properties": {"max_retries": {"type": "integer", "minimum": 1}}, "required": ["max_retries"]},
        "then": {"required": ["backoff"]},
    }
    named: dict[str, JSON] = {name: {"$ref": "#/$defs/policy"} for name in (*ErrorGroup, *BUILT_IN_CLASSES)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "retrykit policy matrix",
        "type": "object",
        "properties": {
            "max_attempts": {"type": "integer", "minimum": 1},
            "max_age": {"oneOf": [{"const": False}, {"$ref": "#/$defs/duration", "not": {"const": 0}}]},
            "max_retry_after": {"$ref": "#/$defs/duration", "not": {"const": 0}},
            "on_unknown": {"enum": [action.value for action in Action]},
            "verify_backoff": {"$ref": "#/$defs/backoff"},
            "classes": {"type": "object", "additionalProperties": {"enum": [group.value for group in ErrorGroup]}},
            "default": {"$ref": "#/$defs/policy"},
            "policies": {
                "type": "object",
                "properties": named,
                "additionalProperties": {"$ref": "#/$defs/policy"},
            },
            "rules": {"type": "array", "items": {"type": "object", "required": ["name", "class"]}},
            "url": {"type": "string", "minLength": 1},
        },
        "additionalProperties": False,
        "$defs": {"duration": duration, "jitter": jitter, "backoff": backoff, "policy": policy},
    }
