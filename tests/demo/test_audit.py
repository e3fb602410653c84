"""The audit finds what is wrong: each fault is made on purpose in a day that was right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from tests.capabilities import require

require("aiosmtpd")

from retrykit.classification import EventKind
from retrykit.delivery import Sent
from retrykit.demo.audit import Audit
from retrykit.stores import DeliveryEvent

from .small_day import SmallDay


@pytest.fixture
def day(tmp_path: Path) -> Iterator[SmallDay]:
    """Give a day at whose end everything is as it has to be."""
    small = SmallDay(tmp_path).live().reconcile()
    yield small
    small.close()


def wrong(audit: Audit) -> dict[str, int]:
    """Return the counts that have to be zero and are not."""
    names = "lost in_two_places sent_twice unexpected unknown_left events_unseen disagreeing misbilled".split()
    counts = {name: getattr(audit, name) for name in names}
    found = audit.reconciled
    counts |= {f"reconciled_{name}": getattr(found, name) for name in ("missing", "unexpected", "conflicting")}
    return {name: count for name, count in counts.items() if count}


def tell(day: SmallDay, message_id: str, kind: EventKind) -> None:
    """Put into the delivery log what no provider has told."""
    event = DeliveryEvent(
        message_id=message_id, kind=kind, provider="main", event_id="forged", at=day.clock.now(), error_code="550"
    )
    day.backend.deliveries.apply(event)


def test_audit_of_a_right_day_passes_and_counts_what_happened(day: SmallDay) -> None:
    """The lost event was found, every status is the provider's, and each delivered message has one bill."""
    audit = day.audit()
    assert (audit.passed, wrong(audit), audit.problems) == (True, {}, [])
    assert (audit.messages, audit.accepted, audit.events) == (5, 5, 8)
    assert (audit.events_lost, audit.events_found) == (1, 1)
    assert (audit.delivered, audit.bills) == (4, 4)
    assert audit.statuses == {"bounced_permanent": 1, "delivered": 4}
    found = audit.reconciled
    assert (found.windows, found.events, found.matched) == (len(day.windows), 8, 5)
    assert all(result.as_expected == result.messages for result in audit.scenarios)


def test_audit_as_json_has_every_count(day: SmallDay) -> None:
    """What the audit knows stands in the JSON under its name."""
    audit = day.audit()
    shown = audit.to_dict()
    assert (shown["passed"], shown["events_found"], shown["bills"]) == (True, 1, 4)
    assert shown["reconciled"] == {
        "windows": len(day.windows),
        "events": 8,
        "matched": 5,
        "missing": 0,
        "unexpected": 0,
        "conflicting": 0,
    }
    assert set(shown) == {each for each in dir(audit) if not each.startswith("_") and each != "to_dict"}


def billed_twice(day: SmallDay) -> None:
    """Bill a message around the guard."""
    day.change("INSERT INTO bills (message_id, billed_at) VALUES ('plain', '')")


def not_billed(day: SmallDay) -> None:
    """Take a bill away."""
    day.change("DELETE FROM bills WHERE message_id = 'events_lost'")


def billed_without_delivery(day: SmallDay) -> None:
    """Bill what bounced."""
    day.change("INSERT INTO bills (message_id, billed_at) VALUES ('bounced_later', '')")


def billed_unknown(day: SmallDay) -> None:
    """Bill what nobody has sent."""
    day.change("INSERT INTO bills (message_id, billed_at) VALUES ('nobody', '')")


def sent_twice(day: SmallDay) -> None:
    """Let the provider take a message again; what it tells of that is not taken in."""
    day.mailroom.accept("main", "plain")


def called_bounced(day: SmallDay) -> None:
    """Let the log say that a delivered message has bounced."""
    tell(day, "plain", EventKind.BOUNCED)


def complained_of(day: SmallDay) -> None:
    """Let the log know of a complaint that the provider does not know."""
    tell(day, "plain", EventKind.COMPLAINED)


