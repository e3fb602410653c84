"""When a handler has run for too long."""

from __future__ import annotations

from typing import cast

import pytest

from retrykit.open_claims import OpenClaim
from retrykit.worker import Delivery
from retrykit.worker.crews import Job
from retrykit.worker.report import Tally

LIMIT = 0.5


def job(began: float | None, *, is_open: bool) -> Job:
    entry = Tally().took()
    if is_open:
        entry.opened = cast("OpenClaim", object())
    made = Job(Delivery(b"{}"), entry)
    made.began = began
    return made


@pytest.mark.parametrize(
    ("is_late", "is_open", "now", "kept"),
    [
        (False, False, 10.5, 10.5),
        (True, False, 10.6, 10.0),
        (False, True, 11.4, 11.4),
        (True, True, 11.6, 11.6),
        (False, True, 15.0, 11.4),
        (False, True, 15.0, 10.0),
        (True, True, 20.1, 10.0),
    ],
    ids=[
        "at the limit",
        "over it, and its message has failed",
        "over it, and its message could not be failed so far",
        "as long again, looked after all the time",
        "as long again, and nobody has looked after it since",
        "the process was held up, and its message can be failed now",
        "nobody looks after claims any more",
    ],
)
def test_handler_is_late_once_its_message_could_be_failed(
    is_late: bool, is_open: bool, now: float, kept: float
) -> None:
    """A pause of the whole process, which a busy machine may make, takes no message from its handler unfailed."""
    assert is_late == job(10.0, is_open=is_open).is_late(now, kept, LIMIT)


def test_handler_that_has_not_begun_is_never_late() -> None:
    """It waits for a place."""
    assert not job(None, is_open=False).is_late(1e9, 0.0, LIMIT)
