"""The figures of a backend, read now and then."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from retrykit import CircuitBreaker, Dispatcher, RetryBudget, open_async_backend, open_backend
from retrykit.backends import MemoryBackend
from retrykit.errors import BreakerOpenError, ConfigurationError, StoreUnavailableError
from retrykit.exporters.gauges import BackendGauges, PartGauges
from retrykit.message import Message
from retrykit.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def backend(clock):
    return MemoryBackend(clock=clock)


def figures(gauges):
    return {reading.gauge.name: dict(reading.values) for reading in gauges.read()}


def test_gauges_of_an_empty_backend_are_zero(backend, clock):
    """Every gauge of the table is there, but for statuses that no delivery has."""
    found = figures(BackendGauges(backend, clock=clock))
    assert [gauge.name for gauge in BackendGauges.gauges] == list(found)
    assert {"": 1} == found.pop("backend.up")
    assert {0} == {value for values in found.values() for value in values.values()}


def test_gauges_tell_depth_growth_and_ages(backend, clock):
    """A letter that waits, a message that is due and one that is not, and what the log has of them."""

    def validate(message):
        raise KeyError("bug")

    Dispatcher(print, backend=backend, validate=validate, clock=clock, on_event=[]).handle({"id": "m-1"})
    for number, seconds in enumerate((60, 7200), 2):
        backend.retries.schedule(Message(id=f"m-{number}", payload=None), clock.now() + timedelta(seconds=seconds))
    clock.advance(3600 + 120)
    found = figures(BackendGauges(backend, clock=clock))
    assert {"quarantined": 1, "redriving": 0, "resolved": 0, "discarded": 0, "superseded": 0} == found["dlq.letters"]
    assert {"1h": 0, "1d": 1} == found["dlq.died"]
    assert {"": 3720} == found["dlq.oldest.age"]
    assert {"waiting": 2, "leased": 0} == found["retry_queue.messages"]
    assert {"": 1} == found["retry_queue.due"]
    assert {"": 3660} == found["retry_queue.oldest.age"]
    assert {"failed_internal": 1} == found["deliveries"]
    assert {"": 0} == found["unsettled"]


def test_gauges_are_read_anew_only_when_they_are_no_longer_fresh(backend, clock):
    """A storm of scrapes is one query."""
    gauges = BackendGauges(backend, fresh=10, clock=clock)
    first = gauges.read()
    clock.advance(9.9)
    assert gauges.read() is first
    clock.advance(0.1)
    assert gauges.read() is not first


def test_gauges_while_another_thread_reads_give_what_was_read_before(backend, clock, monkeypatch):
    """A store that is slow makes nobody wait but the one who asks it."""
    gauges = BackendGauges(backend, fresh=0, clock=clock)
    first = gauges.read()
    begun, go_on = threading.Event(), threading.Event()
    stats = backend.retries.stats

    def slow():
        begun.set()
        assert go_on.wait(20)
        return stats()

    monkeypatch.setattr(type(backend.retries), "stats", lambda self: slow())
    reader = threading.Thread(target=gauges.read)
    reader.start()
    assert begun.wait(20)
    assert gauges.read() is first
    go_on.set()
    reader.join()
    assert gauges.read() is not first


def test_gauges_of_a_store_that_is_away_say_so(backend, clock, monkeypatch, caplog):
    """One gauge is 0, the others are absent rather than old, and a line is logged; a scrape never fails."""

    def away(self):
        raise StoreUnavailableError("no answer")

    monkeypatch.setattr(type(backend.retries), "stats", away)
    gauges = BackendGauges(backend, fresh=5, clock=clock)
    assert {"backend.up": {"": 0}} == figures(gauges)
    (record,) = caplog.records
    assert "the figures of the backend cannot be read now: no answer" == record.getMessage()
    monkeypatch.undo()
    clock.advance(5)
    assert {"": 1} == figures(gauges)["backend.up"]


def test_gauges_of_an_asynchronous_backend_are_refused():
    """A scrape cannot await."""
    with pytest.raises(ConfigurationError, match=r"use open_backend\(url\) beside it"):
        BackendGauges(open_async_backend("memory://"))


def test_gauges_of_parts_tell_what_they_hold_and_have_refused():
    """A budget that denied a retry, and a breaker that let no call through."""
    budget = RetryBudget(capacity=1, floor=0)
    breaker = CircuitBreaker("ses")
    gauges = PartGauges(budgets={"ses": budget}, breakers=[breaker])
    assert [{"ses": 1}, {"ses": 0}, {"ses": 0}] == [reading.values for reading in gauges.read()]
    assert [True, False] == [budget.take(), budget.take()]
    breaker.isolate()
    with pytest.raises(BreakerOpenError):
        breaker(lambda: None)()
    assert [{"ses": 0}, {"ses": 1}, {"ses": 1}] == [reading.values for reading in gauges.read()]
    assert [reading.gauge for reading in gauges.read()] == list(gauges.gauges)


def test_gauges_of_sqlite_are_read(tmp_path):
    """The figures of the embedded store are found with one's own clock, too."""
    backend = open_backend(f"sqlite:///{tmp_path / 'x.db'}")
    try:
        assert {"": 1} == figures(BackendGauges(backend))["backend.up"]
    finally:
        backend.close()
