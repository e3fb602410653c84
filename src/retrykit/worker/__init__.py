"""What a process needs that works on messages: so far, turns by which a suspect runs alone."""

from __future__ import annotations

from .isolation import AsyncIsolation, Isolation

__all__ = ["AsyncIsolation", "Isolation"]
