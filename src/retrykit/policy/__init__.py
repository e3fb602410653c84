"""Policies: which class of failure is retried how often, after which delays, and what happens in the end."""

from .backoff import Backoff, Jitter, Rng, constant, delays, exponential, upward
from .matrix import EMAIL_MATRIX, PolicyMatrix, RetryPolicy

__all__ = [
    "EMAIL_MATRIX",
    "Backoff",
    "Jitter",
    "PolicyMatrix",
    "RetryPolicy",
    "Rng",
    "constant",
    "delays",
    "exponential",
    "upward",
]
