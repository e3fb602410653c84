"""Run it in production: stop gracefully, tell the orchestrator how it is, and a worker for those who have no loop of their own."""

from __future__ import annotations

from ..open_claims import HandedBack
from .isolation import AsyncIsolation, Isolation
from .report import ShutdownReport
from .shutdown import GracefulShutdown

__all__ = ["AsyncIsolation", "GracefulShutdown", "HandedBack", "Isolation", "ShutdownReport"]
