"""Published quotas and budgets, replayed against `retry` with a `RetryBudget`, and the budgets that are of another kind.

Not expressible, because the budget counts successes and retries, and neither what is under way nor a time to live:

* a share of the calls under way (Envoy: ``max(floor(25 % x active), 3)``; failsafe-go: refused while retries under way are
  above 20 % of all calls);
* tokens that expire after 10 s, brought by calls and not by successes, and a floor that is saved up for 10 s (Finagle); its
  share of retries is replayed without these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from retrykit import ErrorClass, ErrorGroup, RetryBudget, retry
from retrykit.events import AttemptFailed, Event
from retrykit.failure import Failure, Outcome
from retrykit.policy.backoff import exponential
from retrykit.testing import ManualClock, manual_clock

AWS_STANDARD = {
    "cost": {ErrorClass.NETWORK_TIMEOUT: 10, ErrorGroup.TRANSIENT_INFRASTRUCTURE: 5, ErrorGroup.THROTTLING: 5}
}
AWS_2026 = {"cost": {ErrorGroup.TRANSIENT_INFRASTRUCTURE: 14, ErrorGroup.THROTTLING: 5}}
TIMEOUT = Failure(error_class=ErrorClass.NETWORK_TIMEOUT, outcome=Outcome.UNKNOWN)
UNAVAILABLE = Failure(error_class=ErrorClass.CONNECTION_ERROR, outcome=Outcome.NOT_SENT)
THROTTLED = Failure(error_class=ErrorClass.PROVIDER_THROTTLED, outcome=Outcome.REJECTED)


@pytest.fixture(autouse=True)
def clock() -> Iterator[ManualClock]:
    with manual_clock() as clock:
        yield clock


def quota(settings: dict[str, Any], held: int = 500) -> RetryBudget:
    """Return a quota of 500 with so many left."""
    budget = RetryBudget(capacity=500, per_success=1, refunds=True, floor=0, **settings)
    fives = next(number for number in range(14) if (500 - held - 5 * number) % 14 == 0 and 5 * number <= 500 - held)
    for _ in range(fives):
        assert budget.take(THROTTLED)
    for _ in range((500 - held - 5 * fives) // 14):
        assert budget.take(UNAVAILABLE)
    assert held == budget.tokens
    return budget


def call(policy: retry, outcomes: str, **changes: Any) -> tuple[int, str]:
    """Make a call that ends as told; return the number of its tries, and why it ended."""
    heard: list[Event] = []
    left = list(outcomes.split())
    tries = 0

    @policy.but(on_event=[heard.append], **changes)
    def send() -> None:
        nonlocal tries
        tries += 1
        outcome = left.pop(0)
        if outcome != "ok":
            raise TimeoutError("no answer in time") if outcome == "timeout" else ConnectionResetError("503")

    try:
        send()
    except OSError:
        assert isinstance(heard[-1], AttemptFailed)
        return tries, heard[-1].decision.reason.partition(", ")[2]
    return tries, "success"


USED, DENIED = "all {} attempts used", "the retry budget is used up"
LOOPS = {
    "standard-success-second": (AWS_STANDARD, 500, (3, 1, 20), [("transient ok", 2, [1], "success", 500)]),
    "standard-exhaust": (AWS_STANDARD, 500, (3, 1, 20), [("transient " * 3, 3, [1, 2], USED, 490)]),
    "standard-timeout-cost": (
        AWS_STANDARD,
        500,
        (3, 1, 20),
        [("timeout ok", 2, [1], "success", 500), ("timeout " * 3, 3, [1, 2], USED, 480)],
    ),
    "standard-table-two-retries": (
        AWS_STANDARD,
        500,
        (3, 1, 20),
        [("transient transient ok", 3, [1, 2], "success", 495)],
    ),
    "2026-errors": (AWS_2026, 500, (3, 0.05, 20), [("transient transient ok", 3, [0.05, 0.1], "success", 486)]),
    "2026-max-attempts": (AWS_2026, 500, (3, 0.05, 20), [("transient " * 3, 3, [0.05, 0.1], USED, 472)]),
    "2026-quota-14": (AWS_2026, 14, (3, 0.05, 20), [("transient transient ok", 2, [0.05], DENIED, 0)]),
    "2026-quota-0": (AWS_2026, 0, (3, 0.05, 20), [("transient ok", 1, [], DENIED, 0)]),
    "2026-quota-20": (AWS_2026, 20, (3, 0.05, 20), [("transient transient", 2, [0.05], DENIED, 6)]),
    "2026-quota-30": (
        AWS_2026,
        30,
        (3, 0.05, 20),
        [
            ("transient transient ok", 3, [0.05, 0.1], "success", 16),
            ("transient ok", 2, [0.05], "success", 16),
            ("transient transient", 2, [0.05], DENIED, 2),
        ],
    ),
    "2026-max-backoff": (
        AWS_2026,
        500,
        (5, 0.05, 0.2),
        [("transient " * 4 + "ok", 5, [0.05, 0.1, 0.2, 0.2], "success", 458)],
    ),
    "dynamo": (AWS_2026, 500, (4, 0.025, 20), [("transient " * 4, 4, [0.025, 0.05, 0.1], USED, 458)]),
}


@pytest.mark.parametrize("name", LOOPS)
def test_quota_of_an_aws_sdk_goes_as_published(name: str, clock: ManualClock) -> None:
    """Tries, waits, the reason of the end, and what is left: as the SDKs' own tests have them."""
    settings, held, (attempts, base, cap), steps = LOOPS[name]
    budget = quota(settings, held)
    policy = retry(
        on=OSError, attempts=attempts, backoff=exponential(base, cap=cap, jitter="none"), budget=budget, clock=clock
    )
    for outcomes, tries, waits, reason, left in steps:
        clock.sleeps.clear()
        assert (tries, reason.format(attempts)) == call(policy, outcomes)
        assert (waits, left) == (clock.sleeps, budget.tokens)


