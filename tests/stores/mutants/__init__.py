"""Stores that break one promise each. A class is a suite over a broken memory store, and says which tests catch it."""

from __future__ import annotations

import importlib

MODULES = [
    "circuits",
    "circuits_breakers",
    "circuits_probes",
    "claims",
    "claims_crashes",
    "claims_poison",
    "claims_reopening",
    "claims_settling",
    "dead_letters",
    "dead_letters_changes",
    "dead_letters_queries",
    "deliveries",
    "redrives",
    "retries",
    "retries_holding",
    "signals",
]


def mutants_in(module: str) -> dict[str, tuple[str, ...]]:
    """Return the tests that are to catch each broken store of a module, by the name of its class."""
    names = vars(importlib.import_module(f"tests.stores.mutants.{module}"))
    return {name: cls.caught_by for name, cls in names.items() if hasattr(cls, "caught_by")}
