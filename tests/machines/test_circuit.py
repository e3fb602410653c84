"""A breaker's circuit as the fleet sees it, and how it changes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.codec import decode, encode
from retrykit.lease import Lease
from retrykit.machines import circuit
from retrykit.machines.circuit import Circuit, Report
from retrykit.testing.strategies import any_text, instants, keys

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=5)
SECOND, MILLISECOND, DAY = timedelta(seconds=1), timedelta(milliseconds=1), timedelta(days=1)

counts = st.integers(0, 2**53)
circuits = st.builds(
    Circuit,
    name=keys,
    generation=counts,
    is_open=st.booleans(),
    opens=counts,
    open_until=st.none() | instants,
    by=st.none() | any_text,
    changed_at=instants,
    proofs=counts,
    last_token=counts,
    probes=st.lists(st.builds(Lease, any_text, counts, instants), max_size=3).map(tuple),
    reports=st.lists(st.builds(Report, keys, counts, counts, instants), max_size=3).map(tuple),
)


def opened(**changes):
    """Return a circuit that is open until `LATER`."""
    return attrs.evolve(circuit.trip(None, "ses", by="me", recovery=5, now=NOW), **changes)


def probing(*owners, now=LATER, limit=9):
    """Return an open circuit with a probe of each owner on its way, for ten seconds."""
    known = opened()
    for owner in owners:
        known, _ = circuit.lease_probe(known, owner=owner, limit=limit, length=10, now=now)
    return known


def recorded(known, token, *, succeeded, close_after=1, recovery=60, now=LATER):
    return circuit.record_probe(known, token, succeeded=succeeded, close_after=close_after, recovery=recovery, now=now)


@given(circuits)
def test_circuit_survives_a_round_trip(known):
    """Through JSON, equal in every field."""
    assert known == Circuit.from_dict(decode(encode(known.to_dict())))


def test_circuit_written_has_these_fields():
    """Instants are whole milliseconds since the epoch."""
    known = circuit.report(probing("p"), "ses", instance="i", calls=3, failures=1, length=2, now=LATER)
    assert json.loads(encode(known.to_dict())) == {
        "name": "ses",
        "generation": 1,
        "is_open": True,
        "opens": 1,
        "open_until": 1767225605000,
        "by": "me",
        "changed_at": 1767225600000,
        "proofs": 0,
        "last_token": 1,
        "probes": [["p", 1, 1767225615000]],
        "reports": [["i", 3, 1, 1767225607000]],
    }


@pytest.mark.parametrize(
    "change",
    [{"generation": "1"}, {"is_open": 1}, {"by": 5}, {"name": None}, {"probes": "p"}, {"reports": [["i", 1, 0]]}],
)
def test_circuit_of_other_types_is_refused(change):
    """At once, not where the value is used."""
    with pytest.raises((TypeError, ValueError)):
        Circuit.from_dict(opened().to_dict() | change)


def test_trip_opens_what_is_closed_or_unknown():
    """One that is open stays the same object, whoever comes."""
    known = opened()
    assert (1, True, 1, LATER, "me", NOW) == (
        known.generation,
        known.is_open,
        known.opens,
        known.open_until,
        known.by,
        known.changed_at,
    )
    assert known is circuit.trip(known, "ses", by="other", recovery=99, now=LATER)
    again = circuit.trip(circuit.close(known, now=LATER), "ses", by="other", recovery=1, now=LATER)
    assert (3, 1, "other", LATER + SECOND) == (again.generation, again.opens, again.by, again.open_until)


def test_probe_is_leased_at_the_end_of_the_recovery():
    """Not a millisecond before, and of an open circuit only."""
    ask = {"owner": "p", "limit": 1, "length": 10}
    assert (None, None) == circuit.lease_probe(None, **ask, now=LATER)
    assert (None, None) == circuit.lease_probe(circuit.close(opened(), now=NOW), **ask, now=LATER)
    assert (None, None) == circuit.lease_probe(opened(open_until=None), **ask, now=LATER)
    assert (None, None) == circuit.lease_probe(opened(), **ask, now=LATER - MILLISECOND)
    lease = Lease("p", 1, LATER + 10 * SECOND)
    assert (opened(last_token=1, probes=(lease,)), lease) == circuit.lease_probe(opened(), **ask, now=LATER)


def test_probe_of_the_same_owner_is_the_same():
    """The record is not written again, and a limit that is reached does not matter."""
    known = probing("p", "q")
    for limit in (1, 2, 3):
        answer = circuit.lease_probe(known, owner="p", limit=limit, length=99, now=LATER + 9 * SECOND)
        assert (None, known.probes[0]) == answer
    assert (None, None) == circuit.lease_probe(known, owner="r", limit=2, length=99, now=LATER)


def test_probes_that_lapsed_make_room():
    """And are no longer kept."""
    known, lease = circuit.lease_probe(probing("p", "q"), owner="r", limit=1, length=1, now=LATER + 10 * SECOND)
    assert (3, (lease,)) == (lease.token, known.probes)


@pytest.mark.parametrize("succeeded", [True, False, None])
def test_result_of_a_probe_that_is_not_on_its_way_is_none(succeeded):
    """Nobody knows the circuit or the token, or the lease is over."""
    assert recorded(None, 1, succeeded=succeeded) is None
    assert recorded(opened(), 1, succeeded=succeeded) is None
    assert recorded(probing("p"), 2, succeeded=succeeded) is None
    assert recorded(probing("p"), 1, succeeded=succeeded, now=LATER + 10 * SECOND) is None
    assert recorded(probing("p"), 1, succeeded=succeeded, now=LATER + 10 * SECOND - MILLISECOND) is not None


def test_result_gives_the_lease_back():
    """The others stay on their way; what succeeded counts, and nothing else."""
    known = probing("p", "q", "r")
    told_nothing = recorded(known, 2, succeeded=None)
    assert attrs.evolve(known, probes=(known.probes[0], known.probes[2])) == told_nothing
    proved = recorded(known, 2, succeeded=True, close_after=2)
    assert attrs.evolve(told_nothing, proofs=1) == proved
    closed = recorded(proved, 3, succeeded=True, close_after=2)
    assert Circuit(name="ses", generation=2, by="me", changed_at=LATER, last_token=3) == closed


def test_failure_opens_it_again():
    """For the time given, in the name of who probed; the other probes and the successes are void."""
    known = recorded(probing("p", "q", "r"), 1, succeeded=True, close_after=9)
    again = recorded(known, 3, succeeded=False, recovery=60)
    assert (
        attrs.evolve(
            opened(generation=2, opens=2, by="r", last_token=3), open_until=LATER + 60 * SECOND, changed_at=LATER
        )
        == again
    )


def test_close_leaves_what_is_closed():
    """The same object."""
    closed = circuit.close(opened(), now=LATER)
    assert Circuit(name="ses", generation=2, by="me", changed_at=LATER) == closed
    assert closed is circuit.close(closed, now=LATER + SECOND)


def test_report_replaces_its_own_and_drops_what_is_over():
    """The sums are of what is left."""
    known = None
    for instance, calls, length in (("i", 1, 1), ("j", 10, 2), ("i", 100, 1)):
        known = circuit.report(known, "ses", instance=instance, calls=calls, failures=1, length=length, now=NOW)
    assert ((110, 2), 0, NOW) == (known.counted, known.generation, known.changed_at)
    known = circuit.report(known, "ses", instance="k", calls=5, failures=0, length=1, now=NOW + SECOND)
    assert (["j", "k"], (15, 1)) == ([each.instance for each in known.reports], known.counted)


def test_circuit_is_forgotten_a_day_after_its_closing():
    """Unless it is open or something is reported; whoever goes on then begins anew."""
    closed = circuit.close(opened(), now=NOW)
    reported = circuit.report(closed, "ses", instance="i", calls=1, failures=0, length=2 * 86400, now=NOW)
    after = NOW + DAY + MILLISECOND
    assert [False, True, False, False, True] == [
        circuit.is_forgotten(closed, NOW + DAY),
        circuit.is_forgotten(closed, after),
        circuit.is_forgotten(opened(), after),
        circuit.is_forgotten(reported, NOW + 2 * DAY - MILLISECOND),
        circuit.is_forgotten(reported, NOW + 2 * DAY),
    ]
    assert circuit.trip(None, "ses", by="x", recovery=1, now=after) == circuit.trip(
        closed, "ses", by="x", recovery=1, now=after
    )
    fresh = {"instance": "i", "calls": 1, "failures": 0, "length": 1, "now": after}
    assert circuit.report(None, "ses", **fresh) == circuit.report(closed, "ses", **fresh)
    assert circuit.trip(closed, "ses", by="x", recovery=1, now=NOW + DAY).generation == 3


changes = st.one_of(
    st.tuples(st.just("trip"), st.integers(1, 20)),
    st.tuples(st.just("lease"), st.integers(0, 5)),
    st.tuples(st.just("record"), st.integers(0, 8), st.sampled_from([True, False, None])),
    st.tuples(st.just("close")),
    st.tuples(st.just("report"), st.integers(0, 3)),
    st.tuples(st.just("wait"), st.integers(1, 20_000)),
)


@given(limit=st.integers(1, 3), close_after=st.integers(1, 3), script=st.lists(changes, max_size=40))
def test_any_sequence_of_changes_keeps_what_is_promised(limit, close_after, script):
    """Never more live probes than the limit, each token once, and generations and tokens only grow."""
    known, now, taken = opened(), NOW, set()
    for kind, *args in script:
        before = known
        if kind == "trip":
            known = circuit.trip(known, "ses", by="me", recovery=args[0], now=now)
        elif kind == "lease":
            changed, lease = circuit.lease_probe(known, owner=f"p{args[0]}", limit=limit, length=10, now=now)
            known = known if changed is None else changed
            assert lease is None or lease in known.probes
            assert lease is None or now >= known.open_until
        elif kind == "record":
            token = known.last_token - args[0]
            changed = recorded(known, token, succeeded=args[1], close_after=close_after, recovery=3, now=now)
            known = known if changed is None else changed
            if changed is not None:
                assert token not in taken
                taken.add(token)
        elif kind == "close":
            known = circuit.close(known, now=now)
        elif kind == "report":
            known = circuit.report(known, "ses", instance=f"i{args[0]}", calls=3, failures=args[0], length=9, now=now)
        else:
            now += args[0] * MILLISECOND
        assert sum(not lease.is_over(now) for lease in known.probes) <= limit
        assert known.generation - before.generation == (before.is_open != known.is_open or known.opens != before.opens)
        assert known.last_token >= before.last_token
        assert len({lease.token for lease in known.probes} | taken) == len(known.probes) + len(taken)
        assert known.is_open == (known.open_until is not None) == (known.opens > 0)
        assert known.proofs < close_after
