"""What lint finds in a matrix, what it leaves alone, and the figures it works out."""

from __future__ import annotations

import json
import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.decision import Action
from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass, ErrorGroup
from retrykit.policy import (
    EMAIL_MATRIX,
    HTTP_API_MATRIX,
    PolicyMatrix,
    RetryPolicy,
    constant,
    decorrelated,
    delays,
    exponential,
    plus_minus,
    upward,
)
from retrykit.policy.lint import SHARES, Finding, Severity, budgeted_load_factor, load_factor, residual
from tests.policy.strategies import matrices

E, G = ErrorClass, ErrorGroup
OWN = ErrorClass("card_declined", group=G.PERMANENT_RECIPIENT)
NEVER = RetryPolicy.never()
WHOLE = PolicyMatrix(dict.fromkeys(ErrorGroup, NEVER))


def one(key, backoff, retries=1, **fields):
    """Return the policies of a matrix in which only one retries."""
    return {key: RetryPolicy(max_retries=retries, backoff=backoff, **fields)}


def checks(matrix, **options):
    """Return the names of what lint finds."""
    return [finding.check for finding in matrix.lint(**options).findings]


@pytest.mark.parametrize(
    ("check", "wrong", "right"),
    [
        (
            "ladder-longer-than-max-age",
            WHOLE.with_(one(G.THROTTLING, delays("1d", "3d"), 2)),
            WHOLE.with_(one(G.THROTTLING, delays("1d", "2d"), 2)),
        ),
        (
            "ladder-longer-than-max-age",
            WHOLE.with_(one(G.THROTTLING, ["2h"]), max_age="1h"),
            WHOLE.with_(one(G.THROTTLING, ["2h"]), max_age=None),
        ),
        (
            "more-retries-than-max-attempts",
            WHOLE.with_(one(G.THROTTLING, [5], 12)),
            WHOLE.with_(one(G.THROTTLING, [5], 11)),
        ),
        (
            "throttle-without-pause",
            WHOLE.with_(one(G.THROTTLING, [0, 60], 2, throttle=True)),
            WHOLE.with_(one(G.THROTTLING, [1, 60], 2, throttle=True)),
        ),
        (
            "throttle-without-pause",
            WHOLE.with_(one(G.THROTTLING, [5], 0, throttle=True)),
            WHOLE.with_(one(G.THROTTLING, [5], 0)),
        ),
        (
            "retries-for-what-does-not-heal",
            WHOLE.with_(one(G.PERMANENT_RECIPIENT, ["1h"])),
            WHOLE.with_(one(G.TEMPORARY_MAILBOX, ["1h"])),
        ),
        (
            "retries-for-what-does-not-heal",
            WHOLE.with_(one(E.RENDERING_FAILURE, ["1h"])),
            WHOLE.with_(one(E.RENDERING_FAILURE, ["1h"], 0)),
        ),
        (
            "retries-for-what-does-not-heal",
            WHOLE.with_(one(G.CONTENT_POLICY, ["1h"])),
            WHOLE.with_(default=RetryPolicy(max_retries=1, backoff=["1h"])),
        ),
        ("class-nobody-gives", WHOLE.with_({OWN: NEVER}), WHOLE.with_({E.POISON_MESSAGE: NEVER})),
        (
            "gives-up-before-breaker-recovers",
            WHOLE.with_(one(G.TRANSIENT_INFRASTRUCTURE, [5, 10, 30], 3)),
            WHOLE.with_(one(G.TRANSIENT_INFRASTRUCTURE, [5, 10, 60], 3)),
        ),
        (
            "gives-up-before-breaker-recovers",
            WHOLE.with_(one(G.SENDER, [5])),
            WHOLE.with_(one(G.THROTTLING, [5])),
        ),
        (
            "queue-wait-below-its-rung",
            WHOLE.with_(one(G.THROTTLING, exponential(5, jitter="full"))),
            WHOLE.with_(one(G.THROTTLING, exponential(5, jitter="quarter"))),
        ),
        (
            "queue-wait-below-its-rung",
            WHOLE.with_(one(G.THROTTLING, constant(5, jitter=plus_minus(0.1)))),
            WHOLE.with_(one(G.THROTTLING, constant(5, jitter=upward(0.1)))),
        ),
        (
            "no-jitter",
            WHOLE.with_(one(G.THROTTLING, delays(5, 60, jitter="none"), 2)),
            WHOLE.with_(one(G.THROTTLING, delays(0, 60), 2)),
        ),
        (
            "no-jitter",
            WHOLE.with_(default=RetryPolicy(max_retries=1, backoff=constant(5, jitter=upward(0)))),
            WHOLE.with_(one(G.THROTTLING, decorrelated(5))),
        ),
        (
            "group-without-policy",
            PolicyMatrix({key: NEVER for key in ErrorGroup if key is not G.THROTTLING}),
            PolicyMatrix({key: NEVER for key in ErrorGroup if key is not G.UNMAPPED}),
        ),
        (
            "group-without-policy",
            PolicyMatrix({key: NEVER for key in (*ErrorGroup, E.PROVIDER_THROTTLED) if key is not G.THROTTLING}),
            PolicyMatrix(
                {key: NEVER for key in (*ErrorGroup, E.PROVIDER_THROTTLED, E.QUOTA_EXCEEDED) if key is not G.THROTTLING}
            ),
        ),
        ("group-without-policy", PolicyMatrix({}), PolicyMatrix({}, default=NEVER)),
    ],
)
def test_check_speaks_up_for_what_is_wrong_and_is_silent_for_what_is_right(check, wrong, right):
    """Each check beside the nearest matrix that it has nothing against."""
    assert check in checks(wrong)
    assert check not in checks(right)


