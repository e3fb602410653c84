"""Hostile keys and values: whatever Unicode or size, a store gives back what it took, and both backends agree."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from datetime import UTC, datetime

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.backends import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.dead_letter import dead_letter_id
from retrykit.failure import ErrorClass, Failure, Outcome
from retrykit.machines import claim as machine
from retrykit.message import Message, receive
from retrykit.stores import Claimed, DeadLetterQuery, Delivery, DeliveryStatus
from retrykit.testing import ManualClock
from tests.machines.claims import DEAD
from tests.stores.test_dead_letters import letter
from tests.strategies import any_text, attempts, error_classes, failures, instants, keys, letters, messages

NASTY = [
    "{}",
    "{0.__class__}",
    "%s%n",
    "'; DROP TABLE retrykit_claims; --",
    '"quoted"',
    "a\nb\r\n\tc",
    "\x01\x1b[31m\x7f",
    "../../etc/passwd",
    "كتاب\u202e\u200d",
    "e\u0301 é",
    "😀" * 255,
    " ",
    "NULL",
    "\ufeff\ufffe",
]


CLOCK = ManualClock(datetime(2100, 1, 1, tzinfo=UTC))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Return a context that gives an empty memory backend and an empty SQLite backend, whose file is kept."""
    path = tmp_path_factory.mktemp("hostile") / "it's {odd} % name.db"
    sqlite = SQLiteBackend(path, clock=CLOCK, synchronous="normal")
    own = sqlite3.connect(path, isolation_level=None)

    @contextmanager
    def emptied():
        for table in ("claims", "retries", "dead_letters", "deliveries", "pauses"):
            own.execute(f"DELETE FROM retrykit_{table}")
        yield MemoryBackend(clock=CLOCK), sqlite

    yield emptied
    own.close()
    sqlite.close()


@pytest.mark.parametrize("text", NASTY)
def test_nasty_text_as_key_and_value_comes_back(backend, text, clock):
    """In every store, wherever text may stand."""
    assert type(backend.claims.claim(text, owner=text, fingerprint=text)) is Claimed
    assert (text, text) == (backend.claims.get(text).key, backend.claims.get(text).lease.owner)
    assert (text, text) == attrs.astuple(backend.claims.confirm(text, provider=text, provider_id=text))[11:13]
    message = Message(text, {text: text}, {text: text})
    backend.retries.schedule(message, clock.now())
    assert [message] == [due.message for due in backend.retries.claim_due(owner=text)]
    put = letter(text, campaign_id=text, provider=text, error_code=text, error_message=text, attributes={text: text})
    backend.dead_letters.put(put)
    query = DeadLetterQuery(message_id=text, campaign_id=text, provider=text, error_code=text)
    assert [put] == list(backend.dead_letters.search(query).letters)
    assert [(text, 1)] == [tuple(row) for row in backend.dead_letters.top("error_code")]
    sent = Delivery(
        message_id=text, status=DeliveryStatus.UNKNOWN, provider=text, provider_id=text, updated_at=clock.now()
    )
    assert sent == backend.deliveries.record(sent) == backend.deliveries.get(text)
    pause = backend.circuits.pause(f"campaign:{text}"[:255], reason=text, by=text)
    assert [pause] == list(backend.circuits.pauses())


@given(st.lists(letters, max_size=5), st.data())
def test_any_letters_are_found_alike_in_both_backends(both, given_letters, data):
    """Put, read, searched, paged and counted, whatever their fields hold."""
    with both() as backends:
        for each in given_letters:
            first, second = (backend.dead_letters.put(each) for backend in backends)
            assert first == second
            assert first == backends[1].dead_letters.get(each.id) == backends[0].dead_letters.get(each.id)
        sample = data.draw(st.sampled_from(given_letters)) if given_letters else letter()
        fields = data.draw(st.sets(st.sampled_from(["campaign_id", "provider", "error_class", "error_code", "state"])))
        query = DeadLetterQuery(**{field: getattr(sample, field) for field in fields})
        limit = data.draw(st.integers(1, 3))
        pages = [_pages(backend, query, limit) for backend in backends]
        assert pages[0] == pages[1]
        assert backends[0].dead_letters.count(query) == backends[1].dead_letters.count(query) == sum(map(len, pages[0]))


