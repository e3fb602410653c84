"""Claim stores that break in races, when their client dies, and when they are opened again."""

from __future__ import annotations

from datetime import datetime, timedelta

import attrs

from retrykit.backends import MemoryBackend
from retrykit.backends.memory import _Claims, _Shared
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.backends.sqlite.claims import Claims
from retrykit.machines import claim as machine
from retrykit.stores import AsyncClaimStore, ClaimRecord, ClaimStore, ClaimTerms
from retrykit.stores.claims import ClaimAnswer
from retrykit.testing.conformance import ClaimStoreSuite, Place
from tests.stores.mutants.breakages import gap, leaving_answers_behind


class Mutant(ClaimStoreSuite):
    broken: type[_Claims]

    def make_store(self, place: Place) -> ClaimStore:
        return self.broken(_Shared(place.clock))


class ReadThenWrite(_Claims):
    def _claim(self, key: str, fingerprint: str | None, owner: str, lease: float, terms: ClaimTerms) -> ClaimAnswer:
        with self._shared.locked() as now:
            record = self._records.get(key)
        gap()
        record, answer = machine.take(
            record, key, fingerprint=fingerprint, owner=owner, lease=lease, terms=terms, now=now
        )
        with self._shared.locked():
            self._records[key] = record
        return answer


class TestClaimThatReadsThenWrites(Mutant):
    broken = ReadThenWrite
    caught_by = (
        "test_many_threads_racing_for_a_key_one_is_granted",
        "test_many_threads_taking_over_a_lapsed_hold_one_is_granted",
    )


class LooksThenTakes(_Claims):
    def _claim_unknown(self, key: str, owner: str, lease: float) -> ClaimRecord | None:
        with self._shared.locked() as now:
            record = self._records.get(key)
        gap()
        return self._keep(machine.take_unknown(record, owner=owner, lease=lease, now=now), now)


class TestVerificationThatReadsThenWrites(Mutant):
    broken = LooksThenTakes
    caught_by = ("test_many_threads_finding_a_lapsed_send_one_verifies",)


class ChecksThenSettles(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        with self._shared.locked() as now:
            stored = self._records.get(record.key)
        gap()
        return self._keep(machine.write(stored, record, token, delay=delay, now=now), now)


class TestSettlementThatReadsThenWrites(Mutant):
    broken = ChecksThenSettles
    caught_by = ("test_many_threads_settling_one_hold_one_decision_stands",)


class ChecksThenRenews(_Claims):
    def _renew(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        with self._shared.locked() as now:
            record = self._records.get(key)
        gap()
        return self._keep(machine.renew(record, token, lease=lease, now=now), now)


class TestRenewalThatReadsThenWrites(Mutant):
    broken = ChecksThenRenews
    caught_by = ("test_holder_racing_with_those_who_take_over_one_has_the_key",)


class LooksThenCancels(_Claims):
    def _cancel(self, key: str) -> ClaimRecord:
        with self._shared.locked() as now:
            record = self._records.get(key)
        gap()
        self._records[key] = record = machine.cancel(record, key, now=now)
        return record


class TestCancellationThatReadsThenWrites(Mutant):
    broken = LooksThenCancels
    caught_by = ("test_claims_racing_with_cancellations_one_side_wins",)


class CountsThenPurges(_Claims):
    def _purge(self, before: datetime, limit: int) -> int:
        with self._shared.locked():
            expired = [record.key for record in self._records.values() if machine.is_expired(record, before)]
        gap()
        for key in expired[:limit]:
            self._records.pop(key, None)
        return len(expired[:limit])


class TestPurgeThatCountsWhatOthersDeleted(Mutant):
    broken = CountsThenPurges
    caught_by = ("test_many_threads_purging_each_record_is_counted_once",)


class ClearsThenWrites(_Claims):
    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        stored = self._records.pop(record.key, None)
        with self._shared.locked() as now:
            settled = machine.write(stored, record, token, delay=delay, now=now)
            if stored is not None:
                self._records[record.key] = settled or stored
            return settled


class TestSettlementInTwoSteps(Mutant):
    broken = ClearsThenWrites
    caught_by = ("test_operation_interrupted_in_the_middle_happened_or_not",)


class PurgesOneByOne(_Claims):
    def _purge(self, before: datetime, limit: int) -> int:
        deleted = 0
        while deleted < limit and super()._purge(before, 1):
            deleted += 1
        return deleted


class TestPurgeInManySteps(Mutant):
    broken = PurgesOneByOne
    caught_by = ("test_purge_interrupted_in_the_middle_happened_or_not",)


class SlowPurge(_Claims):
    def _purge(self, before: datetime, limit: int) -> int:
        return super()._purge(before + timedelta(days=1), limit)


class TestPurgeRepeatedThatGoesFurther(Mutant):
    broken = SlowPurge
    caught_by = ("test_purge_repeated_after_a_lost_answer_deletes_no_more",)


class TestAnswerOfACancelledOperation(ClaimStoreSuite):
    caught_by = ("test_operation_cancelled_in_the_middle_happened_or_not",)

    async def make_store(self, place: Place) -> AsyncClaimStore:
        return leaving_answers_behind(AsyncClaimStore, MemoryBackend(clock=place.clock).claims)


class TestMemoryThatClaimsToBeShared(ClaimStoreSuite):
    features = frozenset({"processes", "reopen"})
    caught_by = (
        "test_many_processes_racing_for_keys_each_is_settled_by_one",
        "test_store_opened_again_finds_every_record",
    )

    def make_store(self, place: Place) -> ClaimStore:
        return MemoryBackend(clock=place.clock).claims


class Buffered(Claims):
    """Answers, and writes when it is closed."""

    def _settle(self, record: ClaimRecord, token: int, delay: float) -> ClaimRecord | None:
        now = self._database.now()
        stored = machine.write(self._get(record.key), record, token, delay=delay, now=now)
        self.late = [*getattr(self, "late", []), (record, token, delay)]
        return stored


class TestSettlementThatIsAnsweredBeforeItIsWritten(ClaimStoreSuite):
    features = frozenset({"processes", "reopen"})
    caught_by = ("test_killed_process_loses_nothing_that_was_answered",)

    def make_store(self, place: Place) -> SQLiteBackend:
        backend = SQLiteBackend(place.folder / "store.db", clock=place.clock, synchronous="normal")
        backend.claims = Buffered(backend.claims._database)
        return backend

    def close_store(self, store: SQLiteBackend) -> None:
        for late in getattr(store.claims, "late", []):
            Claims._settle(store.claims, *late)
        store.close()


class LeasesInMemory(Claims):
    """Keeps the ends of renewed leases to itself."""

    def _renew(self, key: str, token: int, lease: float) -> ClaimRecord | None:
        with self._database.reading() as (_, now):
            pass
        record = machine.renew(Claims._get(self, key), token, lease=lease, now=now)
        if record is not None:
            self.renewed = {**getattr(self, "renewed", {}), key: record.lease}
        return record

    def _get(self, key: str) -> ClaimRecord | None:
        record = super()._get(key)
        lease = getattr(self, "renewed", {}).get(key)
        return attrs.evolve(record, lease=lease) if record and lease and record.seq == lease.token else record


class TestRenewalThatIsKeptInMemory(ClaimStoreSuite):
    features = frozenset({"reopen"})
    caught_by = ("test_renewed_hold_outlasts_any_work",)

    def make_store(self, place: Place) -> SQLiteBackend:
        backend = SQLiteBackend(place.folder / "store.db", clock=place.clock, synchronous="normal")
        backend.claims = LeasesInMemory(backend.claims._database)
        return backend
