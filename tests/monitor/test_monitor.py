"""The monitor: events in, notices out; of a fleet one tells people, and nothing is lost whoever dies, hangs or raises."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import re
import sqlite3
import subprocess
import sys
import threading

import attrs
import pytest
import trio
from folder_store import FolderBackend

from retrykit import Dispatcher, Message, open_backend
from retrykit.backends import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.clock import in_trio
from retrykit.decision import Action, Decision, Disposition, DispositionKind
from retrykit.errors import (
    ConfigurationError,
    NotificationError,
    StoreCorruptError,
    StoreUnavailableError,
)
from retrykit.events import (
    AttemptFailed,
    BreakerChanged,
    MessageHandled,
    MessageQuarantined,
    MessageRepublished,
    UnknownCode,
)
from retrykit.failure import ErrorClass, Failure, Outcome
from retrykit.message import Message as Mail
from retrykit.monitor import (
    AsyncMonitor,
    BreakerOpens,
    DeadLettersJump,
    ErrorClassDominates,
    Finding,
    LogNotifier,
    Monitor,
    Signals,
    UnknownCodesAppear,
    WebhookNotifier,
)
from retrykit.monitor.counting import Counting
from retrykit.stores import SignalStore, as_async
from retrykit.testing import ManualClock
from tests.capabilities import is_present

NOW = ManualClock().now()


def failure(error_class=ErrorClass.NETWORK_TIMEOUT, provider="ses"):
    return Failure(error_class=error_class, error_message="", outcome=Outcome.NOT_SENT, provider=provider, rule="r")


def failed(error_class=ErrorClass.NETWORK_TIMEOUT):
    decision = Decision(Action.RETRY, 5.0, "again")
    return AttemptFailed(at=NOW, subject="m", attempt=1, failure=failure(error_class), decision=decision)


def handled(kind=DispositionKind.SENT, message_id="m"):
    return MessageHandled(at=NOW, disposition=Disposition(kind=kind, message_id=message_id))


def breaker(after, name="ses", before="closed"):
    return BreakerChanged(at=NOW, name=name, before=before, after=after)


def unknown(code, provider="ses"):
    return UnknownCode(at=NOW, code=code, provider=provider, failure=failure())


def quarantined(number=1):
    return MessageQuarantined(at=NOW, message_id=f"m-{number}", dead_letter_id=f"m-{number}#1", reason="3 crashes")


def feed(monitor, *events):
    for event in events:
        monitor(event)


class Failing(SignalStore):
    """A signal store that fails when it is told to, before or after the change is made."""

    def __init__(self, store):
        self.store = store
        self.fails = None

    def _change(self, name, change):
        if self.fails == "before":
            raise StoreUnavailableError("no route to the store")
        changed = self.store.change(name, change)
        if self.fails == "after":
            raise StoreUnavailableError("the answer was lost")
        return changed

    def _get(self, name):
        return self.store.get(name)

    def _names(self):
        return self.store.names()

    def _mend(self, name):
        return self.store.mend(name)


def test_events_of_each_kind_are_counted():
    """What is not yet done, what came twice, and what is no concern of a monitor's is not."""
    counting = Counting()
    feed(
        counting,
        *(handled(kind, f"{kind}") for kind in DispositionKind),
        failed(),
        failed(ErrorClass.DNS_FAILURE),
        failed(),
        breaker("open"),
        breaker("half_open", "other"),
        breaker("isolated", "third"),
        unknown("X1"),
        unknown("X1"),
        unknown("X2", None),
        quarantined(),
        MessageRepublished(at=NOW, message_id="m", due_at=NOW),
    )
    taken = counting.take(None)
    assert {
        "sent": 1,
        "dead": 2,
        "handled": 5,
        "failed": 3,
        "class:network_timeout": 2,
        "class:dns_failure": 1,
    } == taken.counts
    assert ("dead_lettered", "held_for_review") == taken.samples
    assert ("ses", "other") == taken.open_breakers
    assert [("unknown_code", "ses: X1"), ("unknown_code", "unknown provider: X2"), ("poison", "m-1#1")] == [
        (each.kind, each.subject) for each in taken.occurrences
    ]


def test_breaker_that_opened_and_closed_between_two_exchanges_is_told():
    """And is closed at the next one."""
    counting = Counting()
    feed(counting, breaker("open"), breaker("half_open"), breaker("closed"))
    assert ("ses",) == counting.take(None).open_breakers
    counting.handed_over()
    assert () == counting.take(None).open_breakers


