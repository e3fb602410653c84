"""The application's own rules in TOML.

A file holds any number of rules, in the order in which they are asked; it may be the file that holds the policy matrix. In a
``pyproject.toml`` they are ``[[tool.retrykit.rules]]``::

    [classes]                       # the application's own classes, with their groups
    card_declined = "permanent_recipient"

    [[rules]]
    name = "shop.card_declined"
    class = "card_declined"
    provider = "payments"
    tokens = ["card_declined", "insufficient_funds"]

    [[rules]]
    name = "shop.warm_up"
    class = "provider_throttled"
    codes = [550]
    words = ["new sender limit"]
    retry_after = "1h"

The keys are the arguments of `Rule`, but `predicate`, which only code can say, and `class` for its `error_class`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, cast

from ..errors import ConfigurationError
from ..failure import BUILT_IN_CLASSES, ErrorClass
from ..tables import Table, as_table, at, check_keys, load_table, nearest, own_classes
from .rules import Rule

__all__ = ["load_rules", "rules_from_dict"]

_LISTS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "codes": int,
    "enhanced": str,
    "tokens": (str, int),
    "words": str,
    "also": str,
    "unless": str,
    "exceptions": str,
    "phases": str,
    "stages": str,
}
_WORDS: Final = ("name", "protocol", "provider", "outcome", "source")
_KEYS: Final = ("name", "class", *_LISTS, *_WORDS[1:], "code_class", "attribute", "retry_after")


def load_rules(path: str | os.PathLike[str]) -> tuple[Rule, ...]:
    """Read rules from a TOML file; from the table ``[tool.retrykit]`` if it is a ``pyproject.toml``.

    Returns:
        The rules in their order, for `ErrorClassifier(rules)`; none where the file holds none.

    Raises:
        ConfigurationError: the file cannot be read, is not TOML, or holds a rule that is not allowed.
    """
    table, where = load_table(path, "the rules")
    return rules_from_dict(table, where=where)


def rules_from_dict(table: Table, *, where: str = "the rules") -> tuple[Rule, ...]:
    """Make rules of a table, as TOML or JSON gives it.

    Args:
        table: see the module; keys other than ``rules`` and ``classes`` are not looked at.
        where: what to call it in errors.

    Raises:
        ConfigurationError: a key of a rule is unknown, a value is not allowed, or two rules have one name.
    """
    classes = own_classes(table, where)
    rows = table.get("rules", [])
    if not isinstance(rows, list):
        raise ConfigurationError(f"{where}: rules is {rows!r}; allowed is a list of tables: [[rules]]")
    rules: dict[str, Rule] = {}
    for number, row in enumerate(cast("list[object]", rows), 1):
        place = f"{where}: rule {number}"
        rule = _rule(as_table(row, place), classes, place)
        if rule.name in rules:
            raise ConfigurationError(f"{place} is called {rule.name!r}, as is one before it; give it a name of its own")
        rules[rule.name] = rule
    return tuple(rules.values())


def _rule(row: Table, classes: dict[str, ErrorClass], where: str) -> Rule:
    check_keys(row, _KEYS, where)
    for key in ("name", "class"):
        if key not in row:
            raise ConfigurationError(f"{where} has no {key}")
    where = f"{where} ({row['name']!r})"
    fields: dict[str, Any] = {key: value for key, value in row.items() if key != "class"}
    for key, kinds in _LISTS.items():
        if key in row:
            fields[key] = _list(row[key], kinds, f"{where}: {key}")
    for key in _WORDS:
        if not isinstance(row.get(key, ""), str):
            raise ConfigurationError(f"{where}: {key} is {row[key]!r}; allowed is text")
    if "attribute" in row:
        fields["attribute"] = _attribute(row["attribute"], f"{where}: attribute")
    with at(where):
        return Rule(error_class=_class(row["class"], classes), **fields)


def _class(name: object, classes: dict[str, ErrorClass]) -> ErrorClass:
    found = (classes.get(name) or BUILT_IN_CLASSES.get(name)) if isinstance(name, str) else None
    if found is None:
        hint = nearest(name, (*BUILT_IN_CLASSES, *classes))
        raise ConfigurationError(f"class is {name!r}{hint}; an application's own class is listed in [classes]")
    return found


def _list(value: object, kinds: type | tuple[type, ...], where: str) -> list[object]:
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    if any(isinstance(item, bool) or not isinstance(item, kinds) for item in items):
        names = " or ".join(
            "whole numbers" if kind is int else "text" for kind in (kinds if isinstance(kinds, tuple) else (kinds,))
        )
        raise ConfigurationError(f"{where} is {value!r}; allowed is {names}, or a list of such")
    return items


def _attribute(value: object, where: str) -> tuple[str, tuple[object, ...]]:
    table = as_table(value, where)
    check_keys(table, ("name", "values"), where)
    name, values = table.get("name"), table.get("values")
    if not isinstance(name, str) or not isinstance(values, list):
        raise ConfigurationError(f'{where} is {value!r}; allowed is {{ name = "errno", values = [110] }}')
    return name, tuple(cast("list[object]", values))
