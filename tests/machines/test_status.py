"""What reports and events come to, and that their order does not matter."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.classification import EventKind
from retrykit.failure import ErrorGroup
from retrykit.machines.status import (
    ACCEPTED,
    FINAL,
    OWN,
    SEVERITY,
    UNREPORTED,
    DeliveryStatus,
    Standing,
    combined,
    severer,
    told_by,
    told_with,
)

S, K, G = DeliveryStatus, EventKind, ErrorGroup


def report(status, version):
    """Return what a report of our own tells."""
    return Standing(status, version, told_with(status))


def event(kind, group=None):
    """Return what an event tells."""
    told = told_by(kind, group)
    return Standing(told, UNREPORTED, told)


def stand(parts):
    """Return what stands after parts that came in this order."""
    stands = parts[0]
    for each in parts[1:]:
        stands = combined(stands, each)
    return stands


def test_statuses_are_exactly_these():
    """The values are what is stored."""
    assert [status.value for status in S] == [
        "pending",
        "processing",
        "sent_to_provider",
        "delivered",
        "deferred",
        "bounced_transient",
        "bounced_permanent",
        "failed_internal",
        "unknown",
    ]
    assert {S.SENT_TO_PROVIDER, S.DELIVERED} == ACCEPTED
    assert {S.SENT_TO_PROVIDER, S.DELIVERED, S.BOUNCED_PERMANENT, S.FAILED_INTERNAL} == FINAL
    assert set(S) == {*OWN, *SEVERITY}
    assert set(S) - ACCEPTED == set(OWN)


@pytest.mark.parametrize(("one", "other"), list(itertools.product([None, *SEVERITY], repeat=2)))
def test_severer_of_two_stands_whichever_came_first(one, other):
    """Accepted, deferred, bounced for now, delivered, bounced for good: the only way out of delivered is a bounce."""
    order = [
        None,
        S.SENT_TO_PROVIDER,
        S.DEFERRED,
        S.BOUNCED_TRANSIENT,
        S.DELIVERED,
        S.BOUNCED_PERMANENT,
    ]
    assert order[max(order.index(one), order.index(other))] is severer(one, other)


@pytest.mark.parametrize(("current", "new"), list(itertools.product(S, S)))
def test_report_replaces_another_exactly_where_it_may(current, new):
    """All 81 pairs, from an older, an equal and a newer version: the newer of our own, and an acceptance whatever its version."""
    for version in (1, 2, 3):
        stands = combined(report(current, 2), report(new, version)).status
        if current in ACCEPTED:
            assert (S.DELIVERED if S.DELIVERED in (current, new) else S.SENT_TO_PROVIDER) is stands
        else:
            assert (new if new in ACCEPTED or version > 2 else current) is stands


@pytest.mark.parametrize("status", OWN)
@pytest.mark.parametrize("kind", [kind for kind in K if kind is not K.OTHER])
def test_report_of_our_own_never_overrules_the_provider(status, kind):
    """Of whatever version, before and after; an unknown outcome is known once the provider has told anything."""
    for version in (0, 9):
        for parts in itertools.permutations([event(kind), report(status, version)]):
            stands = stand(parts)
            assert (told_by(kind), version, told_by(kind)) == stands


@pytest.mark.parametrize("group", [None, *G])
@pytest.mark.parametrize("kind", K)
def test_event_tells_of_the_status(kind, group):
    """Only the group of a bounce matters; an event that is not known tells nothing."""
    passing = (G.TEMPORARY_MAILBOX, G.TRANSIENT_INFRASTRUCTURE, G.THROTTLING)
    expected = {
        K.ACCEPTED: S.SENT_TO_PROVIDER,
        K.DELIVERED: S.DELIVERED,
        K.DEFERRED: S.DEFERRED,
        K.BOUNCED: S.BOUNCED_TRANSIENT if group in passing else S.BOUNCED_PERMANENT,
        K.REJECTED: S.BOUNCED_PERMANENT,
        K.COMPLAINED: S.SENT_TO_PROVIDER,
        K.UNSUBSCRIBED: S.SENT_TO_PROVIDER,
        K.ENGAGED: S.SENT_TO_PROVIDER,
        K.OTHER: None,
    }
    assert expected[kind] is told_by(kind, group)


SENDING = (report(S.PENDING, 0), report(S.PROCESSING, 1))
SENT = report(S.SENT_TO_PROVIDER, 2)
SEQUENCES = {
    "delivered after a delay": (
        [*SENDING, SENT, event(K.ACCEPTED), event(K.DEFERRED), event(K.DELIVERED), event(K.ENGAGED)],
        S.DELIVERED,
    ),
    "bounced after it was delivered": (
        [
            report(S.PROCESSING, 1),
            SENT,
            event(K.DELIVERED),
            event(K.BOUNCED, G.PERMANENT_RECIPIENT),
            event(K.COMPLAINED),
        ],
        S.BOUNCED_PERMANENT,
    ),
    "unknown to us": (
        [*SENDING, report(S.UNKNOWN, 2), event(K.ACCEPTED), event(K.DEFERRED), report(S.FAILED_INTERNAL, 3)],
        S.DEFERRED,
    ),
    "given up by the provider for now": (
        [
            SENT,
            event(K.DEFERRED),
            event(K.BOUNCED, G.TEMPORARY_MAILBOX),
            event(K.ACCEPTED),
            event(K.BOUNCED, G.THROTTLING),
        ],
        S.BOUNCED_TRANSIENT,
    ),
    "dropped after two tries of ours": (
        [*SENDING, report(S.DEFERRED, 2), report(S.PROCESSING, 3), report(S.SENT_TO_PROVIDER, 4), event(K.REJECTED)],
        S.BOUNCED_PERMANENT,
    ),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_every_order_of_a_realistic_sequence_ends_in_the_same_status(name):
    """All permutations, thousands of them."""
    parts, expected = SEQUENCES[name]
    assert {expected} == {stand(each).status for each in itertools.permutations(parts)}
    assert len({stand(each) for each in itertools.permutations(parts)}) == 1


def test_event_that_comes_46_times_counts_like_one():
    """Shuffled among the reports, as seen from one provider."""
    once = [*SENDING, SENT, event(K.DEFERRED)]
    for seed in range(50):
        copies = once + [event(K.DEFERRED)] * 45
        random.Random(seed).shuffle(copies)
        assert stand(once) == stand(copies)


events = st.builds(event, st.sampled_from([kind for kind in K if kind is not K.OTHER]), st.none() | st.sampled_from(G))
reports = st.dictionaries(st.integers(0, 20), st.sampled_from(S), max_size=6).map(
    lambda by_version: [report(status, version) for version, status in by_version.items()]
)
histories = st.tuples(reports, st.lists(events, max_size=6)).map(lambda both: both[0] + both[1]).filter(bool)


@given(histories, st.data())
def test_status_does_not_depend_on_order_or_repetition(parts, data):
    """Events and reports that come late, twice or shuffled end in the status that the ordered ones end in."""
    doubled = parts + data.draw(st.lists(st.sampled_from(parts), max_size=4))
    assert stand(parts) == stand(data.draw(st.permutations(doubled)))


@given(histories, histories, histories)
def test_combining_is_associative(one, two, three):
    """What was combined elsewhere may be combined again."""
    by_version = {}
    agreed = [
        [each if each.version < 0 else by_version.setdefault(each.version, each) for each in parts]
        for parts in (one, two, three)
    ]
    a, b, c = map(stand, agreed)
    assert combined(combined(a, b), c) == combined(a, combined(b, c))


@given(histories)
def test_status_once_told_is_the_severest_told(parts):
    """A known acceptance is never forgotten."""
    told = [each.told for each in parts if each.told is not None]
    if told:
        assert max(told, key=SEVERITY.index) is stand(parts).status
    else:
        assert max(parts, key=lambda each: each.version).status is stand(parts).status
