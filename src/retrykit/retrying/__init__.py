"""Retry a call in the process that makes it."""

from .decorator import OnError, retry

__all__ = ["OnError", "retry"]
