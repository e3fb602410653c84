"""Published traces of the adaptive mode of AWS SDKs, replayed against its parts, and the throttling that is of another kind.

Not expressible: the client-side throttling of Site Reliability Engineering and gRPC's lookup service, which refuse calls with
a probability of ``(requests - K x accepts) / (requests + padding)``. Here calls wait for their turn; none is refused by lot.
"""

from __future__ import annotations

import pytest

from retrykit.machines.throttle import Cubic, RateClock, Throttle, TokenBucket

SUCCESSES = "5:7.0 6:9.64893600966 7:10.000030849917364 8:10.453284520772092 9:13.408697022224185 10:21.26626835427364 11:36.425998516920465"
MIXED = (
    "5:7.0 6:9.64893600966 7!6.754255206761999 8!4.727978644733399 9:6.606547753887045 10:6.763279816944947 "
    "11:7.598174833907107 12:11.511232804773524"
)
"""A time and the rate after it, ":" after a success and "!" after a throttled call."""


@pytest.mark.parametrize("trace", [SUCCESSES, MIXED], ids=["successes", "mixed"])
def test_cubic_goes_as_published(trace: str) -> None:
    """Throttled at a rate of 10 at second 5: what is tried at each following second, to nine digits."""
    cubic = Cubic(10.0, 5.0)
    for step in trace.split():
        if "!" in step:
            at, _, rate = step.partition("!")
            assert float(rate) == pytest.approx(cubic.throttled(_before(trace, step), float(at)), rel=1e-9)
        else:
            at, _, rate = step.partition(":")
            assert float(rate) == pytest.approx(cubic.succeeded(float(at)), rel=1e-9)


def _before(trace: str, step: str) -> float:
    """Return the rate of the step before: the one that is throttled."""
    steps = trace.split()
    return float(steps[steps.index(step) - 1].replace("!", ":").partition(":")[2])


MEASURED = {
    "first": "1:0.8",
    "bucket": "0.1:0 0.2:0 0.3:0 0.4:0 0.49:0 0.5:9.6",
    "constant": (
        "1:0.8 2:0.96 3:0.992 4:0.9984 5:0.99968 6:0.999936 7:0.9999872 8:0.99999744 9:0.999999488 10:0.999999898"
    ),
}


@pytest.mark.parametrize("name", MEASURED)
def test_rate_clock_goes_as_published(name: str) -> None:
    """The smoothed rate after a call at each of these seconds."""
    clock = RateClock(0.0)
    for step in MEASURED[name].split():
        at, _, rate = step.partition(":")
        assert float(rate) == pytest.approx(clock.called(float(at)), abs=1e-9)


TRACE = [
    (0.2, False, 0, 0.5),
    (0.4, False, 0, 0.5),
    (0.6, False, 4.8, 0.5),
    (0.8, False, 4.8, 0.5),
    (1.0, False, 4.16, 0.5),
    (1.2, False, 4.16, 0.6912),
    (1.4, False, 4.16, 1.0976),
    (1.6, False, 5.632, 1.6384),
    (1.8, False, 5.632, 2.3328),
    (2.0, True, 4.3264, 3.02848),
    (2.2, False, 4.3264, 3.48663917347026),
    (2.4, False, 4.3264, 3.821874416040255),
    (2.6, False, 5.66528, 4.053385727709987),
    (2.8, False, 5.66528, 4.200373108479454),
    (3.0, False, 4.333056, 4.282036558348658),
    (3.2, True, 4.333056, 2.99742559084406),
    (3.4, False, 4.333056, 3.4522263943863463),
]


def test_throttle_goes_as_published() -> None:
    """Calls each fifth of a second, throttled at 2.0 and 3.2: what is measured, and how fast it may send."""
    throttle = Throttle(0.0)
    for at, is_throttled, measured, fill in TRACE:
        _ = throttle.throttled(at) if is_throttled else throttle.succeeded(at)
        assert (measured, fill) == pytest.approx((throttle.measured, throttle.bucket.rate), rel=1e-9), at


def test_bucket_is_never_in_debt() -> None:
    """Eleven callers that ask too early are told the same wait, and it is enough."""
    bucket = TokenBucket(0.5, 1.0, 0.0, 0.0)
    for _ in range(11):
        assert (1.9, 0.05) == (pytest.approx(bucket.wait(0.1)), pytest.approx(bucket.held))
    assert 0.0 == bucket.wait(2.0)


def test_bucket_refills_that_fall_short_by_a_float_are_enough() -> None:
    """Ten tenths of a second are a second, although their sum is 0.9999999999999999."""
    bucket = TokenBucket(1.0, 1.0, 0.0, 0.0)
    for tenth in range(1, 11):
        bucket.refill(tenth / 10)
    assert 0.0 == bucket.wait(1.0)


@pytest.mark.parametrize(
    ("rate", "elapsed", "permits", "remainder"), [(10, 2, 20, 0), (0.001, 1100, 1, 0.1), (0.001, 500, 0, 0.5)]
)
def test_bucket_refill_keeps_fractions(rate: float, elapsed: float, permits: int, remainder: float) -> None:
    """What is less than a call is not lost."""
    bucket = TokenBucket(rate, 100.0, 0.0, 0.0)
    bucket.refill(elapsed)
    assert (permits, pytest.approx(remainder)) == (int(bucket.held), bucket.held % 1)
