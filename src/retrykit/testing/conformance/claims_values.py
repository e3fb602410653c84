"""Values: whatever a claim is given comes back as it was, and what makes no sense is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import attrs
import pytest
from hypothesis import given

from ...errors import ConfigurationError, InvalidMessageError
from ...failure import ErrorClass, Failure, Outcome
from ...machines import claim as machine
from ...stores.claims import Claimed, ClaimStore
from ..strategies import failures, instants, keys
from .claims_states import DEAD, claimed, sending
from .hostile import KEYS, NO_COUNTS, NO_DURATIONS, NO_KEYS, TEXTS, sound_failure
from .models import examples
from .suite import StoreSuite, SuiteClock, needs

__all__ = ["ClaimValuesTests"]


class ClaimValuesTests(StoreSuite[ClaimStore]):
    """Hostile keys and values."""

    def test_hostile_keys_are_kept_apart(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Each has a record of its own, and is listed as it is."""
        for key in KEYS:
            sending(store, key)
        clock.advance("30s")
        assert sorted(KEYS) == list(store.unsettled(len(KEYS)))
        for key in KEYS:
            record = store.get(key)
            assert record is not None
            assert (key, 1) == (record.key, record.seq)
            assert key == store.confirm(key).key
        clock.advance("1ms")
        assert len(KEYS) == store.purge(clock.now())

    def test_hostile_text_in_values_comes_back(self, store: ClaimStore) -> None:
        """Wherever text may stand."""
        for number, text in enumerate(TEXTS):
            answer = store.claim(f"{number}", owner=text, fingerprint=text, lease=30)
            assert isinstance(answer, Claimed)
            assert answer == store.claim(f"{number}", owner=text, fingerprint=text, lease=30)
            held = answer.record
            assert held.lease is not None
            assert (text, text) == (held.lease.owner, held.fingerprint)
            sent = machine.sent(held, provider=text, provider_id=text)
            record = store.settle(attrs.evolve(sent, note=text), held.seq)
            assert record is not None
            assert (text, text, text) == (record.provider, record.provider_id, record.note)
            assert record == store.get(f"{number}")

    def test_any_failure_is_settled_and_recognised_when_repeated(self, store: ClaimStore, clock: SuiteClock) -> None:
        """So every field of it comes back as it was."""
        whole = "surrogates" in self.features

        @examples(at_most=20 if self.is_async else None)
        @given(key=keys, failure=failures, failed_at=instants)
        def check(key: str, failure: Failure, failed_at: datetime) -> None:
            store.confirm(key)
            clock.advance("1ms")
            store.purge(clock.now())
            held = claimed(store, key)
            seen = failure if whole else sound_failure(failure)
            following = machine.failed(held, seen, DEAD, failed_at=failed_at)
            stored = store.settle(following, held.seq)
            assert stored is not None
            assert seen == stored.failure
            assert attrs.evolve(following, settled_at=stored.settled_at) == stored
            assert stored == store.settle(following, held.seq) == store.get(key)

        check()

    def test_lone_surrogates_wedge_no_message(self, store: ClaimStore) -> None:
        """A payload may bring them; a store may write them as escapes, if it then knows them again."""
        text = "why \ud800"
        failure = Failure(
            error_class=ErrorClass.UNKNOWN, outcome=Outcome.REJECTED, error_code=text, error_message=text, provider=text
        )
        answer = store.claim("k", owner=text, fingerprint=text, lease=30)
        assert isinstance(answer, Claimed)
        assert answer == store.claim("k", owner=text, fingerprint=text, lease=30)
        following = machine.failed(answer.record, failure, DEAD, failed_at=answer.record.opened_at)
        stored = store.settle(following, answer.record.seq)
        assert stored is not None
        assert stored == store.settle(following, answer.record.seq) == store.get("k")

    @needs("surrogates")
    def test_lone_surrogates_come_back_as_they_were(self, store: ClaimStore) -> None:
        """In owners, fingerprints and what a provider said."""
        text = "\udfff \ud800"
        answer = store.claim("k", owner=text, fingerprint=text)
        assert isinstance(answer, Claimed)
        assert answer.record.lease is not None
        assert (text, text) == (answer.record.lease.owner, answer.record.fingerprint)
        record = store.confirm("k", provider=text, provider_id=text)
        assert (text, text) == (record.provider, record.provider_id)
        assert record == store.get("k")

    @needs("megabyte")
    def test_error_message_of_a_megabyte_is_settled(self, store: ClaimStore) -> None:
        """A provider that answers with a web page does not stop anything."""
        failure = Failure(
            error_class=ErrorClass.UNKNOWN, outcome=Outcome.REJECTED, error_message="<html>\u20ac" * 150_000
        )
        held = claimed(store)
        stored = store.settle(machine.failed(held, failure, DEAD, failed_at=held.opened_at), held.seq)
        assert stored is not None
        assert failure == stored.failure
        assert stored == store.get("k")

    def test_key_that_is_not_allowed_is_refused(self, store: ClaimStore) -> None:
        """By every operation that takes one."""
        held = claimed(store)
        calls: list[Callable[[Any], object]] = [
            lambda key: store.claim(key, owner="me"),
            lambda key: store.claim_unknown(key, owner="me"),
            lambda key: store.begin_send(key, 1, lease=30),
            lambda key: store.renew(key, 1, lease=30),
            store.confirm,
            store.cancel,
            store.get,
        ]
        for key in NO_KEYS:
            for call in calls:
                with pytest.raises(InvalidMessageError):
                    call(key)
        assert held == store.get("k")

    def test_lease_that_is_no_positive_duration_is_refused(self, store: ClaimStore) -> None:
        """Zero is a value, and not one that makes sense here; nothing changes."""
        held = claimed(store)
        calls: list[Callable[[Any], object]] = [
            lambda lease: store.claim("new", owner="me", lease=lease),
            lambda lease: store.claim_unknown("k", owner="me", lease=lease),
            lambda lease: store.begin_send("k", held.seq, lease=lease),
            lambda lease: store.renew("k", held.seq, lease=lease),
        ]
        for lease in (*NO_DURATIONS, 0, "0s"):
            for call in calls:
                with pytest.raises(ConfigurationError):
                    call(lease)
        assert (held, None) == (store.get("k"), store.get("new"))

    def test_delay_that_is_no_duration_is_refused(self, store: ClaimStore) -> None:
        """The hold stays."""
        held = sending(store)
        for delay in NO_DURATIONS:
            with pytest.raises(ConfigurationError):
                store.settle(machine.sent(held), held.seq, delay=delay)
        assert held == store.get("k")

    def test_limit_that_is_no_count_is_refused(self, store: ClaimStore, clock: SuiteClock) -> None:
        """Nothing is deleted."""
        record = store.confirm("k")
        clock.advance("1d")
        for limit in NO_COUNTS:
            with pytest.raises(ConfigurationError):
                store.unsettled(limit)
            with pytest.raises(ConfigurationError):
                store.purge(clock.now(), limit=limit)
        assert record == store.get("k")
