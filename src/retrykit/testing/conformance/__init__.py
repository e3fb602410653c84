"""The suites that prove a store: subclass one, say how to make the store, and pytest runs the contract's tests on it.

Example, in a test module of yours::

    from retrykit.testing.conformance import ClaimStoreSuite, Place


    class TestMyClaims(ClaimStoreSuite):
        features = {"reopen", "processes"}

        def make_store(self, place: Place) -> MyClaims:
            return MyClaims(place.folder / "claims.db", clock=place.clock)

With `async def make_store` the suite tests an asynchronous store, under asyncio and trio, without any plugin. Needs pytest
and hypothesis: ``pip install 'retrykit[testing]'``.
"""

from .circuits import CircuitStoreSuite
from .claims import ClaimStoreSuite
from .dead_letters import DeadLetterStoreSuite
from .deliveries import DeliveryStoreSuite
from .redrives import RedriveStoreSuite
from .retries import RetryStoreSuite
from .signals import SignalStoreSuite
from .suite import FEATURES, Place, StoreSuite, SuiteClock, needs

__all__ = [
    "FEATURES",
    "CircuitStoreSuite",
    "ClaimStoreSuite",
    "DeadLetterStoreSuite",
    "DeliveryStoreSuite",
    "Place",
    "RedriveStoreSuite",
    "RetryStoreSuite",
    "SignalStoreSuite",
    "StoreSuite",
    "SuiteClock",
    "needs",
]
