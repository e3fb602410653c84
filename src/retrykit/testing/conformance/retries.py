"""The suite of the retry store's contract."""

from __future__ import annotations

from ...stores.retries import RetryStore
from .forks import RetryForks
from .models import compare
from .retries_crashes import RetryCrashesTests
from .retries_holding import RetryHoldingTests
from .retries_model import RetryStores
from .retries_queue import RetryQueueTests
from .retries_races import RetryRacesTests
from .retries_values import RetryValuesTests
from .suite import Fresh

__all__ = ["RetryStoreSuite"]


class RetryStoreSuite(
    RetryQueueTests, RetryHoldingTests, RetryValuesTests, RetryCrashesTests, RetryRacesTests, RetryForks
):
    """Proves a `RetryStore` or an `AsyncRetryStore`."""

    contract = "retries"

    def test_any_sequence_of_operations_is_answered_as_by_the_memory_store(self, fresh: Fresh[RetryStore]) -> None:
        """Two stores side by side, through whatever comes."""
        compare(lambda: RetryStores(fresh), is_async=self.is_async)
