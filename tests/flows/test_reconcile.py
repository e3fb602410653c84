"""What the provider tells beside what the log says: windows, mismatches, and outcomes that nobody was sure of."""

from __future__ import annotations

import asyncio
import logging
import smtplib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

from retrykit import Dispatcher, Message
from retrykit.backends.memory import MemoryBackend
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.classification import EventKind, ProviderEvent
from retrykit.decision import DispositionKind
from retrykit.delivery import NotAccepted, Sent
from retrykit.delivery.sources import EventList
from retrykit.errors import ConfigurationError, EventSourceError, RetrykitError, StoreError, StoreUnavailableError
from retrykit.events import DeliveryMismatch, Event, MessageHandled, OutcomeVerified
from retrykit.reconcile import AsyncReconciler, Reconciler, ReconcileReport
from retrykit.stores import ClaimState, Delivery, DeliveryStatus, as_async
from retrykit.testing import ManualClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
S, K = DeliveryStatus, EventKind


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def told(
    message_id: str | None, minutes: float | None = 0, kind: EventKind = K.DELIVERED, **fields: Any
) -> ProviderEvent:
    when = None if minutes is None else at(minutes)
    return ProviderEvent(provider="ses", kind=kind, message_id=message_id, at=when, **fields)


class Scene:
    """A backend, its clock, and a reconciler over some events.

    Args:
        colour: "sync", "coroutine" or "generator": how the events are asked for.
    """

    def __init__(self, colour: str) -> None:
        self.colour = colour
        self.clock = ManualClock(at(180))
        self.backend = MemoryBackend(clock=self.clock)
        self.events: list[ProviderEvent] = []
        self.asked: list[tuple[datetime, datetime]] = []
        self.heard: list[Event] = []

    def _source(self, start: datetime, end: datetime) -> Iterable[ProviderEvent]:
        self.asked.append((start, end))
        return EventList(self.events)(start, end)

    def reconciler(self, events: Any = None, **options: Any) -> Any:
        """Return a reconciler, called as a synchronous one, whose first window begins at noon."""
        options = {"clock": self.clock, "on_event": [self.heard.append], "since": NOON, **options}
        source = events or self._source
        if self.colour == "sync":
            return Reconciler(self.backend, events=source, **options)

        async def coroutine(start: datetime, end: datetime) -> Iterable[ProviderEvent]:
            return cast("Iterable[ProviderEvent]", source(start, end))

        async def generator(start: datetime, end: datetime) -> Any:
            for event in source(start, end):
                await asyncio.sleep(0)
                yield event

        ask = coroutine if self.colour == "coroutine" else generator
        return Blocking(AsyncReconciler(as_async(self.backend), events=ask, **options))

    def sent(self, message_id: str, minutes: float = 0, **fields: Any) -> None:
        """Report a message as sent."""
        self.report(message_id, S.SENT_TO_PROVIDER, minutes, **{"provider": "ses", **fields})

    def report(self, message_id: str, status: DeliveryStatus, minutes: float = 0, **fields: Any) -> None:
        delivery = Delivery(message_id=message_id, status=status, version=1, updated_at=at(minutes), **fields)
        self.backend.deliveries.record(delivery)

    @property
    def mismatches(self) -> list[DeliveryMismatch]:
        return [event for event in self.heard if isinstance(event, DeliveryMismatch)]


class Blocking:
    """An asynchronous reconciler, called from synchronous code."""

    def __init__(self, reconciler: AsyncReconciler) -> None:
        self._reconciler = reconciler

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._reconciler, name)
        return method if name == "stop" else lambda *args: asyncio.run(method(*args))


