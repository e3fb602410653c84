"""Run it in production: stop gracefully, tell the orchestrator how it is, and a worker for those who have no loop of their own."""

from ..open_claims import HandedBack
from .report import ShutdownReport
from .shutdown import GracefulShutdown

__all__ = ["GracefulShutdown", "HandedBack", "ShutdownReport"]