@pytest.mark.parametrize(
    ("fault", "counts", "problem"),
    [
        (billed_twice, {"misbilled": 1}, "plain (plain) was billed 2 times, and delivered 1 times"),
        (not_billed, {"misbilled": 1}, "events_lost (events_lost) was billed 0 times, and delivered 1 times"),
        (billed_without_delivery, {"misbilled": 1}, "was billed 1 times, and delivered 0 times"),
        (billed_unknown, {"misbilled": 1}, None),
        (sent_twice, {"sent_twice": 1, "events_unseen": 1}, "plain (plain) was accepted 2 times"),
        (called_bounced, {"unexpected": 1, "disagreeing": 1}, "and by the provider delivered"),
        (complained_of, {"disagreeing": 1}, "a complaint that only the log, or only the provider, knows of"),
    ],
)
def test_audit_of_a_day_with_a_fault_fails_and_tells_of_it(
    day: SmallDay, fault: Callable[[SmallDay], None], counts: dict[str, int], problem: str | None
) -> None:
    """One thing is wrong: the audit fails, counts it where it belongs, and names the message."""
    fault(day)
    audit = day.audit()
    assert (audit.passed, wrong(audit)) == (False, counts)
    assert problem is None or any(problem in each for each in audit.problems)


def test_audit_of_an_event_that_is_lost_for_good_fails(tmp_path: Path) -> None:
    """Nobody has read the provider's own log: the event is unseen, the status is another, and the bill is missing."""
    day = SmallDay(tmp_path).live()
    audit = day.audit()
    assert (audit.passed, audit.events_lost, audit.events_found) == (False, 1, 0)
    assert wrong(audit) == {"unexpected": 1, "events_unseen": 1, "disagreeing": 1, "misbilled": 1}
    assert all(each.startswith("events_lost (events_lost)") for each in audit.problems)
    day.close()


def test_audit_of_a_send_that_no_provider_knows_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker says that it was sent, and the provider tells nothing: the reconciler misses it."""
    day = SmallDay(tmp_path, ["plain"])
    monkeypatch.setattr(day, "send", lambda message, key: Sent(f"main-{key}", "main"))
    audit = day.live().reconcile().audit()
    assert (audit.passed, audit.accepted) == (False, 0)
    assert wrong(audit) == {"unexpected": 1, "disagreeing": 1, "reconciled_missing": 1}
    assert any(each.startswith("plain is missing: ") for each in audit.problems)
    day.close()


def test_audit_of_a_send_that_another_provider_knows_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has it as sent by one provider, and another one tells of it: that is conflicting, whatever it ends in."""
    day = SmallDay(tmp_path, ["events_lost"])
    send = day.send
    monkeypatch.setattr(day, "send", lambda message, key: attrs.evolve(send(message, key), provider="backup"))
    audit = day.live().reconcile().audit()
    assert (audit.passed, wrong(audit)) == (False, {"reconciled_conflicting": 1})
    assert audit.problems == [
        "events_lost is conflicting: the log has it as sent by 'backup', and 'main' has it too",
    ]
    day.close()


def test_audit_of_a_message_that_only_the_provider_knows_fails(tmp_path: Path) -> None:
    """The provider has taken a message that the application did not send: it is unexpected, and its bill is wrong."""
    day = SmallDay(tmp_path, ["plain", "complained_of"])
    day.messages = day.messages[:1]
    day.mailroom.accept("main", "complained_of")
    audit = day.live().reconcile().audit()
    assert (audit.passed, wrong(audit)) == (False, {"events_unseen": 2, "reconciled_unexpected": 1, "misbilled": 1})
    assert len(audit.problems) == 1
    assert audit.problems[0].startswith("complained_of is unexpected: ")
    day.close()


def test_audit_of_a_day_whose_windows_left_an_event_out_fails(day: SmallDay) -> None:
    """Everything is right at the end, and all the same the reconciler has not read each event once."""
    del day.windows[0]
    audit = day.audit()
    assert (audit.passed, wrong(audit)) == (False, {})
    assert audit.reconciled.events < audit.events
