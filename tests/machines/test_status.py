"""Which delivery status may follow which, and that the order of reports does not matter."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.machines.status import ACCEPTED, FINAL, DeliveryStatus, may_follow

S = DeliveryStatus
OWN = {S.PENDING, S.PROCESSING, S.DEFERRED, S.BOUNCED_TRANSIENT, S.BOUNCED_PERMANENT, S.FAILED_INTERNAL, S.UNKNOWN}

ALLOWED = {
    **{current: ({S.SENT_TO_PROVIDER, S.DELIVERED}, OWN) for current in OWN},
    S.SENT_TO_PROVIDER: ({S.DELIVERED}, set()),
    S.DELIVERED: (set(), set()),
}
"""Status: what follows it always, and what follows it only from a newer version."""


@pytest.mark.parametrize(("current", "new"), list(itertools.product(S, S)))
def test_status_follows_another_exactly_where_the_table_says(current, new):
    """All 81 pairs, from an older and from a newer version of the claim."""
    always, if_newer = ALLOWED[current]
    assert (new in always) is may_follow(current, new, newer=False)
    assert (new in always | if_newer) is may_follow(current, new, newer=True)


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


def stand(reports):
    """Return the status that stands after reports of (version, status) in this order."""
    version, status = reports[0]
    for new_version, new in reports[1:]:
        if may_follow(status, new, newer=new_version > version):
            version, status = max(version, new_version), new
    return status


reports = st.dictionaries(st.integers(0, 20), st.sampled_from(S), min_size=1, max_size=7).map(
    lambda by_version: list(by_version.items())
)


@given(reports, st.data())
def test_status_does_not_depend_on_order_or_repetition(reports, data):
    """Reports that come late, twice or out of order end in the status that the ordered ones end in."""
    doubled = reports + data.draw(st.lists(st.sampled_from(reports), max_size=4))
    shuffled = data.draw(st.permutations(doubled))
    assert stand(sorted(reports)) == stand(shuffled)


@given(reports)
def test_status_once_accepted_stays_accepted(reports):
    """A known acceptance is never forgotten, and the furthest one stands."""
    seen = {status for _, status in reports}
    for accepted in (S.DELIVERED, S.SENT_TO_PROVIDER):
        if accepted in seen:
            assert accepted is stand(reports)
            break
