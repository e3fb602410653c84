"""The lease: owner, token, deadline."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from retrykit.lease import Lease, new_owner

DEADLINE = datetime(2026, 1, 1, tzinfo=UTC)


@given(st.integers(-10_000, 10_000))
def test_lease_is_over_from_its_deadline_on(millis):
    """At the deadline itself the hold has ended."""
    assert (millis >= 0) is Lease("me", 1, DEADLINE).is_over(DEADLINE + timedelta(milliseconds=millis))


def test_new_owner_names_host_and_process_and_never_repeats():
    """People see where a holder runs, and two holds in one process have two names."""
    owners = {new_owner() for _ in range(100)}
    assert len(owners) == 100
    assert {f"{socket.gethostname()[:64]}:{os.getpid()}"} == {owner.rpartition(":")[0] for owner in owners}
    assert {8} == {len(owner.rpartition(":")[2]) for owner in owners}