def test_classes_and_recovery_time_of_the_application_are_taken_into_account():
    """Its own classes are named; its breaker may be slower or faster."""
    assert [] == checks(WHOLE.with_({OWN: NEVER}), classes=[OWN])
    matrix = WHOLE.with_(one(G.TRANSIENT_INFRASTRUCTURE, [100]))
    assert ([], ["gives-up-before-breaker-recovers"]) == (checks(matrix), checks(matrix, recovery_timeout="2m"))
    with pytest.raises(ConfigurationError, match="recovery_timeout is 'soon'"):
        matrix.lint(recovery_timeout="soon")


@pytest.mark.parametrize(
    ("finding", "matrix"),
    [
        (
            Finding(
                Severity.ERROR,
                "ladder-longer-than-max-age",
                "throttling",
                "its 3 retries wait 1814400 s in all, max_age is 259200 s: the last never come; shorten the ladder or "
                "raise max_age",
            ),
            WHOLE.with_(one(G.THROTTLING, ["7d"], 3)),
        ),
        (
            Finding(
                Severity.ERROR,
                "more-retries-than-max-attempts",
                "default",
                "max_retries is 12, but max_attempts allows 12 attempts in all; raise max_attempts to 13",
            ),
            WHOLE.with_(default=RetryPolicy(max_retries=12, backoff=[1])),
        ),
        (
            Finding(
                Severity.ERROR,
                "retries-for-what-does-not-heal",
                "invalid_recipient",
                "1 retries for the group 'permanent_recipient', which does not heal by itself; use "
                "RetryPolicy.never(...)",
            ),
            WHOLE.with_(one(E.INVALID_RECIPIENT, [1])),
        ),
        (
            Finding(
                Severity.WARNING,
                "gives-up-before-breaker-recovers",
                "sender",
                "it gives up after 5.5 s at the latest, before a breaker that opened lets a probe through (60 s); wait "
                "longer in all",
            ),
            WHOLE.with_(one(G.SENDER, [5])),
        ),
        (
            Finding(
                Severity.WARNING,
                "group-without-policy",
                "sender",
                "provider_misconfigured, reputation_blocked fall to the policy of unmapped errors; give the group a "
                "policy of its own",
            ),
            PolicyMatrix({key: NEVER for key in ErrorGroup if key is not G.SENDER}),
        ),
    ],
)
def test_finding_names_the_place_the_numbers_and_what_to_do(finding, matrix):
    """For a person who has not read the documentation."""
    assert [finding] == matrix.lint().findings


def test_email_matrix_passes_without_findings():
    """What comes along for queues has nothing to be looked at."""
    report = EMAIL_MATRIX.lint()
    assert (True, [], 12) == (report.passed, report.findings, report.worst_case_attempts)
    assert [*EMAIL_MATRIX.policies] == [figures.key for figures in report.figures]


def test_http_api_matrix_passes_with_two_warnings():
    """It is for the process that needs the answer: it gives up soon, and its waits may fall below the rung."""
    report = HTTP_API_MATRIX.lint()
    assert (True, 6) == (report.passed, report.worst_case_attempts)
    assert ["gives-up-before-breaker-recovers", "queue-wait-below-its-rung"] == [f.check for f in report.findings]
    assert {(Severity.WARNING, "transient_infrastructure")} == {(f.severity, f.where) for f in report.findings}


