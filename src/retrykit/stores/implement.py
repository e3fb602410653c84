"""Make a store of a contract whose primitives are all made in one way, such as by calling another store."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, TypeVar, cast

__all__ = ["implement"]

S = TypeVar("S")


def implement(contract: Callable[[], S], kind: str, primitive: Callable[[str], Callable[..., Any]]) -> S:
    """Return a store of a contract.

    Args:
        contract: the class of a store, in either colour.
        kind: what the name of its class begins with.
        primitive: gives, by name, the function that is a primitive of the contract; it is called with the store first.
    """
    base = cast("abc.ABCMeta", contract)
    made = type(base)(f"{kind}{base.__name__}", (base,), {name: primitive(name) for name in base.__abstractmethods__})
    return cast("S", made())