def test_ten_thousand_classes_codes_and_breakers_take_little_memory():
    """Every count is there, under a name or as one of others."""
    counting = Counting()
    for number in range(10_000):
        feed(
            counting,
            failed(ErrorClass(f"own_{number}", group=failure().group)),
            unknown(f"X{number}"),
            breaker("open", f"b{number}"),
            handled(DispositionKind.DEAD_LETTERED, f"m{number}"),
        )
    taken = counting.take(None)
    assert (10_000, 9_970) == (taken.counts["failed"], taken.counts["class:other"])
    assert (200, 9_800, 50, 10) == (
        len(taken.occurrences) - 1,
        taken.occurrences[-1].count,
        len(taken.open_breakers),
        len(taken.samples),
    )
    assert len(taken.counts) < 40


def test_events_of_many_threads_are_all_counted():
    """While another one takes what is there."""
    counting, sums = Counting(), []

    def work():
        for _ in range(2_000):
            counting(handled())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or len(sums) < 2:
        sums.append(counting.take(None).counts.get("sent", 0))
        counting.handed_over()
    sums.append(counting.take(None).counts.get("sent", 0))
    assert 8_000 == sum(sums)


def test_forked_child_counts_for_itself():
    """Under a name of its own, without what its parent counted."""
    counting = Counting()
    counting(handled())
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        counting(handled())
        taken = counting.take(None)
        os.write(writer, f"{taken.instance} {taken.seq} {dict(taken.counts)}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    said = os.read(reader, 1000).decode()
    mine = counting.take(None)
    assert mine.instance not in said
    assert {"handled": 1, "sent": 1} == mine.counts


test_forked_child_counts_for_itself.pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def test_monitor_tells_what_is_wrong_and_that_it_is_over(fleet):
    """Once each."""
    monitor = fleet.monitor(rules=[BreakerOpens(clear_after=0)])
    monitor(breaker("open"))
    for _ in range(3):
        assert ["breaker-opens:ses"] == [alert.key for alert in fleet.call(monitor.run_once)]
    monitor(breaker("closed"))
    for _ in range(3):
        fleet.call(monitor.run_once)
    assert [("a", "firing", "breaker-opens:ses"), ("a", "resolved", "breaker-opens:ses")] == fleet.told


def test_counts_of_a_fleet_are_judged_together_and_one_tells(fleet):
    """No process alone has seen enough."""
    rules = [ErrorClassDominates(hold=0)]
    monitors = {name: fleet.monitor(name, rules=rules) for name in "abc"}
    for _ in range(3):
        for monitor in monitors.values():
            feed(monitor, *[failed()] * 20, *[handled()] * 5)
            fleet.call(monitor.run_once)
            fleet.clock.advance(3)
    assert 1 == len(fleet.told)
    assert ("firing", "error-class-dominates:network_timeout") == fleet.told[0][1:]
    fleet.call(fleet.monitor("late", rules=rules).run_once)
    assert 1 == len(fleet.told)


def test_real_messages_that_die_are_told_with_the_ids_of_some():
    """Fed by a dispatcher, the queues measured."""
    clock = ManualClock()
    backend, told = MemoryBackend(clock=clock), []
    monitor = Monitor(backend, notifiers=[told.append], rules=[DeadLettersJump(hold=0)], clock=clock)

    def render(message):
        raise KeyError("first_name")

    dispatcher = Dispatcher(lambda *_: None, backend=backend, render=render, on_event=[monitor], clock=clock)
    for number in range(60):
        dispatcher.handle(Message(f"m-{number}", {"secret": f"payload {number}"}, {"recipient": "ada@example.org"}))
    (alert,) = monitor.run_once()
    assert [alert] == told
    assert "60 of 60 messages died within 5m" in alert.title
    assert {"died": 60, "depth": 60, "died_last_hour": 60}.items() <= alert.evidence.items()
    assert [f"m-{number}" for number in range(10)] == alert.evidence["message_ids"]
    assert {"rendering_failure": 60} == alert.evidence["classes"]
    assert "ada@" not in str(alert.to_dict())
    assert "payload" not in str(alert.to_dict())


def test_process_that_dies_before_it_tells_is_replaced_when_its_lease_is_over(fleet):
    """Somebody is told, by another one."""

    def die(notices):
        raise RuntimeError("the process is gone")
        yield

    rules = [BreakerOpens()]
    dying, other = fleet.monitor("dying", rules=rules), fleet.monitor("other", rules=rules)
    dying._tell = die  # as if killed between deciding and telling
    dying(breaker("open"))
    with pytest.raises(RuntimeError, match="the process is gone"):
        fleet.call(dying.run_once)
    fleet.clock.advance("119s")
    fleet.call(other.run_once)
    assert [] == fleet.told
    fleet.clock.advance("2s")
    fleet.call(other.run_once)
    assert [("other", "firing", "breaker-opens:ses")] == fleet.told


def test_process_whose_notifiers_may_take_long_is_given_as_long(fleet):
    """Three of them a minute each: another one does not tell the same meanwhile."""

    def nothing(alert):
        raise AssertionError("nobody is told here")

    def die(notices):
        raise RuntimeError("the process is gone")
        yield

    options = {"rules": [BreakerOpens()], "notifiers": [nothing] * 3, "notifier_timeout": 60}
    dying, other = fleet.monitor("dying", **options), fleet.monitor("other", rules=[BreakerOpens()])
    dying._tell = die
    dying(breaker("open"))
    with pytest.raises(RuntimeError, match="the process is gone"):
        fleet.call(dying.run_once)
    for seconds, told in ((359, 0), (2, 1)):
        fleet.clock.advance(seconds)
        fleet.call(other.run_once)
        assert told == len([each for each in fleet.told if each[1] == "firing"])


def test_store_that_is_away_loses_no_count_and_counts_nothing_twice(caplog):
    """Before or after the change was made; `run` logs it and goes on."""
    clock = ManualClock()
    backend = MemoryBackend(clock=clock)
    backend.signals = store = Failing(backend.signals)
    monitor = Monitor(backend, notifiers=[], clock=clock)
    for fails in ("before", "after", None, "after", "after", None):
        store.fails = fails
        feed(monitor, handled(), failed())
        if fails:
            with pytest.raises(StoreUnavailableError):
                monitor.run_once()
        else:
            monitor.run_once()
    monitor.run_once()
    counts = backend.signals.get("default").within(300)
    assert (6, 6) == (counts["sent"], counts["failed"])
    store.fails = "before"

    def sleep(seconds):
        clock.advance(seconds)
        monitor.stop()

    clock.sleep = sleep
    monitor.run()
    assert ["the signals cannot be exchanged now, trying again: no route to the store"] == caplog.messages


def test_run_exchanges_once_per_interval_until_it_is_stopped(fleet):
    """And waits in between, not after its end."""
    monitor = fleet.monitor(interval="7s")

    def count(seconds):
        fleet.clock.sleeps.append(seconds)
        if len(fleet.clock.sleeps) == 3:
            monitor.stop()

    async def count_async(seconds):
        count(seconds)

    fleet.clock.sleep, fleet.clock.sleep_async = count, count_async
    fleet.call(monitor.run)
    assert [7.0] * 3 == fleet.clock.sleeps
    fleet.call(monitor.run)
    assert [7.0] * 3 == fleet.clock.sleeps


def test_queues_that_cannot_be_measured_keep_nobody_from_being_told(fleet, caplog):
    """It is logged."""

    def broken():
        raise StoreUnavailableError("no route to the queues")

    fleet.backend.retries._stats = broken
    monitor = fleet.monitor(rules=[BreakerOpens()])
    monitor(breaker("open"))
    assert 1 == len(fleet.call(monitor.run_once))
    assert "the queues cannot be measured now, trying again: no route to the queues" in caplog.messages
    assert fleet.backend.signals.get("default").backlog is None


def test_queues_are_measured(fleet):
    """How many wait, are due, and since when."""
    fleet.backend.retries.schedule(Mail("m", 1), NOW)
    fleet.clock.advance(40)
    fleet.call(fleet.monitor().run_once)
    backlog = fleet.backend.signals.get("default").backlog
    assert (1, 1, 40.0, 0) == (backlog.waiting, backlog.due, backlog.overdue, backlog.letters)


def test_notifier_that_raises_is_called_again_later_and_later_and_given_up(fleet, caplog):
    """The others are told at once; what is logged names it, the alert and the error."""

    class Refuses:
        times = 0
        __qualname__ = "Refuses"

        def __call__(self, alert):
            self.times += 1
            raise ConnectionResetError("nobody listens at https://hooks.example.com/T0/s3cret")

    refuses, seen = Refuses(), []
    monitor = fleet.monitor(rules=[BreakerOpens()], notifiers=[refuses, seen.append])
    monitor(breaker("open"))
    calls = []
    for _ in range(100):
        fleet.call(monitor.run_once)
        calls.append(refuses.times)
        fleet.clock.advance(1)
    assert [5, 10, 20, 40] == [calls.count(times) for times in (1, 2, 3, 4)]
    assert (5, 1) == (refuses.times, len(seen))
    what = re.sub(r"line \d+", "line N", caplog.text)
    why = "it raised ConnectionResetError in line N of test_monitor.py"
    assert [
        *(
            f"Refuses could not be told of breaker-opens:ses, trying again in {wait} s: {why}"
            for wait in (5, 10, 20, 40)
        ),
        f"Refuses was not told of breaker-opens:ses, given up after 5 tries: {why}",
    ] == [line.partition(".py:N ")[2] for line in re.sub(r"\.py:\d+", ".py:N", what).splitlines()]


def test_notifier_that_fails_is_spared_the_other_alerts_of_the_round(fleet):
    """Each would wait for its limit again."""
    calls = []

    def refuse(alert):
        calls.append(alert.key)
        raise OSError

    monitor = fleet.monitor(rules=[BreakerOpens()], notifiers=[refuse])
    feed(monitor, breaker("open", "a"), breaker("open", "b"), breaker("open", "c"))
    fleet.call(monitor.run_once)
    assert 1 == len(calls)


def test_notifier_that_hangs_holds_up_neither_the_monitor_nor_the_others(fleet, caplog):
    """Its limit is logged; while it hangs it is not called again."""
    release, calls, seen = threading.Event(), [], []

    def hang(alert):
        calls.append(alert)
        release.wait(30)

    monitor = fleet.monitor(rules=[BreakerOpens()], notifiers=[hang, seen.append], notifier_timeout=0.05)
    monitor(breaker("open"))
    fleet.call(monitor.run_once)
    fleet.clock.advance(6)
    fleet.call(monitor.run_once)
    try:
        assert (1, 1) == (len(calls), len(seen))
        said = f"{hang.__qualname__} could not be told of breaker-opens:ses, trying again in"
        assert [
            f"{said} 5 s: it did not return within 0.05s",
            f"{said} 10 s: it still hangs in an earlier call",
        ] == caplog.messages
    finally:
        release.set()


@pytest.mark.parametrize("colour", ["asyncio", "trio"])
def test_coroutine_that_hangs_is_cancelled(colour, caplog):
    """And one that raises is like a function that raises."""
    backend, seen = MemoryBackend(), []

    async def hang(alert):
        if in_trio():
            await trio.sleep_forever()
        await asyncio.Event().wait()

    async def refuse(alert):
        raise ValueError("no")

    async def note(alert):
        seen.append(alert.key)

    monitor = AsyncMonitor(
        as_async(backend), rules=[BreakerOpens()], notifiers=[hang, refuse, note], notifier_timeout=0.05
    )
    monitor(breaker("open"))
    trio.run(monitor.run_once) if colour == "trio" else asyncio.run(monitor.run_once())
    assert ["breaker-opens:ses"] == seen
    assert ["did not return within 0.05s" in caplog.messages[0], "raised ValueError" in caplog.messages[1]] == [
        True
    ] * 2


def test_coroutine_that_does_not_heed_its_cancellation_holds_up_nobody(caplog):
    """Under asyncio it is left behind, and while it goes on it is not called again."""
    clock = ManualClock()
    release, calls, seen = None, [], []

    async def stubborn(alert):
        calls.append(alert)
        while not release.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(release)
        raise ValueError("too late")

    async def note(alert):
        seen.append(alert.key)

    async def main():
        nonlocal release
        release = asyncio.get_running_loop().create_future()
        await monitor.run_once()
        clock.advance(5)
        await monitor.run_once()
        release.set_result(None)
        for _ in range(10):
            await asyncio.sleep(0)
        clock.advance(10)
        await monitor.run_once()

    monitor = AsyncMonitor(
        as_async(MemoryBackend(clock=clock)),
        rules=[BreakerOpens()],
        notifiers=[stubborn, note],
        notifier_timeout=0.05,
        clock=clock,
    )
    monitor(breaker("open"))
    asyncio.run(main())
    assert (["breaker-opens:ses"], 2) == (seen, len(calls))
    whys = ["it did not return within 0.05s", "it still hangs in an earlier call", "it raised ValueError in line"]
    assert [True] * 3 == [why in said for why, said in zip(whys, caplog.messages, strict=True)]


def test_monitor_that_is_cancelled_while_it_tells_cancels_its_notifier():
    """Nothing goes on behind the application's back."""
    ended = []

    async def hang(alert):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(alert.key)

    async def main():
        running = asyncio.ensure_future(monitor.run_once())
        for _ in range(20):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.sleep(0)

    monitor = AsyncMonitor(as_async(MemoryBackend()), rules=[BreakerOpens()], notifiers=[hang])
    monitor(breaker("open"))
    asyncio.run(main())
    assert ["breaker-opens:ses"] == ended


def test_notifier_that_would_have_to_be_awaited_is_no_silent_loss(caplog):
    """A function that gives a coroutine tells nobody by itself."""

    async def post(alert=None): ...

    class Awaitable:
        def __await__(self):
            yield

    monitor = Monitor(
        MemoryBackend(), rules=[BreakerOpens()], notifiers=[lambda alert: post(alert), lambda _: Awaitable()]
    )
    monitor(breaker("open"))
    monitor.run_once()
    assert 2 == len(caplog.messages)
    assert all("it returned an awaitable, which nobody awaits" in said for said in caplog.messages)


def test_notifier_is_named_without_what_it_holds(caplog):
    """A partial of a function, and an object: an address may be among its arguments; and what it says is cut."""

    def post(url, alert):
        raise NotificationError(f"refused\n{'x' * 1000}")

    @attrs.define
    class Chat:
        url: str

        def __call__(self, alert):
            raise KeyError(self.url)

    address = "https://hooks.example.com/T0/s3cret"
    notifiers = [functools.partial(post, address), Chat(address), WebhookNotifier("http://127.0.0.1:1/s3cret")]
    monitor = Monitor(MemoryBackend(), rules=[BreakerOpens()], notifiers=notifiers)
    monitor(breaker("open"))
    monitor.run_once()
    assert "s3cret" not in caplog.text
    names = [
        f"{post.__qualname__} could",
        f"{Chat.__qualname__} could",
        "WebhookNotifier('http://127.0.0.1:1', form='json')",
    ]
    assert [True] * 3 == [said.startswith(name) for name, said in zip(names, caplog.messages, strict=True)]
    assert r"5 s: refused\nxxx" in caplog.messages[0]
    assert max(map(len, caplog.messages)) < 800


def test_thread_that_cannot_be_started_is_one_line_and_the_others_are_told(monkeypatch, caplog):
    """The machine has no more of them."""

    def start(thread):
        raise RuntimeError("can't start new thread")

    async def note(alert):
        told.append(alert.key)

    async def directly(call, alert):
        call(alert)

    told = []
    monitor = AsyncMonitor(as_async(MemoryBackend()), rules=[BreakerOpens()], notifiers=[print, note])
    monitor(breaker("open"))
    monkeypatch.setattr("retrykit.monitor.bounds.in_thread", directly)
    monkeypatch.setattr(threading.Thread, "start", start)
    asyncio.run(monitor.run_once())
    monkeypatch.undo()
    assert ["breaker-opens:ses"] == told
    assert ["print could not be told of breaker-opens:ses, trying again in 5 s: it raised RuntimeError"] == [
        said.partition(" in line")[0] for said in caplog.messages
    ]


@pytest.fixture(params=["sqlite", "folder", "redis"])
def damaged(request, tmp_path):
    """A backend, and how its record is damaged."""
    clock = ManualClock()
    if request.param == "sqlite":
        backend = SQLiteBackend(tmp_path / "fleet.db", synchronous="normal", clock=clock)

        def damage():
            with contextlib.closing(sqlite3.connect(tmp_path / "fleet.db", isolation_level=None)) as db:
                assert 1 == db.execute("UPDATE retrykit_signals SET record = '{\n'").rowcount

    elif request.param == "folder":
        backend = FolderBackend(tmp_path, clock=clock, flush=False)

        def damage():
            (file,) = tmp_path.glob("signals-*.json")
            file.write_bytes(b"{\n")

    else:
        if not is_present("valkey-server") or not is_present("redis"):
            pytest.skip("needs valkey-server and redis-py")
        from tests.servers.valkey import shared

        backend = open_backend(f"{shared()}?prefix=damaged-{os.getpid()}", clock=clock)

        def damage():
            backend.client.set(f"{{damaged-{os.getpid()}:signals}}:s:default", "{\n")

    yield backend, clock, damage
    backend.close()


def test_record_that_cannot_be_read_is_begun_anew(damaged, caplog):
    """With one line, and what is wrong still is told again; nothing that was counted meanwhile is lost."""
    backend, clock, damage = damaged
    told = []
    monitors = [
        Monitor(backend, notifiers=[lambda alert: told.append(alert.key)], rules=[BreakerOpens()], clock=clock)
        for _ in range(2)
    ]
    monitors[0](breaker("open"))
    monitors[0].run_once()
    damage()
    clock.advance(10)
    monitors[0](handled())
    for monitor in monitors:
        assert ["breaker-opens:ses"] == [alert.key for alert in monitor.run_once()]
    assert ["breaker-opens:ses"] * 2 == told
    assert 1 == backend.signals.get("default").within(300)["sent"]
    (said,) = caplog.messages
    begun = "the record of what the fleet met was begun anew, alerts still in force will be told again: "
    assert said.startswith(f"{begun}the signals 'default' cannot be read: ")
    assert "\n" not in said


def test_record_that_another_process_has_begun_anew_meanwhile_is_used(fleet, caplog):
    """It says so; this one has nothing to say."""
    change, failing = fleet.backend.signals._change, [StoreCorruptError("the signals 'default' cannot be read: ...")]

    def damaged_once(name, changing):
        if failing:
            raise failing.pop()
        return change(name, changing)

    fleet.backend.signals._change = damaged_once
    monitor = fleet.monitor(rules=[BreakerOpens()])
    monitor(breaker("open"))
    assert 1 == len(fleet.call(monitor.run_once)) == len(fleet.told)
    assert [] == caplog.messages


def test_record_that_is_damaged_while_people_are_told_is_begun_anew(tmp_path):
    """What they were told of is not noted, and told again."""
    told = []

    def damage(alert):
        told.append(alert.key)
        if len(told) == 1:
            with contextlib.closing(sqlite3.connect(tmp_path / "fleet.db", isolation_level=None)) as db:
                db.execute("UPDATE retrykit_signals SET record = ''")

    with contextlib.closing(SQLiteBackend(tmp_path / "fleet.db", synchronous="normal")) as backend:
        monitor = Monitor(backend, notifiers=[damage], rules=[BreakerOpens()])
        monitor(breaker("open"))
        for _ in range(3):
            monitor.run_once()
    assert ["breaker-opens:ses"] * 2 == told


def test_record_of_a_newer_version_is_left_to_it(tmp_path, caplog):
    """The monitor waits until it is upgraded too."""
    with contextlib.closing(SQLiteBackend(tmp_path / "fleet.db", synchronous="normal")) as backend:
        backend.signals.change("default", lambda *_: Signals(name="default"))
        with contextlib.closing(sqlite3.connect(tmp_path / "fleet.db", isolation_level=None)) as db:
            newer = db.execute(
                "UPDATE retrykit_signals SET record = replace(record, '\"schema_version\":1', '\"schema_version\":2') "
                "RETURNING record"
            ).fetchone()
            clock = ManualClock()
            clock.sleep = lambda _: monitor.stop()
            monitor = Monitor(backend, notifiers=[], clock=clock)
            monitor.run()
            assert newer == db.execute("SELECT record FROM retrykit_signals").fetchone()
    (said,) = caplog.messages
    assert said.startswith(
        "the signals cannot be exchanged now, trying again: the record of signals 'default' has schema"
    )


def test_notice_is_not_told_again_when_noting_it_failed():
    """The store went away in between."""
    clock = ManualClock()
    backend, told = MemoryBackend(clock=clock), []
    backend.signals = store = Failing(backend.signals)

    def tell(alert):
        told.append(alert.key)
        store.fails = "before"

    monitor = Monitor(backend, notifiers=[tell], rules=[BreakerOpens()], clock=clock)
    monitor(breaker("open"))
    with pytest.raises(StoreUnavailableError):
        monitor.run_once()
    for _ in range(3):
        store.fails = None
        monitor.run_once()
    assert 1 == len(told)


def test_rule_that_raises_is_logged_and_the_others_are_judged(fleet, caplog):
    """What it had fired stays."""

    class Broken(BreakerOpens):
        broken = False

        def judge(self, signals, firing):
            if Broken.broken:
                raise ZeroDivisionError
            return super().judge(signals, firing)

    monitor = fleet.monitor(rules=[Broken(name="own", clear_after=0), UnknownCodesAppear()])
    feed(monitor, breaker("open"))
    fleet.call(monitor.run_once)
    Broken.broken = True
    feed(monitor, breaker("closed"), unknown("X1"))
    assert 2 == len(fleet.call(monitor.run_once))
    assert "the rule 'own' failed; its alerts stay as they are" in caplog.messages


@pytest.mark.parametrize(
    "finding",
    [
        "own",
        Finding(key=5, is_met=True),
        Finding(key="own", is_met=True, title=None),
        Finding(key="own", is_met=True, commands=(5,)),
        Finding(key="own", is_met=True, evidence={"at": NOW}),
        Finding(key="own", is_met=True, evidence={"share": float("nan")}),
    ],
)
def test_rule_that_finds_what_no_record_keeps_is_logged_and_the_others_are_judged(finding, caplog, tmp_path):
    """On SQLite, which writes it down."""

    class Odd(BreakerOpens):
        def judge(self, signals, firing):
            return [finding]

    with contextlib.closing(SQLiteBackend(tmp_path / "fleet.db", synchronous="normal")) as backend:
        monitor = Monitor(backend, rules=[Odd(name="odd"), BreakerOpens()], notifiers=[])
        monitor(breaker("open"))
        assert ["breaker-opens:ses"] == [alert.key for alert in monitor.run_once()]
    assert ["the rule 'odd' failed; its alerts stay as they are"] == caplog.messages


def test_monitor_whose_exchange_fails_otherwise_goes_on(caplog):
    """A bug is logged with its traceback."""
    clock, backend = ManualClock(), MemoryBackend()
    monitor = Monitor(backend, notifiers=[], clock=clock)
    backend.signals._change = lambda *_: 1 / 0
    clock.sleep = lambda _: monitor.stop()
    monitor.run()
    assert ["the monitor failed, trying again"] == caplog.messages


def test_clock_of_the_store_that_is_set_back_is_logged(fleet, caplog):
    """Once, with by how much."""
    monitor = fleet.monitor()
    fleet.call(monitor.run_once)
    fleet.clock.move_to(ManualClock().now().replace(year=2025, month=12, day=31, hour=23))
    for _ in range(2):
        feed(monitor, handled())
        fleet.call(monitor.run_once)
    assert ["the store's clock was set back by 3600 s; what was counted stays, and counting goes on"] == caplog.messages
    assert 2 == fleet.backend.signals.get("default").within(300)["sent"]


def test_monitors_of_different_names_do_not_see_each_other(fleet):
    """Two applications on one backend."""
    rules = [BreakerOpens()]
    mail, billing = (fleet.monitor(name, name=name, rules=rules) for name in ("mail", "billing"))
    mail(breaker("open"))
    fleet.call(mail.run_once)
    assert [] == fleet.call(billing.run_once)


def test_code_that_was_told_is_not_told_again_by_a_new_process(fleet):
    """Nor after a restart of everything; another provider's is another one."""
    for name in ("first", "second"):
        monitor = fleet.monitor(name, rules=[UnknownCodesAppear()])
        monitor(unknown("X1"))
        fleet.call(monitor.run_once)
        fleet.clock.advance("2h")
        fleet.call(monitor.run_once)
    monitor(unknown("X1", "backup"))
    fleet.call(monitor.run_once)
    assert ["unknown-code:ses: X1"] * 2 + ["unknown-code:backup: X1"] == [key for *_, key in fleet.told]


def test_poison_messages_are_told_one_by_one_and_many_together(fleet):
    """The engineer on duty knows of the first ones by name."""
    monitor = fleet.monitor()
    feed(monitor, *(quarantined(number) for number in range(8)))
    fleet.call(monitor.run_once)
    assert [f"poison-message:m-{number}#1" for number in range(5)] + ["poison-message:*"] == [
        key for *_, key in fleet.told
    ]


def test_log_is_told_unless_somebody_else_is(caplog):
    """Pages as errors, tickets as warnings, what is over as information; the figures are beside it."""
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    monitor = Monitor(
        MemoryBackend(clock=clock),
        rules=[BreakerOpens(clear_after=0), UnknownCodesAppear()],
        clock=clock,
    )
    feed(monitor, breaker("open"), unknown("X1"))
    monitor.run_once()
    feed(monitor, breaker("closed"))
    monitor.run_once()
    monitor.run_once()
    assert [
        (logging.ERROR, "retrykit.alerts"),
        (logging.WARNING, "retrykit.alerts"),
        (logging.INFO, "retrykit.alerts"),
    ] == [(record.levelno, record.name) for record in caplog.records]
    assert "firing breaker-opens: the breaker of ses is open; first: retrykit runbook --since 15m" == caplog.messages[0]
    assert "resolved breaker-opens: the breaker of ses is open" == caplog.messages[2]
    assert "breaker-opens:ses" == caplog.records[0].alert["key"]


async def coroutine(alert): ...


class _Judge:
    """A rule that is no `Rule`."""

    def __init__(self, terms, **changes):
        self.terms = attrs.evolve(terms, **changes) if changes else terms

    def judge(self, signals, firing):
        return []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"notifiers": print}, "notifiers is <built-in function print>; allowed is a list of functions"),
        ({"notifiers": 5}, "notifiers is 5; allowed is a list of functions"),
        ({"notifiers": None}, "notifiers is None; allowed is a list of functions"),
        ({"notifiers": "https://host/s3cret"}, "notifiers is of type str; allowed is a list of functions"),
        ({"notifiers": ["https://host/s3cret"]}, "a notifier is of type str; allowed are functions of one alert"),
        ({"notifiers": [5]}, "a notifier is 5; allowed are functions of one alert, such as LogNotifier()"),
        ({"notifiers": [LogNotifier]}, "a notifier is <class 'retrykit.monitor.notifiers.LogNotifier'>; allowed are"),
        ({"notifiers": [coroutine]}, "a notifier is the coroutine function coroutine; use AsyncMonitor for it"),
        ({"rules": [print]}, "a rule is <built-in function print>; allowed are rules such as DeadLettersJump()"),
        ({"rules": [BreakerOpens(), BreakerOpens(primary=["a"])]}, "two rules are called 'breaker-opens'"),
        ({"rules": [BreakerOpens]}, "a rule is the class BreakerOpens; allowed is a rule made of it: BreakerOpens()"),
        ({"rules": None}, "rules is None; allowed is a list of rules, for example [DeadLettersJump()]"),
        ({"rules": BreakerOpens()}, "rules is BreakerOpens("),
        ({"rules": [_Judge(5)]}, "a rule is "),
        ({"rules": [_Judge(BreakerOpens().terms, name="")]}, "the name of a rule is ''; allowed are 1 to 64 letters"),
        ({"interval": "3m"}, "interval is '3m'; allowed are durations of at most 2m"),
        ({"interval": None}, "interval is None; allowed are seconds"),
        ({"notifier_timeout": "2m"}, "notifier_timeout is '2m'; allowed are durations of at most 1m"),
        ({"clock": 5}, "clock is 5, which has no now()"),
        ({"interval": 0}, "interval is 0; allowed are finite durations > 0"),
        ({"notifier_timeout": 0}, "notifier_timeout is 0; allowed are finite durations > 0"),
    ],
)
def test_option_that_is_not_allowed_is_named(options, message):
    """With what is."""
    with pytest.raises(ConfigurationError) as caught:
        Monitor(open_backend("memory://"), **options)
    assert str(caught.value).startswith(message)