def test_error_fails_and_warning_does_not():
    """`passed` is for scripts."""
    assert WHOLE.with_({OWN: NEVER}).lint().passed
    assert not WHOLE.with_(one(G.INTERNAL, ["1h"])).lint().passed


@pytest.mark.parametrize(
    ("share", "loads", "left", "with_tokens"),
    [
        (0.01, [1.0100, 1.0101, 1.0101, 1.0101], [0.0001, 1e-06, 1e-08], 1.0100),
        (0.05, [1.0500, 1.0525, 1.0526, 1.0526], [0.0025, 0.000125, 6.25e-06], 1.0500),
        (0.1, [1.1000, 1.1100, 1.1110, 1.1111], [0.01, 0.001, 0.0001], 1.0989),
        (0.25, [1.2500, 1.3125, 1.3281, 1.3330], [0.0625, 0.01562, 0.003906], 1.0811),
        (0.5, [1.5000, 1.7500, 1.8750, 1.9688], [0.25, 0.125, 0.0625], 1.0526),
        (0.75, [1.7500, 2.3125, 2.7344, 3.2881], [0.5625, 0.4219, 0.3164], 1.0256),
        (0.9, [1.9000, 2.7100, 3.4390, 4.6856], [0.81, 0.729, 0.6561], 1.0101),
        (1.0, [2.0000, 3.0000, 4.0000, 6.0000], [1, 1, 1], 1.0000),
        (0.0, [1.0, 1.0, 1.0, 1.0], [0, 0, 0], 1.0),
    ],
)
def test_load_and_residual_are_those_of_the_published_table(share, loads, left, with_tokens):
    """One, two, three and five retries while a share of all tries fails independently; and retries paid by successes."""
    assert pytest.approx(loads, abs=6e-5) == [load_factor(share, retries) for retries in (1, 2, 3, 5)]
    assert pytest.approx(left, rel=1e-3) == [residual(share, retries) for retries in (1, 2, 3)]
    assert pytest.approx(with_tokens, abs=6e-5) == budgeted_load_factor(share, 0.1)


@given(st.floats(0, 0.999), st.integers(0, 50))
def test_load_factor_is_its_closed_form(share, retries):
    """(1 - p^(n+1)) / (1 - p), and never more than all tries."""
    assert pytest.approx((1 - share ** (retries + 1)) / (1 - share)) == load_factor(share, retries)
    assert 1 <= load_factor(share, retries) <= retries + 1


def figures_of(policy, **limits):
    """Return the figures of a matrix with this policy alone."""
    (figures,) = PolicyMatrix({G.THROTTLING: policy}, **limits).lint().figures
    return figures


def test_figures_say_what_a_policy_amounts_to():
    """Attempts, waits in all, load and rest by the shares."""
    figures = figures_of(RetryPolicy(max_retries=3, backoff=delays("15m", "1h", "6h"), on_exhausted=Action.DISCARD))
    assert (G.THROTTLING, 4, Action.DISCARD) == (figures.key, figures.attempts, figures.then)
    low, half, most, high = figures.gives_up_after
    assert (26_100, pytest.approx(28_710)) == (low, high)
    assert low < half < most < high
    assert tuple(load_factor(share, 3) for share in SHARES) == figures.load
    assert tuple(residual(share, 3) for share in SHARES) == figures.left


@pytest.mark.parametrize(
    "backoff",
    [
        delays(5, 15, 30, 60, 120),
        exponential(5, cap="1h", jitter="quarter"),
        exponential(0.5, cap=20, jitter="full"),
        decorrelated(0.1, cap=10),
    ],
)
def test_quantiles_are_those_of_many_messages(backoff):
    """Half and 95 of 100 within 6 % of 20,000 lives that are drawn otherwise, each wait from the one before."""
    _, half, most, _ = figures_of(RetryPolicy(max_retries=5, backoff=backoff)).gives_up_after
    rng, lives = random.Random(2026), []
    for _ in range(20_000):
        waits = [0.0]
        for retry in range(1, 6):
            waits.append(backoff.delay(retry, rng, previous=waits[-1] if retry > 1 else None))
        lives.append(math.fsum(waits))
    cuts = statistics.quantiles(lives, n=20)
    assert pytest.approx(cuts[9], rel=0.06) == half
    assert pytest.approx(cuts[18], rel=0.06) == most


def test_quantiles_of_a_policy_without_jitter_are_its_sum():
    """All messages wait equally long."""
    figures = figures_of(RetryPolicy(max_retries=2, backoff=delays(5, 15, jitter="none")))
    assert (20.0, 20.0, 20.0, 20.0) == figures.gives_up_after


