"""Exception classes as libraries have them that are not installed."""

from __future__ import annotations

from typing import Any

KNOWN: dict[str, type[Exception]] = {}


def foreign(name: str, *bases: type | str, **attributes: Any) -> type[Exception]:
    """Make the class that a library defines under a qualified name; bases that are names were made so before."""
    module, _, cls = name.rpartition(".")
    found = tuple(KNOWN[base] if isinstance(base, str) else base for base in bases) or (Exception,)
    KNOWN[name] = type(cls, found, {"__module__": module} | attributes)
    return KNOWN[name]
