"""Policies: which class of failure is retried how often, after which delays, and what happens in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .backoff import (
    Backoff,
    Jitter,
    Rng,
    constant,
    decorrelated,
    delays,
    exponential,
    fit,
    formula,
    linear,
    plus_minus,
    upward,
)

if TYPE_CHECKING:
    from .matrix import EMAIL_MATRIX, HTTP_API_MATRIX, PolicyMatrix, RetryPolicy

__all__ = [
    "EMAIL_MATRIX",
    "HTTP_API_MATRIX",
    "Backoff",
    "Jitter",
    "PolicyMatrix",
    "RetryPolicy",
    "Rng",
    "constant",
    "decorrelated",
    "delays",
    "exponential",
    "fit",
    "formula",
    "linear",
    "plus_minus",
    "upward",
]


def __getattr__(name: str) -> object:
    """Load the matrix on first use: who only waits needs no table of classes."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import matrix

    return getattr(matrix, name)
