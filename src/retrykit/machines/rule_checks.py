"""What may be given to a rule, and to who takes rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeGuard, TypeVar

import attrs

from ..checks import whole
from ..errors import ConfigurationError
from ..times import Duration, plain, seconds, short
from .alerts import Severity, Terms
from .signals import BUCKET, BUCKETS, Judge

__all__ = ["check_rules"]

_NAME: Final = re.compile("[A-Za-z][A-Za-z0-9_.-]{0,63}")
_LARGEST: Final = 10**15

AnyRule = TypeVar("AnyRule", bound=Judge)


def hold(value: Duration) -> float:
    """Read how long a condition has to hold."""
    return seconds(value, "hold")


def clear_after(value: Duration) -> float:
    """Read how long it has to be gone."""
    return seconds(value, "clear_after")


def window(value: Duration) -> float:
    """Read a window: whole buckets, three at least, and no more than are kept."""
    window = seconds(value, "window")
    if window % BUCKET or not 3 * BUCKET <= window <= BUCKET * BUCKETS:
        raise ConfigurationError(
            f"window is {value!r}; allowed are multiples of {plain(BUCKET)} s, {short(3 * BUCKET)} to {short(BUCKET * BUCKETS)}"
        )
    return window


def primary(names: Iterable[str] | None) -> frozenset[str] | None:
    """Read the breakers that matter; None: all."""
    found = None if names is None else _names(names, "primary")
    if found is not None and not found:
        raise ConfigurationError(
            "primary is empty, so no breaker would matter; allowed are names of breakers, or None: all"
        )
    return found


def ignore(names: Iterable[str]) -> frozenset[str]:
    """Read the classes that do not matter."""
    return _names(names, "ignore")


def _names(names: Iterable[str], name: str) -> frozenset[str]:
    if isinstance(names, str):
        raise ConfigurationError(f"{name} is {names!r}; allowed is a list of names, such as [{names!r}]")
    if not isinstance(names, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        raise ConfigurationError(f"{name} is {names!r}; allowed is a list of names")
    found = tuple(names)
    for each in found:
        if not isinstance(each, str) or not each:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"{name} holds {each!r}; allowed are names, which are text and not empty")
    return frozenset(found)


def severity(value: Severity | str) -> Severity:
    """Read a severity."""
    try:
        return Severity(value)
    except ValueError:
        raise ConfigurationError(f"severity is {value!r}; allowed are 'page' and 'ticket'") from None


def is_name(_: object, attribute: attrs.Attribute[str], value: str) -> None:
    """Refuse what can be no name of a rule."""
    _check_name(value, attribute.name)


def _check_name(value: str, what: str) -> None:
    if not isinstance(value, str) or not _NAME.fullmatch(value):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"{what} is {value!r}; allowed are 1 to 64 letters, digits and any of '_.-', a letter first"
        )


def is_number(value: object) -> TypeGuard[float]:
    """Tell whether it is a number that can be calculated with."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _LARGEST


def is_share(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    """Refuse what is no share."""
    if not is_number(value) or not 0 < value <= 1:
        raise ConfigurationError(f"{attribute.name} is {value!r}; allowed are numbers > 0 and <= 1")


def at_least(least: float) -> Callable[[object, attrs.Attribute[Any], float], None]:
    """Return a validator of numbers."""

    def check(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
        if not is_number(value) or value < least:
            raise ConfigurationError(f"{attribute.name} is {value!r}; allowed are numbers >= {plain(least)}")

    return check


def is_count(_: object, attribute: attrs.Attribute[int], value: int) -> None:
    """Refuse what is no number of things."""
    whole(value, attribute.name)
    if not is_number(value):
        raise ConfigurationError(f"{attribute.name} is a number of more than 15 digits; allowed are smaller ones")


def is_at_most(other: str) -> Callable[[object, attrs.Attribute[Any], float], None]:
    """Return a validator of the limit where an alert is over: above the one where it fires the alert would flap."""

    def check(rule: object, attribute: attrs.Attribute[Any], value: float) -> None:
        most = getattr(rule, other)
        if value > most:
            raise ConfigurationError(
                f"{attribute.name} is {value!r}, above {other}, which is {most!r}: the alert would be over while it fires; "
                f"allowed is at most {other}"
            )

    return check


def check_rules(rules: Iterable[AnyRule]) -> tuple[AnyRule, ...]:
    """Return the rules that are given somewhere.

    Raises:
        ConfigurationError: it is no list of rules, or two of them have one name.
    """
    if isinstance(rules, (str, type)) or not isinstance(rules, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"rules is {rules!r}; allowed is a list of rules, for example [DeadLettersJump()]")
    found = dict[str, AnyRule]()
    for rule in rules:
        if isinstance(rule, type):
            raise ConfigurationError(
                f"a rule is the class {rule.__name__}; allowed is a rule made of it: {rule.__name__}()"
            )
        terms = getattr(rule, "terms", None)
        if not callable(getattr(rule, "judge", None)) or not isinstance(terms, Terms):
            raise ConfigurationError(f"a rule is {rule!r}; allowed are rules such as DeadLettersJump()")
        _check_name(terms.name, "the name of a rule")
        if terms.name in found:
            raise ConfigurationError(f"two rules are called {terms.name!r}; give each a name of its own: name=")
        found[terms.name] = rule
    return tuple(found.values())
