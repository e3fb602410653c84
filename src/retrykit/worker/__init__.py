"""What a process needs that works on messages: turns by which a suspect runs alone, and an end at once when something broke."""

from __future__ import annotations

from .crash import ExitOnCrash, exit_on_crash
from .isolation import AsyncIsolation, Isolation

__all__ = ["AsyncIsolation", "ExitOnCrash", "Isolation", "exit_on_crash"]
