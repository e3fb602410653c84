"""Backoffs and jitters, to be given to policies and to `@retry`.

The names of `retrykit.policy.backoff`, where they are easily found.
"""

from .policy.backoff import (
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

__all__ = [
    "Backoff",
    "Jitter",
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
