"""Retry a call in the process that makes it, alone or together with the other parts."""

from .decorator import OnError, Stop, retry

__all__ = ["OnError", "Stop", "retry"]
