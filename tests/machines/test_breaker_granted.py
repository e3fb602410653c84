"""A breaker that somebody else leads: it lets through the probes that it was granted, and tells what they found."""

from __future__ import annotations

from retrykit.machines.breaker import BreakerEvent, BreakerState, Machine, Pass, Permit
from tests.machines.test_breaker import fail, machine


def led() -> Machine:
    breaker = machine(probes=2)
    fail(breaker, 0.0)
    breaker.led_until = 1000.0
    return breaker


def test_led_breaker_does_not_recover_by_itself_while_it_is_led() -> None:
    """When its leader falls silent it acts on its own evidence again."""
    breaker = led()
    assert (None, 0.0) == (breaker.admit(999.0), breaker.retry_after(999.0))
    assert breaker.admit(1000.0) is not None


def test_granted_probe_is_the_only_one_let_through() -> None:
    """One grant, one call, although it might let two through on its own."""
    breaker = led()
    breaker.grant(7, 20.0, 100.0)
    assert Permit(breaker.generation, 7) == breaker.admit(101.0)
    assert (BreakerState.HALF_OPEN, None) == (breaker.state, breaker.admit(101.0))


def test_granted_probe_success_is_told_and_closes_nothing() -> None:
    """Whether the circuit closes is the leader's to say."""
    breaker = led()
    breaker.grant(7, 20.0, 100.0)
    permit = breaker.admit(101.0)
    assert permit is not None
    breaker.succeeded(permit, 102.0)
    breaker.succeeded(permit, 102.0)
    assert ([(7, True)], BreakerState.HALF_OPEN) == (breaker.verdicts, breaker.state)


def test_granted_probe_failure_is_told_and_opens() -> None:
    """Its own eyes are enough to stop."""
    breaker = led()
    breaker.grant(7, 20.0, 100.0)
    permit = breaker.admit(101.0)
    assert permit is not None
    assert breaker.failed(permit, 102.0)
    assert ([(7, False)], BreakerState.OPEN) == (breaker.verdicts, breaker.state)


def test_granted_probe_that_tells_nothing_is_told_as_such() -> None:
    """A cancelled call gives the grant back."""
    breaker = led()
    breaker.grant(7, 20.0, 100.0)
    permit = breaker.admit(101.0)
    assert permit is not None
    breaker.released(permit)
    assert [(7, None)] == breaker.verdicts


def test_grant_is_good_for_its_time_only() -> None:
    """A grant that nobody used is over after its length, and so is the call that used it."""
    breaker = led()
    breaker.grant(7, 20.0, 100.0)
    assert None is breaker.admit(120.0)
    breaker.grant(8, 20.0, 200.0)
    permit = breaker.admit(219.0)
    assert permit is not None
    breaker.succeeded(permit, 220.0)
    assert [] == breaker.verdicts


def test_grant_of_a_closed_breaker_is_nothing() -> None:
    """Where every call is let through no probe is needed."""
    breaker = machine()
    breaker.grant(7, 20.0, 0.0)
    assert (BreakerState.CLOSED, Permit(0)) == (breaker.state, breaker.admit(0.0))


def test_pass_holds_a_permit_and_what_a_success_calls() -> None:
    """What wrappers read."""
    entered = Pass(Permit(3))
    assert (Permit(3), None) == (entered.permit, entered.note)


def test_hand_over_gives_verdicts_and_unused_grants_once() -> None:
    """A grant that no call has used tells nothing, and lets no call through afterwards."""
    breaker = led()
    breaker.grant(7, 20.0, 100.0)
    permit = breaker.admit(101.0)
    assert permit is not None
    breaker.succeeded(permit, 102.0)
    breaker.grant(8, 20.0, 102.0)
    assert ([(7, True), (8, None)], []) == (breaker.hand_over(), breaker.hand_over())
    assert None is breaker.admit(103.0)


def test_open_by_others_takes_over_how_often_it_opened() -> None:
    """So that the next recovery grows as theirs does."""
    breaker = machine()
    breaker.open(0.0, 5.0, opens=4)
    assert (5.0, 4) == (breaker.retry_after(0.0), breaker.opens)


def test_probe_that_is_on_its_way_is_not_handed_over() -> None:
    """Its verdict comes later."""
    breaker = led()
    breaker.grant(7, 20.0, 100.0)
    permit = breaker.admit(101.0)
    assert permit is not None
    assert [] == breaker.hand_over()
    breaker.succeeded(permit, 102.0)
    assert [(7, True)] == breaker.hand_over()


def test_open_by_others_leaves_an_isolated_breaker_as_it_is() -> None:
    """Its count, too."""
    breaker = machine()
    breaker.by_hand(BreakerEvent.ISOLATE)
    breaker.open(0.0, 5.0, opens=9)
    assert (BreakerState.ISOLATED, 0) == (breaker.state, breaker.opens)