@pytest.fixture(params=["sync", "coroutine", "generator"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(request.param)


def counts(report: ReconcileReport) -> tuple[int, int, int, int]:
    return report.matched, report.missing, report.unexpected, report.conflicting


def test_window_tells_what_matches_and_what_does_not(scene: Scene) -> None:
    """By message, in one report, and each mismatch to the listeners; the events are applied to the log."""
    for message_id in ("a", "b", "lost"):
        scene.sent(message_id, 5)
    scene.report("given-up", S.FAILED_INTERNAL, 5)
    scene.events = [
        told("a", 5, K.ACCEPTED, event_id="1"),
        told("a", 9, event_id="2"),
        told("b", 9, K.BOUNCED),
        told("strange", 6),
        told("given-up", 7),
        told(None, 8, provider_id="p-9"),
    ]
    report = scene.reconciler().compare(NOON, at(60))
    assert (2, 1, 2, 1) == counts(report)
    assert (6, (NOON, at(60)), False) == (report.events, report.window, report.is_clean)
    expected = [
        ("unexpected", "strange", None, "'ses' tells of it, and the log does not know it"),
        ("conflicting", "given-up", None, "the log has it as failed_internal, and 'ses' has taken it"),
        ("unexpected", None, "p-9", "'ses' tells of it, and the log does not know it"),
        (
            "missing",
            "lost",
            None,
            "the log has it as sent at 2026-01-01T12:05:00.000Z, and the provider tells nothing of it",
        ),
    ]
    assert expected == [(each.kind, each.message_id, each.provider_id, each.detail) for each in report.mismatches]
    assert list(report.mismatches) == scene.mismatches
    log = scene.backend.deliveries
    assert {S.DELIVERED: 3, S.BOUNCED_PERMANENT: 1, S.SENT_TO_PROVIDER: 1} == log.counts()


def test_window_compared_again_tells_what_stands(scene: Scene) -> None:
    """What was applied matches now; what is missing or unexpected still is."""
    scene.sent("lost")
    scene.report("given-up", S.FAILED_INTERNAL)
    scene.events = [told("strange"), told("given-up")]
    reconciler = scene.reconciler()
    assert [(0, 1, 1, 1), (1, 1, 1, 0)] == [counts(reconciler.compare(NOON, at(60))) for _ in range(2)]


def test_message_is_counted_once_whatever_is_told_of_it(scene: Scene) -> None:
    """A conflict outweighs what matches, and is told once."""
    scene.sent("a", provider_id="p-1")
    scene.events = [told("a", minutes, provider_id=f"p-{minutes}") for minutes in (1, 2, 3, 2)]
    report = scene.reconciler().compare(NOON, at(60))
    assert ((0, 0, 0, 1), 4, 1) == (counts(report), report.events, len(scene.mismatches))
    assert "it may have been sent twice" in report.mismatches[0].detail


def test_event_after_the_window_shows_that_nothing_is_missing(scene: Scene) -> None:
    """It is waited for, applied, and counted in its own window."""
    scene.sent("a", 59)
    scene.events = [told("a", 61)]
    reports = [scene.reconciler().compare(at(start), at(start + 60)) for start in (0, 60)]
    assert [((0, 0, 0, 0), 0), ((1, 0, 0, 0), 1)] == [(counts(report), report.events) for report in reports]
    assert [(NOON, at(120)), (at(60), at(180))] == scene.asked


def test_event_without_a_time_counts_in_the_window_it_came_with(scene: Scene) -> None:
    """Its source says that it belongs there."""
    scene.sent("a")
    scene.events = [told("a", None)]
    assert counts(scene.reconciler().compare(NOON, at(60))) == (1, 0, 0, 0)


def test_message_that_something_was_told_of_is_not_missing(scene: Scene) -> None:
    """Its events came by webhook, in another window or without an id of ours."""
    for number, message_id in enumerate(("webhook", "found", "other-provider", "no-provider")):
        scene.sent(message_id, provider_id=f"p-{number}")
    scene.report("other", S.SENT_TO_PROVIDER, provider="mailgun")
    scene.backend.deliveries.apply(scene_event("webhook", K.ACCEPTED))
    scene.events = [told(None, provider_id="p-1")]
    report = scene.reconciler(provider="ses").compare(NOON, at(60))
    assert ["no-provider", "other-provider"] == [each.message_id for each in report.mismatches]
    report = scene.reconciler().compare(NOON, at(60))
    assert ["no-provider", "other", "other-provider"] == [each.message_id for each in report.mismatches]


def test_provider_is_the_same_in_any_case(scene: Scene) -> None:
    """However it is spelled where a name comes in; the bookmark is one as well."""
    scene.sent("lost", provider="SES", provider_id="p-1")
    scene.sent("told", provider="Ses", provider_id="p-2")
    scene.sent("other", provider="Mailgun")
    scene.events = [attrs.evolve(told(None, provider_id="p-2"), provider="sES")]
    for provider in ("ses", "SES", "Ses"):
        report = scene.reconciler(provider=provider).compare(NOON, at(60))
        assert ((1, 1, 0, 0), 1) == (counts(report), report.elsewhere), provider
    scene.reconciler(provider="SES").run_once()
    assert at(60) == scene.backend.deliveries.bookmark("ses")


def scene_event(message_id: str, kind: EventKind) -> Any:
    from retrykit.stores import DeliveryEvent

    return DeliveryEvent(message_id=message_id, kind=kind, provider="ses", event_id="e-1", at=NOON)


def test_more_than_a_hundred_mismatches_are_counted_and_told(scene: Scene) -> None:
    """The report spells out the first hundred; pages are read on."""
    for number in range(1_201):
        scene.sent(f"m-{number:04}", number / 100)
    report = scene.reconciler().compare(NOON, at(60))
    assert (1_201, 100, 1_201) == (report.missing, len(report.mismatches), len(scene.mismatches))


def test_event_that_tells_nothing_counts_for_nothing(scene: Scene) -> None:
    """But that the provider knows the message: it is not missing."""
    scene.sent("a")
    scene.events = [told("a", 1, K.OTHER), told("b", 1, K.OTHER)]
    assert counts(scene.reconciler().compare(NOON, at(60))) == (0, 0, 0, 0)
    assert scene.backend.deliveries.get("b") is None


# Windows, one after the other


def test_windows_go_on_from_a_bookmark(scene: Scene) -> None:
    """Each once, whoever runs them, and none before its events may be there."""
    reconciler = scene.reconciler(patience="30m")
    windows = [(reconciler.run_once().window, scene.reconciler(patience="30m").run_once().is_behind) for _ in range(2)]
    assert [((NOON, at(60)), False), (None, False)] == windows
    assert at(120) == scene.backend.deliveries.bookmark("all providers")
    scene.clock.move_to(at(209))
    assert reconciler.run_once().window is None
    scene.clock.move_to(at(210))
    assert (at(120), at(180)) == reconciler.run_once().window


def test_report_says_whether_another_window_is_due(scene: Scene) -> None:
    """Then run it again at once."""
    scene.clock.move_to(at(300))
    reconciler = scene.reconciler()
    assert [True, True, True, False] == [reconciler.run_once().is_behind for _ in range(4)]


def test_each_provider_has_a_bookmark_of_its_own(scene: Scene) -> None:
    """Their events come from different places."""
    scene.reconciler(provider="ses").run_once()
    bookmarks = [scene.backend.deliveries.bookmark(name) for name in ("ses", "mailgun", "all providers")]
    assert [at(60), None, None] == bookmarks


def test_first_window_begins_where_a_message_may_still_be_on_its_way(scene: Scene) -> None:
    """At the policy's greatest age, on a whole window, so that several reconcilers have the same ones."""
    scene.clock.advance("17m")
    report = scene.reconciler(since=None).run_once()
    assert (at(180) - timedelta(days=3), at(240) - timedelta(days=3)) == report.window


def test_source_that_fails_moves_no_bookmark(scene: Scene) -> None:
    """Asked, or in the middle; what was applied stands, and the window is compared again."""
    scene.sent("a")

    def failing(start: datetime, _end: datetime) -> Iterator[ProviderEvent]:
        yield told("a")
        raise TimeoutError("no answer for token=SECRET")

    with pytest.raises(EventSourceError, match=r"all providers.*2026-01-01T12:00.*TimeoutError$") as caught:
        scene.reconciler(failing).run_once()
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert "SECRET" not in str(caught.value)
    assert scene.backend.deliveries.bookmark("all providers") is None
    assert scene.backend.deliveries.counts() == {S.DELIVERED: 1}

    def refusing(start: datetime, end: datetime) -> list[ProviderEvent]:
        raise PermissionError("401")

    with pytest.raises(EventSourceError, match=r"PermissionError$"):
        scene.reconciler(refusing).run_once()

    def careless(start: datetime, end: datetime) -> list[ProviderEvent]:
        return [ProviderEvent(provider="ses", kind=cast("Any", "nope"))]

    with pytest.raises(EventSourceError, match="the kind of event is 'nope'"):
        scene.reconciler(careless).run_once()
    with pytest.raises(EventSourceError, match="TypeError"):
        scene.reconciler(lambda start, end: None).run_once()
    scene.events = [told("a")]
    assert counts(scene.reconciler().run_once()) == (1, 0, 0, 0)


def test_source_of_something_else_is_refused(scene: Scene) -> None:
    """Events are parsed before they come here."""
    with pytest.raises(ConfigurationError, match="gave dict; allowed are ProviderEvents"):
        scene.reconciler(lambda start, end: [{"event": "delivered"}]).compare(NOON, at(60))


def test_run_goes_on_after_a_source_that_fails_and_stops_when_told(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits while nothing is due."""
    fails = iter([True, False, False, False])
    scene.clock.move_to(at(240))

    def source(start: datetime, end: datetime) -> list[ProviderEvent]:
        if next(fails):
            raise TimeoutError("no answer")
        if start == at(120):
            reconciler.stop()
        return []

    reconciler = scene.reconciler(source, poll="10s")
    with caplog.at_level(logging.WARNING, "retrykit.reconcile"):
        reconciler.run()
    assert at(180) == scene.backend.deliveries.bookmark("all providers")
    assert "TimeoutError" in caplog.text
    assert "no answer" not in caplog.text
    assert scene.clock.now() == at(240) + timedelta(seconds=10)


# What an event proves


def claimed(scene: Scene, fail: Exception, message_id: str = "m") -> None:
    """Let a message fail."""

    def send(message: Message, key: str) -> None:
        raise fail

    Dispatcher(send, backend=scene.backend, clock=scene.clock).handle(Message(message_id, {"n": 1}))


@pytest.mark.parametrize(
    ("failure", "state"),
    [
        (ConnectionRefusedError("no"), ClaimState.WAITING),
        (TimeoutError("lost"), ClaimState.UNKNOWN),
        (smtplib.SMTPDataError(554, b"5.7.1 refused as spam"), ClaimState.DONE),
    ],
)
def test_event_of_a_message_that_was_not_known_as_sent_settles_its_claim(
    scene: Scene, failure: Exception, state: ClaimState
) -> None:
    """It is not sent again, and its dead letter is resolved."""
    claimed(scene, failure)
    before = scene.backend.claims.get("m")
    assert before is not None
    assert state is before.state
    scene.clock.advance("3h")
    scene.events = [told("m", 185, provider_id="p-1")]
    report = scene.reconciler().compare(at(180), at(240))
    assert counts(report) == ((1, 0, 0, 0) if state is ClaimState.UNKNOWN else (0, 0, 0, 1))
    after = scene.backend.claims.get("m")
    assert after is not None
    assert (ClaimState.DONE, DispositionKind.SENT, "ses", "p-1") == (
        after.state,
        after.disposition,
        after.provider,
        after.provider_id,
    )
    handled = [event.disposition.kind for event in scene.heard if isinstance(event, MessageHandled)]
    assert handled == [DispositionKind.SENT]
    states = [letter.state.value for letter in scene.backend.dead_letters.search().letters]
    assert states == (["resolved"] if state is ClaimState.DONE else [])
    sends: list[str] = []
    again = Dispatcher(lambda message, key: sends.append(key), backend=scene.backend, clock=scene.clock)
    assert again.handle(Message("m", {"n": 1})).kind is DispositionKind.DUPLICATE
    assert sends == []


def test_event_of_a_message_without_a_claim_makes_none(scene: Scene) -> None:
    """An application that keeps the log alone has no claims."""
    scene.report("m", S.DEFERRED)
    scene.events = [told("m")]
    assert counts(scene.reconciler().compare(NOON, at(60))) == (0, 0, 0, 1)
    assert scene.backend.claims.get("m") is None


def test_bounce_of_a_bounced_message_confirms_nothing(scene: Scene) -> None:
    """Both say that it did not arrive."""
    scene.report("m", S.BOUNCED_PERMANENT)
    scene.events = [told("m", 1, K.REJECTED)]
    assert counts(scene.reconciler().compare(NOON, at(60))) == (1, 0, 0, 0)
    assert scene.backend.claims.get("m") is None


# Without a claim


def test_messages_without_a_claim_that_are_stuck_are_asked_about() -> None:
    """Those in processing or unknown for longer than `stuck_after`; none of them is repeated."""
    scene = Scene("sync")
    for minutes, name in enumerate(("accepted", "not", "unsure", "broken"), start=100):
        scene.report(name, S.PROCESSING, minutes)
    scene.report("u", S.UNKNOWN, 100)
    scene.report("young", S.PROCESSING, 170)
    scene.report("waits", S.DEFERRED, 100)

    def lookup(key: str) -> Sent | NotAccepted | None:
        if key == "broken":
            raise TimeoutError("no answer")
        return {"accepted": Sent("p-1", "ses"), "not": NotAccepted(), "u": Sent()}.get(key)

    reconciler = Reconciler(scene.backend, lookup=lookup, clock=scene.clock, on_event=[scene.heard.append])
    assert reconciler.run_once() == ReconcileReport(sent=2, not_sent=1, unsure=2)
    log = scene.backend.deliveries
    stands = {name: log.get(name) for name in ("accepted", "not", "unsure", "broken", "u", "young", "waits")}
    assert {
        "accepted": S.SENT_TO_PROVIDER,
        "not": S.FAILED_INTERNAL,
        "unsure": S.UNKNOWN,
        "broken": S.UNKNOWN,
        "u": S.SENT_TO_PROVIDER,
        "young": S.PROCESSING,
        "waits": S.DEFERRED,
    } == {name: each.status for name, each in stands.items() if each}
    asked = {event.message_id: event.accepted for event in scene.heard if isinstance(event, OutcomeVerified)}
    assert {"accepted": True, "not": False, "unsure": None, "broken": None, "u": True} == asked


def test_stuck_messages_take_turns() -> None:
    """Some that nobody can tell of do not hide those behind them, and what is too old is left to a person."""
    scene = Scene("sync")
    for number in range(5):
        scene.report(f"m-{number}", S.UNKNOWN, number)
    scene.report("old", S.UNKNOWN, -5 * 24 * 60)
    asked: list[str] = []
    reconciler = Reconciler(scene.backend, lookup=asked.append, clock=scene.clock)
    reports = [reconciler.run_once(limit=2) for _ in range(4)]
    assert [(2, True), (2, True), (1, False), (0, False)] == [(each.unsure, each.is_behind) for each in reports]
    scene.clock.advance("15m")
    assert 2 == reconciler.run_once(limit=2).unsure, "the next round"
    assert ["m-0", "m-1", "m-2", "m-3", "m-4", "m-0", "m-1"] == asked


def test_more_unknown_outcomes_than_the_limit_are_gone_on_with_at_once() -> None:
    """A report that is behind says so, until all whose time has come were asked about."""
    scene = Scene("sync")
    for number in range(5):
        claimed(scene, TimeoutError("lost"), f"m-{number}")
    scene.clock.advance("1h")
    reconciler = Reconciler(scene.backend, lookup=lambda _: None, clock=scene.clock)
    reports = [reconciler.run_once(limit=2) for _ in range(4)]
    assert [(2, True), (2, True), (1, False), (0, False)] == [(each.unsure, each.is_behind) for each in reports]


def test_limit_of_zero_settles_nothing() -> None:
    """Who has no lookup at hand leaves the asking to those who have one."""
    scene = Scene("sync")
    claimed(scene, TimeoutError("lost"))
    scene.report("stuck", S.UNKNOWN, 0)
    asked: list[str] = []
    scene.clock.advance("2h")
    reconciler = Reconciler(scene.backend, lookup=asked.append, clock=scene.clock)
    assert ReconcileReport() == reconciler.run_once(limit=0)
    assert [] == asked


def test_message_with_a_claim_is_left_to_its_claim() -> None:
    """What was given up without anybody knowing stays unknown in the log, and is not asked about for ever."""
    scene = Scene("sync")
    claimed(scene, TimeoutError("lost"))
    record = scene.backend.claims.get("m")
    assert record is not None
    asked: list[str] = []
    reconciler = Reconciler(scene.backend, lookup=asked.append, clock=scene.clock)
    scene.clock.advance("4d")
    assert reconciler.run_once() == ReconcileReport(given_up=1)
    scene.clock.advance("1h")
    assert reconciler.run_once() == ReconcileReport()
    assert asked == ["m"]


# Reports


def test_reports_of_several_runs_are_added() -> None:
    """The counts are summed, the window goes from the first to the last, and what comes after the hundredth mismatch is counted only."""
    mismatch = DeliveryMismatch(
        at=NOON, kind="missing", message_id="m", provider="ses", provider_id=None, detail="nothing is told of it"
    )
    first = ReconcileReport(
        events=2, matched=1, missing=60, mismatches=(mismatch,) * 60, window=(at(0), at(60)), is_behind=True
    )
    second = ReconcileReport(sent=1, missing=60, mismatches=(mismatch,) * 60, window=(at(60), at(120)))
    total = sum((first, second, ReconcileReport(unsure=1)), ReconcileReport())
    assert (2, 1, 120, 1, 1) == (total.events, total.matched, total.missing, total.sent, total.unsure)
    assert (100, (at(0), at(120)), False) == (len(total.mismatches), total.window, total.is_behind)


def test_report_as_json_has_instants_as_text() -> None:
    """It is what `retrykit reconcile --json` prints."""
    mismatch = DeliveryMismatch(
        at=NOON, kind="unexpected", message_id=None, provider="ses", provider_id="p1", detail="the log does not know it"
    )
    report = ReconcileReport(unexpected=1, mismatches=(mismatch,), window=(at(0), at(60))).to_dict()
    noon = "2026-01-01T12:00:00.000Z"
    assert [noon, "2026-01-01T13:00:00.000Z"] == report["window"]
    assert (1, False) == (report["unexpected"], report["is_clean"])
    assert [
        {
            "at": noon,
            "kind": "unexpected",
            "message_id": None,
            "provider": "ses",
            "provider_id": "p1",
            "detail": "the log does not know it",
        }
    ] == report["mismatches"]
    assert ReconcileReport().to_dict()["window"] is None


# Bad input


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"window": 0}, "window"),
        ({"patience": -1}, "patience"),
        ({"stuck_after": 0}, "stuck_after"),
        ({"lease": "0s"}, "lease"),
        ({"poll": 0}, "poll"),
        ({"since": datetime(2026, 1, 1)}, "since"),  # noqa: DTZ001
        ({"provider": ""}, "provider"),
        ({"events": 3}, "events"),
        ({"lookup": "ses"}, "lookup"),
        ({"on_event": 3}, "on_event"),
    ],
)
def test_option_that_is_not_allowed_is_refused(options: dict[str, Any], said: str) -> None:
    """When the reconciler is made, by its name."""
    with pytest.raises(ValueError, match=said):
        Reconciler(MemoryBackend(), **options)


def test_option_that_there_is_not_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(TypeError, match="no option 'windows'; allowed are provider, window"):
        Reconciler(MemoryBackend(), windows=3)  # type: ignore[call-arg]


def test_window_that_cannot_be_is_refused(scene: Scene) -> None:
    """It has a source, a beginning and an end."""
    with pytest.raises(ConfigurationError, match="ends after it begins"):
        scene.reconciler().compare(at(1), at(1))
    with pytest.raises(ConfigurationError, match="naive"):
        scene.reconciler().compare(NOON.replace(tzinfo=None), at(1))
    with pytest.raises(ConfigurationError, match="give the reconciler events="):
        Reconciler(scene.backend).compare(NOON, at(1))


def test_limit_below_zero_is_refused(scene: Scene) -> None:
    """Before anything is done."""
    with pytest.raises(ConfigurationError, match="limit is -1; allowed are whole numbers >= 0"):
        scene.reconciler().run_once(-1)
    assert scene.asked == []


# Deaths


class DyingError(BaseException):
    """The process dies."""


def test_reconciler_that_dies_at_any_step_loses_nothing(tmp_path: Path) -> None:
    """The next one goes on from the bookmark; every mismatch is told at least once, and every message is settled."""
    steps = 0
    while True:
        scene = Scene("sync")
        backend = SQLiteBackend(tmp_path / f"{steps}.db", clock=scene.clock, synchronous="normal")
        scene.backend = cast("MemoryBackend", backend)
        scene.sent("a", 5)
        scene.sent("lost", 5)
        claimed(scene, ConnectionRefusedError("no"))
        scene.report("m", S.DEFERRED, 5)
        scene.events = [told("a", 6), told("m", 6), told("strange", 7)]
        died = False
        left = steps

        def dying(call: Callable[..., Any]) -> Callable[..., Any]:
            def made(*args: Any) -> Any:
                nonlocal left
                if left == 0:
                    raise DyingError
                left -= 1
                return call(*args)

            return made

        with pytest.MonkeyPatch.context() as patch:
            for store in (backend.claims, backend.deliveries, backend.dead_letters):
                for name in type(store).__mro__[1].__abstractmethods__:
                    patch.setattr(store, name, dying(getattr(store, name)))
            try:
                scene.reconciler().run_once()
            except DyingError:
                died = True
        kinds = {each.kind for each in scene.mismatches}
        scene.reconciler().run_once()
        if died:
            assert {"missing", "unexpected", "conflicting"} == kinds | {each.kind for each in scene.mismatches}
        claim = backend.claims.get("m")
        assert claim is not None
        assert claim.disposition is DispositionKind.SENT
        assert at(60) <= cast("datetime", backend.deliveries.bookmark("all providers"))
        assert {S.DELIVERED: 3, S.SENT_TO_PROVIDER: 1} == backend.deliveries.counts()
        backend.close()
        if not died:
            break
        steps += 1
    assert steps > 10


def test_store_that_fails_is_told(scene: Scene) -> None:
    """The window is compared again."""

    def gone(*_: object) -> Any:
        raise StoreUnavailableError("gone")

    scene.events = [told("a")]
    scene.backend.deliveries._record = gone  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="gone"):
        scene.reconciler().run_once()
    assert scene.backend.deliveries.bookmark("all providers") is None


# Wrong parts


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"matrix": "email"}, "the matrix is 'email'; allowed is a PolicyMatrix"),
        ({"matrix": None}, "the matrix is None"),
        ({"classifier": 5}, r"classifier is 5, which has no classify\(\)"),
        ({"clock": 5}, r"clock is 5, which has no now\(\)"),
        ({"provider": 5}, "provider"),
        ({"lookup": 5}, "lookup is 5; allowed is a function"),
        ({"events": [1]}, r"events is \[1\]; allowed is a function"),
    ],
)
@pytest.mark.parametrize("make", [Reconciler, AsyncReconciler])
def test_wrong_part_is_refused_by_its_name_at_once(make: Any, options: dict[str, Any], said: str) -> None:
    """Not in the first run."""
    backend = MemoryBackend()
    with pytest.raises(RetrykitError, match=said):
        make(backend if make is Reconciler else as_async(backend), **options)


@pytest.mark.parametrize("make", [Reconciler, AsyncReconciler])
def test_what_is_no_backend_is_refused(make: Any) -> None:
    """One of its stores, for example."""
    for wrong in (None, MemoryBackend().claims):
        with pytest.raises(ConfigurationError, match=r"the backend is .*; allowed is a backend with all its stores"):
            make(wrong)


def test_backend_of_the_other_colour_is_refused() -> None:
    """The error says what to use."""
    with pytest.raises(ConfigurationError, match="use AsyncReconciler for it"):
        Reconciler(cast("Any", as_async(MemoryBackend())))
    with pytest.raises(ConfigurationError, match=r"use as_async\(backend\) for it"):
        AsyncReconciler(cast("Any", MemoryBackend()))
