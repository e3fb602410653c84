"""A backend: the seven stores that live in one place."""

from __future__ import annotations

from typing import Protocol

from .circuits import AsyncCircuitStore, CircuitStore
from .claims import AsyncClaimStore, ClaimStore
from .dead_letters import AsyncDeadLetterStore, DeadLetterStore
from .deliveries import AsyncDeliveryStore, DeliveryStore
from .redrives import AsyncRedriveStore, RedriveStore
from .retries import AsyncRetryStore, RetryStore
from .signals import AsyncSignalStore, SignalStore

__all__ = ["AsyncBackend", "Backend"]


class Backend(Protocol):
    """Seven stores for synchronous callers; any object that has them is one."""

    @property
    def blocks(self) -> bool:
        """Whether a call may wait for a disk, a lock or a network."""
        ...

    @property
    def claims(self) -> ClaimStore:
        """The claim records."""
        ...

    @property
    def retries(self) -> RetryStore:
        """The retry queue."""
        ...

    @property
    def dead_letters(self) -> DeadLetterStore:
        """The dead letter queue."""
        ...

    @property
    def deliveries(self) -> DeliveryStore:
        """The delivery log."""
        ...

    @property
    def circuits(self) -> CircuitStore:
        """The pauses."""
        ...

    @property
    def redrives(self) -> RedriveStore:
        """The redrives and the audit log."""
        ...

    @property
    def signals(self) -> SignalStore:
        """What the fleet has met lately, and the alerts in force."""
        ...

    def close(self) -> None:
        """Close what the backend opened itself."""
        ...


class AsyncBackend(Protocol):
    """Seven stores for asynchronous callers; any object that has them is one."""

    @property
    def claims(self) -> AsyncClaimStore:
        """The claim records."""
        ...

    @property
    def retries(self) -> AsyncRetryStore:
        """The retry queue."""
        ...

    @property
    def dead_letters(self) -> AsyncDeadLetterStore:
        """The dead letter queue."""
        ...

    @property
    def deliveries(self) -> AsyncDeliveryStore:
        """The delivery log."""
        ...

    @property
    def circuits(self) -> AsyncCircuitStore:
        """The pauses."""
        ...

    @property
    def redrives(self) -> AsyncRedriveStore:
        """The redrives and the audit log."""
        ...

    @property
    def signals(self) -> AsyncSignalStore:
        """What the fleet has met lately, and the alerts in force."""
        ...

    async def aclose(self) -> None:
        """Close what the backend opened itself."""
        ...