def test_quota_of_500_lets_fifty_calls_fail_three_times() -> None:
    """The fifty-first gets one try."""
    budget = quota(AWS_STANDARD)
    policy = retry(on=OSError, attempts=3, backoff=[0], budget=budget)
    assert [(3, "all 3 attempts used")] * 50 == [call(policy, "transient " * 3) for _ in range(50)]
    assert (0, (1, DENIED), 1) == (budget.tokens, call(policy, "transient ok"), budget.denied)


def test_quota_of_2026_grants_35_retries_while_nothing_works() -> None:
    """Seventeen calls with two retries and one with one; ten tokens are stranded."""
    budget = quota(AWS_2026)
    policy = retry(on=OSError, attempts=3, backoff=[0], budget=budget)
    assert [3] * 17 + [2] + [1] * 3 == [call(policy, "transient " * 3)[0] for _ in range(21)]
    assert 10 == budget.tokens


@pytest.mark.parametrize(("settings", "per_failure"), [(AWS_STANDARD, 10), (AWS_2026, 28)])
def test_quota_keeps_its_level_at_the_break_even_share(settings: dict[str, Any], per_failure: int) -> None:
    """One call in 11 (in 29) may fail all its tries for ever."""
    budget = quota(settings)
    for _ in range(10):
        budget.take(THROTTLED)
    level = budget.tokens
    policy = retry(on=OSError, attempts=3, backoff=[0], budget=budget)
    for _ in range(20):
        call(policy, "transient " * 3)
        for _ in range(per_failure):
            call(policy, "ok")
    assert level == budget.tokens


GRPC = {
    "10-0.1": (10, 0.1, "9:yes 8:yes 7:yes 6:yes 5:no +5.1 4.1:no"),
    "10-0.1-recover": (10, 0.1, "9 8 7 6 5 4 3 2 1 0:no " + " ".join(f"+{n / 10:g}" for n in range(1, 52))),
    "4-0.8": (4, 0.8, "3:yes 2:no 1:no 0:no 0:no 0:no +0.8 +1.6 +2.4 +3.2 +4 +4 3:yes"),
}


@pytest.mark.parametrize("name", GRPC)
def test_grpc_retry_throttling_goes_as_published(name: str) -> None:
    """Each failure takes a token and each success brings some; a retry needs more than half of them to be left."""
    most, ratio, steps = GRPC[name]
    budget = RetryBudget(capacity=most, per_success=ratio, cut_off=0.5, floor=0, charges_every_failure=True)
    for step in steps.split():
        if step.startswith("+"):
            if budget.note is not None:
                budget.note()
            assert float(step) == budget.tokens
            continue
        tokens, _, allowed = step.partition(":")
        assert budget.take() is (allowed == "yes") or not allowed
        assert float(tokens) == budget.tokens


@pytest.mark.parametrize("successes", [50, 51])
def test_grpc_retry_is_allowed_again_above_the_half(successes: int) -> None:
    """From nothing 51 successes at a ratio of 0.1 are more than the half, 50 are not: a retry that costs little tells."""
    budget = RetryBudget(capacity=10, per_success=0.1, cost=0.001, cut_off=0.5, floor=0, charges_every_failure=True)
    while budget.tokens > 0:
        budget.take()
    for _ in range(successes):
        assert budget.note is not None
        budget.note()
    assert (successes == 51) is budget.take()


@pytest.mark.parametrize("ratio", [0.1, 0.2, 0.5, 1.0])
def test_grpc_break_even_share_keeps_the_level(ratio: float) -> None:
    """With a ratio of r, a share of r / (1 + r) failures leaves the tokens where they are."""
    budget = RetryBudget(capacity=100, per_success=ratio, cut_off=0.5, floor=0, charges_every_failure=True)
    for _ in range(30):
        budget.take()
    level = budget.tokens
    for _ in range(50):
        budget.take()
        for _ in range(round(1 / ratio)):
            assert budget.note is not None
            budget.note()
    assert level == budget.tokens


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.99, 2.0])
def test_share_of_retries_is_what_successes_paid_for(share: float) -> None:
    """After 10 000 successes exactly that share of them may be retries."""
    budget = RetryBudget(capacity=20_000, per_success=share, floor=0)
    for _ in range(20_000):
        assert budget.take()
    assert not budget.take()
    for _ in range(10_000):
        assert budget.note is not None
        budget.note()
    granted = 0
    while budget.take():
        granted += 1
    assert round(10_000 * share) == granted
