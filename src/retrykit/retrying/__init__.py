"""Retry a call in the process that makes it."""

from .retry import OnError, retry

__all__ = ["OnError", "retry"]
