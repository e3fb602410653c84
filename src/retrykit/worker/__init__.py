"""Run it in production: stop gracefully, end at once when something broke, tell the orchestrator how it is, and a worker for those who have no loop of their own."""

from __future__ import annotations

from ..open_claims import HandedBack
from .crash import ExitOnCrash, exit_on_crash
from .health import Health
from .isolation import AsyncIsolation, Isolation
from .options import WorkerOptions
from .report import ShutdownReport
from .shutdown import GracefulShutdown
from .source import AsyncSource, Delivery, QueueSource, Source
from .worker import AsyncWorker, Worker

__all__ = [
    "AsyncIsolation",
    "AsyncSource",
    "AsyncWorker",
    "Delivery",
    "ExitOnCrash",
    "GracefulShutdown",
    "HandedBack",
    "Health",
    "Isolation",
    "QueueSource",
    "ShutdownReport",
    "Source",
    "Worker",
    "WorkerOptions",
    "exit_on_crash",
]