def test_report_of_the_same_matrix_is_the_same():
    """Nothing is drawn from global randomness."""
    assert EMAIL_MATRIX.lint() == EMAIL_MATRIX.with_().lint()
    assert (241.18, 247.81) == tuple(round(number, 2) for number in EMAIL_MATRIX.lint().figures[0].gives_up_after[1:3])


def test_attempts_are_bounded_by_the_matrix():
    """Also where a policy says a thousand million."""
    figures = figures_of(RetryPolicy(max_retries=10**9, backoff=[1]), max_attempts=3)
    assert (3, 2.0) == (figures.attempts, figures.gives_up_after[0])
    assert 1 == figures_of(RetryPolicy(max_retries=2, backoff=[1], throttle=True), max_attempts=1).attempts


@pytest.mark.parametrize(
    ("expected", "matrix"),
    [
        (1, WHOLE),
        (4, WHOLE.with_(one(G.THROTTLING, [1], 3))),
        (6, WHOLE.with_(one(G.THROTTLING, [1], 3) | one(E.PROVIDER_THROTTLED, [1], 2))),
        (8, WHOLE.with_(one(G.THROTTLING, [1], 3), default=RetryPolicy(max_retries=4, backoff=[1]))),
        (12, WHOLE.with_(one(G.THROTTLING, [1], 30))),
    ],
)
def test_worst_case_is_the_sum_of_all_retries_within_the_limit(expected, matrix):
    """A message may fail in one way after the other; retries are counted for each policy."""
    assert expected == matrix.lint().worst_case_attempts


@pytest.mark.unmeasured
@given(matrices())
def test_any_matrix_has_a_report_that_is_json(matrix):
    """Nothing infinite, nothing that is no number."""
    report = matrix.lint()
    table = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert report.to_dict() == table
    assert len(matrix.policies) + (matrix.default is not None) == len(table["policies"])
    for policy in report.figures:
        low, half, most, high = policy.gives_up_after
        assert low <= half * (1 + 1e-12) and half <= most <= high * (1 + 1e-12)


def test_report_is_told_as_json():
    """With names instead of tuples."""
    matrix = PolicyMatrix({}, default=RetryPolicy(max_retries=1, backoff=constant(10, jitter="none")))
    finding = {
        "severity": "warning",
        "check": "no-jitter",
        "where": "default",
        "message": "what failed together comes back together; give the backoff a jitter",
    }
    policy = {
        "policy": "default",
        "attempts": 2,
        "gives_up_after": {"min": 10.0, "p50": 10.0, "p95": 10.0, "max": 10.0},
        "then": "dead_letter",
        "load": {f"{p:g}": 1 + p for p in SHARES},
        "residual": {f"{p:g}": p**2 for p in SHARES},
    }
    report = matrix.with_(dict.fromkeys(ErrorGroup, NEVER)).lint().to_dict()
    assert (True, 2, [finding], policy) == (
        report["passed"],
        report["worst_case_attempts"],
        report["findings"],
        report["policies"][-1],
    )


def test_ladder_that_only_its_jitter_makes_too_long_is_a_warning():
    """The rungs add up to the maximum age exactly, so with any jitter the last retry does not come."""
    matrix = WHOLE.with_(one(G.SENDER, ["20h", "26h", "26h"], 3))
    (finding,) = [found for found in matrix.lint().findings if found.check == "ladder-may-exceed-max-age"]
    assert finding.severity is Severity.WARNING
    assert "wait up to 285120 s in all, max_age is 259200 s" in finding.message


def test_figures_count_no_retry_that_would_come_after_the_maximum_age():
    """What never comes adds no attempts, no load and no time."""
    figures = figures_of(RetryPolicy(max_retries=3, backoff=delays("1d", "3d", "7d")), max_age="2d")
    assert figures.attempts == 2
    assert 86_400 <= figures.gives_up_after[0] <= figures.gives_up_after[3] <= 172_800
    full = figures_of(RetryPolicy(max_retries=3, backoff=constant("20h", jitter="full")), max_age="5h")
    assert full.gives_up_after[3] <= 18_000


@pytest.mark.unmeasured
def test_figures_of_very_many_retries_end_soon():
    """A matrix with a hundred thousand retries is answered with fewer samples."""
    figures = figures_of(RetryPolicy(max_retries=100_000, backoff=constant(1)), max_attempts=200_000, max_age=None)
    assert (figures.attempts, figures.gives_up_after[0]) == (100_001, 100_000.0)