def test_backend_without_signals_and_name_that_is_none_are_refused():
    """At once."""
    with pytest.raises(ConfigurationError, match="which has no signals"):
        Monitor(object())
    with pytest.raises(ConfigurationError, match=r"the backend is None, which has no signals; .* open_backend\(url\)"):
        Monitor(None)
    with pytest.raises(ConfigurationError, match="the name"):
        Monitor(MemoryBackend(), name="")


def test_backend_of_the_other_colour_is_refused():
    """When the monitor is made."""
    for make in (lambda: Monitor(as_async(MemoryBackend())), lambda: AsyncMonitor(MemoryBackend())):
        with pytest.raises(
            ConfigurationError, match=r"takes a synchronous one, an AsyncMonitor an asynchronous one: as_async"
        ):
            make()


def test_many_monitors_at_once_tell_once(tmp_path):
    """On one file, each with connections of its own."""
    path, told = tmp_path / "fleet.db", []
    backends = [SQLiteBackend(path, synchronous="normal") for _ in range(6)]
    monitors = [Monitor(each, notifiers=[told.append], rules=[BreakerOpens()]) for each in backends]
    barrier = threading.Barrier(len(monitors))

    def work(monitor):
        monitor(breaker("open"))
        barrier.wait(30)
        for _ in range(5):
            monitor.run_once()

    threads = [threading.Thread(target=work, args=(monitor,)) for monitor in monitors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ["breaker-opens:ses"] == [alert.key for alert in told]
    assert {"processes": 6}.items() <= backends[0].signals.get("default").alerts()[0].evidence.items()
    for backend in backends:
        backend.close()


KILLED = """
import os, sys
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.events import BreakerChanged
from retrykit.monitor import Monitor
from retrykit.testing import ManualClock

def die(alert):
    os.kill(os.getpid(), 9)

clock = ManualClock()
monitor = Monitor(SQLiteBackend(sys.argv[1], clock=clock), notifiers=[die], clock=clock)
monitor(BreakerChanged(at=clock.now(), name="ses", before="closed", after="open"))
monitor.run_once()
"""


def test_process_that_is_killed_while_it_tells_is_replaced(tmp_path):
    """It had decided that the alert fires; another one tells of it, once."""
    path, clock, told = tmp_path / "fleet.db", ManualClock(), []
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=50)
    assert -9 == done.returncode
    backend = SQLiteBackend(path, clock=clock)
    monitor = Monitor(backend, notifiers=[told.append], clock=clock)
    expected = [0, 0, 1, 1]
    for seconds, count in zip((0, 119, 2, 60), expected, strict=True):
        clock.advance(seconds)
        monitor.run_once()
        assert count == len(told)
    backend.close()


def test_poison_message_of_a_real_dispatcher_wakes_somebody():
    """From three lost workers to the alert."""
    clock = ManualClock()
    backend, told = MemoryBackend(clock=clock), []
    monitor = Monitor(backend, notifiers=[told.append], clock=clock)
    dispatcher = Dispatcher(lambda *_: None, backend=backend, on_event=[monitor], clock=clock)
    message = Message("killer", {"n": 1}, {})
    for number in range(3):
        backend.claims.claim(message.id, owner=f"host:{number}/1", fingerprint=message.fingerprint, lease=30)
        clock.advance("30s")
    assert "dead_lettered" == dispatcher.handle(message).kind.value
    (alert,) = monitor.run_once()
    assert ("poison-message:killer#1", "page", "firing") == (alert.key, alert.severity.value, alert.state.value)
    assert [alert] == told
    assert "3 workers were lost while they had this message" in str(alert.evidence)
    assert "retrykit dlq show 'killer#1'" == alert.commands[-1]
