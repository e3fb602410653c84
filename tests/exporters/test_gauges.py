"""The figures of a backend, read now and then."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest
import trio

from retrykit import CircuitBreaker, Dispatcher, RetryBudget, open_async_backend, open_backend
from retrykit.backends import MemoryBackend
from retrykit.errors import BreakerOpenError, ConfigurationError, StoreUnavailableError
from retrykit.exporters.gauges import AsyncBackendGauges, BackendGauges, PartGauges
from retrykit.message import Message
from retrykit.stores import as_async
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
    """A scrape cannot await; and gauges that are awaited need an asynchronous one."""
    with pytest.raises(ConfigurationError, match=r"use open_backend\(url\) beside it"):
        BackendGauges(open_async_backend("memory://"))
    with pytest.raises(ConfigurationError, match=r"is synchronous; use BackendGauges\(backend\), or as_async"):
        AsyncBackendGauges(open_backend("memory://"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BackendGauges(5), "backend is 5, which has no dead_letters; allowed is one with all its stores"),
        (lambda: AsyncBackendGauges(None), "backend is None, which has no dead_letters; allowed is one with all"),
        (
            lambda: BackendGauges(MemoryBackend),
            "backend is the class MemoryBackend; allowed is one with all its stores",
        ),
        (lambda: BackendGauges(MemoryBackend(), fresh=-1), "fresh is -1; allowed are finite durations >= 0"),
        (lambda: BackendGauges(MemoryBackend(), clock=5), "clock is 5, which has no now()"),
        (lambda: PartGauges(budgets=5), "budgets is 5; allowed are budgets by name, such as {'ses': RetryBudget()}"),
        (lambda: PartGauges(budgets=[RetryBudget()]), "budgets is [<"),
        (
            lambda: PartGauges(budgets={"ses": 5}),
            "the budget 'ses' is 5, which has no tokens; allowed is a RetryBudget",
        ),
        (lambda: PartGauges(budgets={"ses": RetryBudget}), "the budget 'ses' is the class RetryBudget; allowed is a"),
        (lambda: PartGauges(budgets={"": RetryBudget()}), "the name of a budget is empty; allowed is text of 1 to"),
        (lambda: PartGauges(budgets={5: RetryBudget()}), "the name of a budget is 5; allowed is text of 1 to"),
        (lambda: PartGauges(breakers=5), "breakers is 5; allowed is a list, such as [CircuitBreaker('ses')]"),
        (lambda: PartGauges(breakers="ses"), "breakers is 'ses'; allowed is a list"),
        (lambda: PartGauges(breakers=["ses"]), "a breaker is 'ses', which has no name; allowed is a CircuitBreaker"),
        (
            lambda: PartGauges(breakers=[CircuitBreaker("ses"), CircuitBreaker("ses")]),
            "two breakers are called 'ses'; each is shown under a name of its own",
        ),
    ],
)
def test_gauges_of_what_is_not_allowed_are_refused(make, message):
    """When they are made: at a scrape they would take all other metrics with them."""
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("colour", ["asyncio", "trio"])
def test_gauges_that_are_refreshed_tell_what_synchronous_ones_tell(backend, clock, colour):
    """Once refreshed; until then, that nothing is known."""
    gauges = AsyncBackendGauges(as_async(backend), clock=clock)
    backend.retries.schedule(Message(id="m", payload=None), clock.now())
    assert {"backend.up": {"": 0}} == figures(gauges)
    trio.run(gauges.refresh) if colour == "trio" else asyncio.run(gauges.refresh())
    assert figures(BackendGauges(backend, clock=clock)) == figures(gauges)
    assert BackendGauges.gauges is AsyncBackendGauges.gauges


def test_gauges_that_are_refreshed_are_read_anew_only_when_they_are_no_longer_fresh(backend, clock):
    """However often the application asks; a clock that goes back makes them no fresher."""
    gauges = AsyncBackendGauges(as_async(backend), fresh=10, clock=clock)
    asyncio.run(gauges.refresh())
    first = gauges.read()
    clock.advance(9.9)
    asyncio.run(gauges.refresh())
    assert gauges.read() is first
    clock.advance(0.1)
    asyncio.run(gauges.refresh())
    assert gauges.read() is not first


@pytest.mark.parametrize(("fresh", "limit"), [(10, 60), (0, 60), (40, 120)])
def test_gauges_that_nobody_refreshes_say_so(backend, clock, fresh, limit):
    """Figures that stand still look like a system that is well."""
    gauges = AsyncBackendGauges(as_async(backend), fresh=fresh, clock=clock)
    asyncio.run(gauges.refresh())
    clock.advance(limit)
    assert {"": 1} == figures(gauges)["backend.up"]
    clock.advance(0.1)
    assert {"backend.up": {"": 0}} == figures(gauges)


def test_gauges_refreshed_by_two_tasks_are_read_once(backend, clock, monkeypatch):
    """And by the next one, when the first was cancelled in the middle of it."""
    calls = []

    async def main():
        begun, go_on, other = asyncio.Event(), asyncio.Event(), as_async(backend)
        stats = other.retries._stats

        async def slow(_):
            calls.append(1)
            begun.set()
            await go_on.wait()
            return await stats()

        monkeypatch.setattr(type(other.retries), "_stats", slow)
        gauges = AsyncBackendGauges(other, clock=clock)
        first = asyncio.ensure_future(gauges.refresh())
        await begun.wait()
        await gauges.refresh()
        assert [1] == calls
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        go_on.set()
        await gauges.refresh()
        assert ([1, 1], 1) == (calls, figures(gauges)["backend.up"][""])

    asyncio.run(main())


def test_gauges_of_an_asynchronous_store_that_is_away_say_so(backend, clock, monkeypatch, caplog):
    """As synchronous ones do."""

    async def away(self):
        raise StoreUnavailableError("no answer")

    other = as_async(backend)
    gauges = AsyncBackendGauges(other, fresh=5, clock=clock)
    monkeypatch.setattr(type(other.retries), "_stats", away)
    asyncio.run(gauges.refresh())
    assert {"backend.up": {"": 0}} == figures(gauges)
    assert ["the figures of the backend cannot be read now: no answer"] == caplog.messages
    monkeypatch.undo()
    clock.advance(5)
    asyncio.run(gauges.refresh())
    assert {"": 1} == figures(gauges)["backend.up"]


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
