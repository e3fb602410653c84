"""The suite of the claim store's contract."""

from __future__ import annotations

from ...stores.claims import ClaimStore
from .claims_crashes import ClaimCrashesTests
from .claims_holding import ClaimHoldingTests
from .claims_model import ClaimStores
from .claims_poison import ClaimPoisonTests
from .claims_races import ClaimRacesTests
from .claims_reopening import ClaimReopeningTests
from .claims_settling import ClaimSettlingTests
from .claims_taking import ClaimTakingTests
from .claims_values import ClaimValuesTests
from .forks import ClaimForks
from .models import compare
from .suite import Fresh

__all__ = ["ClaimStoreSuite"]


class ClaimStoreSuite(
    ClaimTakingTests,
    ClaimHoldingTests,
    ClaimSettlingTests,
    ClaimReopeningTests,
    ClaimPoisonTests,
    ClaimValuesTests,
    ClaimCrashesTests,
    ClaimRacesTests,
    ClaimForks,
):
    """Proves a `ClaimStore` or an `AsyncClaimStore`."""

    contract = "claims"

    def test_any_sequence_of_operations_is_answered_as_by_the_memory_store(self, fresh: Fresh[ClaimStore]) -> None:
        """Two stores side by side, through whatever comes."""
        compare(lambda: ClaimStores(fresh), is_async=self.is_async)
