"""Options that name something of the application's, as MODULE:NAME: it is imported, from the working directory as well."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Any, TypeVar

import click

from ..deadletter import Cipher

__all__ = ["cipher_option", "function_option"]

F = TypeVar("F", bound=Callable[..., Any])


def function_option(name: str, said: str) -> Callable[[F], F]:
    """Give a command an option for a function that is not asynchronous."""
    return click.option(name, metavar="MODULE:FUNCTION", callback=_function, help=said)


def cipher_option(command: F) -> F:
    """Give a command the option ``--cipher``, which arrives as `cipher`."""
    said = "What encrypted the payloads: a Cipher of yours."
    return click.option("--cipher", metavar="MODULE:OBJECT", callback=_cipher, help=said)(command)


def _imported(value: str, kind: str) -> object:
    sys.path.insert(0, "")
    try:
        return pkgutil.resolve_name(value)
    except (ImportError, AttributeError, ValueError) as error:
        raise click.BadParameter(f"{value!r} cannot be imported: {error}; allowed is {kind}") from None
    except Exception as error:  # noqa: BLE001 - whatever the application's module does when it is imported
        raise click.BadParameter(f"{value!r} cannot be imported: its module raised {type(error).__name__}") from None
    finally:
        sys.path.remove("")


def _function(_: click.Context, __: click.Parameter, value: str | None) -> object:
    if value is None:
        return None
    found = _imported(value, "a function as MODULE:FUNCTION")
    if not callable(found) or iscoroutinefunction(found) or isasyncgenfunction(found):
        raise click.BadParameter(f"{value!r} is {found!r}; allowed is a function that is not asynchronous")
    return found


def _cipher(context: click.Context, _: click.Parameter, value: str | None) -> object:
    if value is None:
        return None
    context.meta["retrykit.cipher"] = value
    found = _imported(value, "an object as MODULE:OBJECT")
    if not isinstance(found, Cipher):
        raise click.BadParameter(
            f"{value!r} is of type {type(found).__name__}; allowed is an object with name, encrypt and decrypt"
        )
    return found