def _pages(backend, query, limit):
    pages, cursor = [], None
    while True:
        page = backend.dead_letters.search(query, limit=limit, cursor=cursor)
        pages.append(list(page.letters))
        cursor = page.cursor
        if cursor is None:
            return pages


@given(keys, failures, instants)
def test_any_failure_is_settled_alike_in_both_backends(both, key, failure, failed_at):
    """And a repeated settlement is recognised, so every field survives the file."""
    with both() as backends:
        records = []
        for backend in backends:
            held = backend.claims.claim(key, owner="me").record
            following = machine.failed(held, failure, DEAD, failed_at=failed_at)
            stored = backend.claims.settle(following, held.seq)
            assert stored == backend.claims.settle(following, held.seq) == backend.claims.get(key)
            records.append(stored)
        assert records[0] == records[1]


@given(messages)
def test_any_message_waits_alike_in_both_backends(both, message):
    """Body and attributes come back as they were."""
    with both() as backends:
        for backend in backends:
            backend.retries.schedule(message, datetime(2099, 1, 1, tzinfo=UTC))
            assert [message] == [due.message for due in backend.retries.claim_due(owner="me")]


def test_surrogates_in_a_payload_do_not_wedge_its_message(backend):
    """JSON may hold them, so they reach attributes and with them every field that is searched by."""
    message = receive(b'{"id": "m", "campaign_id": "spring \\ud800", "recipient": "\\udfff@example.org"}')
    put = letter("m", campaign_id=message.attributes["campaign_id"], attributes=message.attributes, error_code="\ud800")
    assert put == backend.dead_letters.put(put)
    assert put == backend.dead_letters.get(dead_letter_id("m", 1))
    assert backend.dead_letters.count(DeadLetterQuery(campaign_id="spring \ud800")) == 1
    assert backend.dead_letters.count(DeadLetterQuery(campaign_id="spring ?")) == 0
    backend.dead_letters.resolve("m#\ud800")
    assert backend.dead_letters.get("m#\ud800") is None
    backend.retries.schedule(message, datetime(2026, 1, 1, tzinfo=UTC))
    assert [message] == [due.message for due in backend.retries.claim_due(owner="\ud800")]


def test_surrogates_in_reports_and_pauses_do_not_fail(backend, clock):
    """A provider's id or a person's words are no keys: they may be written as escapes where a store cannot hold them."""
    sent = Delivery(message_id="m", status=DeliveryStatus.UNKNOWN, provider_id="p \ud800", updated_at=clock.now())
    backend.deliveries.record(sent)
    assert backend.deliveries.get("m").provider_id in ("p \ud800", "p \\ud800")
    backend.circuits.pause("provider:ses", reason="why \ud800", by="\ud800")
    assert backend.circuits.pauses()[0].reason in ("why \ud800", "why \\ud800")
    assert ["m"] == [
        each.message_id for each in backend.deliveries.with_status(DeliveryStatus.UNKNOWN, after="a\ud800")
    ]


@pytest.mark.parametrize("size", [1_000_000, 1_048_576])
def test_payload_of_a_megabyte_is_kept_byte_for_byte(backend, clock, size):
    """In the retry queue and in the dead letters."""
    body = bytes(range(256)) * (size // 256)
    message = Message("large", body)
    backend.retries.schedule(message, clock.now())
    (due,) = backend.retries.claim_due(owner="me")
    assert body == due.message.body
    backend.dead_letters.put(letter("large", original_payload=body))
    assert body == backend.dead_letters.get("large#1").original_payload


def test_error_message_of_a_megabyte_is_settled(backend):
    """A provider that answers with a web page does not stop anything."""
    failure = Failure(error_class=ErrorClass.UNKNOWN, outcome=Outcome.REJECTED, error_message="<html>\u20ac" * 130_000)
    held = backend.claims.claim("k", owner="me").record
    stored = backend.claims.settle(machine.failed(held, failure, DEAD, failed_at=held.opened_at), held.seq)
    assert stored == backend.claims.get("k")
    assert failure == stored.failure


@given(attempts, error_classes, any_text)
def test_letter_with_a_wild_history_survives_both_backends(both, attempt, error_class, message):
    """The history is evidence as well."""
    put = letter(attempts=(attempt, attempt), error_class=error_class, error_message=message)
    with both() as backends:
        for backend in backends:
            backend.dead_letters.put(put)
            assert put == backend.dead_letters.get(put.id)
