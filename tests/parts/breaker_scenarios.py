"""Published scenarios of other libraries' breakers, restated: settings of ours, and steps on a clock that starts at 0.

A call is `ok`, `fail` or `ignored`, with a count; `no` is a call that has to be refused. `begin` and `end` make a call in
parts, by its number. `+1.5` moves the clock. `open` and `half_open` force a state, as an operator does; `reset` is ours.
Anything else is what has to hold.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from retrykit.breaker import failure_count, failure_rate
from retrykit.policy.backoff import constant, delays, exponential


def still(seconds: float) -> Any:
    return constant(seconds, jitter="none")


SIX = {"failure_threshold": 6, "recovery_timeout": still(60)}
THREE_PROBES = {
    "trip": failure_rate(0.6, window=100, minimum_calls=3),
    "recovery_timeout": still(90),
    "probes": 3,
    "close_after": 3,
}
TENTH = {"trip": failure_rate(0.1, window="30s", minimum_calls=10), "recovery_timeout": still(5)}
ROLLING = {"trip": failure_rate(0.99, window="10s", minimum_calls=1000), "recovery_timeout": still(5)}
HALF = {"trip": failure_rate(0.5, window="10s", minimum_calls=10), "recovery_timeout": still(1)}
FOUR_PROBES = {
    "trip": failure_rate(0.5, window="20s", minimum_calls=5),
    "recovery_timeout": still(5),
    "probes": 4,
    "close_after": 4,
}
ONE_OF_ONE = {"trip": failure_count(1, window=1), "recovery_timeout": still(60)}
THREE_OF_THREE = {**ONE_OF_ONE, "probes": 3, "close_after": 3}
TWO_FAILURES = {"failure_threshold": 2, "recovery_timeout": still(1)}
LIST = {"failure_threshold": 2, "recovery_timeout": delays(1, 2, jitter="none")}
JUST_ABOVE_HALF = math.nextafter(0.5, 1)  # "more than half" of a rule that is met by reaching its share
MORE_THAN_HALF = {"trip": failure_rate(JUST_ABOVE_HALF, window=100, minimum_calls=50), "recovery_timeout": still(1)}
TWO_PROBES = {
    "trip": failure_rate(0.5, window=10, minimum_calls=4),
    "recovery_timeout": still(10),
    "probes": 2,
    "close_after": 2,
    "probe_timeout": 30,
}

SCENARIOS: dict[str, tuple[dict[str, Any], str]] = {
    # sony/gobreaker v2
    "gb-default-open-window": (SIX, "fail*6 state=open no*2 calls=0 +59.999 state=open +1 state=half_open"),
    "gb-default-halfopen-ok": (
        SIX,
        "fail*6 +60.001 ok state=closed calls=0 failures=0 fail*5 state=closed failures=5",
    ),
    "gb-single-probe": (SIX, "fail*6 +61 begin:1 no end:1:ok state=closed"),
    "gb-panic-is-failure": (SIX, "fail calls=1 failures=1"),
    "gb-halfopen-exclusions-neutral": (
        THREE_PROBES,
        "open +90.001 state=half_open ignored*4 state=half_open fail state=open",
    ),
    "gb-halfopen-fail-after-successes": (THREE_PROBES, "open +91 ok*2 fail state=open"),
    "gb-generation-late-success-halfopen": (
        SIX,
        "begin:1 fail*6 +61 state=half_open end:1:ok state=half_open begin:2 end:2:fail state=open",
    ),
    "gb-all-success-classifier": (SIX, "ok*5 state=closed failures=0"),
    "gb-excluded-keeps-streak": (SIX, "fail*5 ignored*3 failures=5 fail state=open"),
    # Polly v8
    "polly-threshold-1": (TENTH, "ok*10 state=closed"),
    "polly-threshold-2": (TENTH, "ok*9 fail state=open"),
    "polly-threshold-4": (TENTH, "fail ok*9 fail state=open"),
    "polly-threshold-5": (TENTH, "ok*8 fail state=closed"),
    "polly-rolling-health": (
        ROLLING,
        (
            "fail ok +2 calls=2 failures=1 fail ok +2 calls=4 failures=2 ok*2 +2 calls=6 failures=2 ok*2 +2 calls=8 failures=2 "
            "ok*2 +2 calls=8 failures=1 +2 calls=6 failures=0"
        ),
    ),
    "polly-rolling-capacity": (ROLLING, "ok +1 " * 10 + "calls=9 failures=0 +1 calls=8 failures=0"),
    "polly-full-cycle": (
        HALF,
        (
            "fail*10 state=open retry_after=1 no +0.5 no retry_after=0.5 +0.5 fail state=open retry_after=1 no +1 ok "
            "state=closed opened=2 half_opened=2 closed=1"
        ),
    ),
    "polly-second-probe-rejected": (HALF, "fail*10 +1 begin:1 no end:1:fail state=open"),
    # resilience4j 2.x
    "r4j-four-permits": (
        FOUR_PROBES,
        "half_open begin:1 begin:2 begin:3 begin:4 no*2 open half_open begin:5 begin:6 begin:7 begin:8 no",
    ),
    "r4j-ignored-then-close": (
        FOUR_PROBES,
        "half_open ignored*4 state=half_open failures=0 ok*3 state=half_open ok state=closed",
    ),
    "r4j-time-window": (FOUR_PROBES, "ok +1 ok +1 ok +1 fail +1 fail state=closed +1 state=closed fail state=open"),
    "r4j-exp-open": (
        {**FOUR_PROBES, "recovery_timeout": exponential(5, factor=1.5, jitter="none")},
        "open +3 no +3 begin:1 state=half_open open +6 no +5 begin:2 state=half_open",
    ),
    "r4j-reset": (FOUR_PROBES, "ok fail calls=2 failures=1 reset state=closed calls=0 failures=0"),
    # failsafe
    "fs-2of3": ({**ONE_OF_ONE, "trip": failure_count(2, window=3)}, "fail ok state=closed fail state=open"),
    "fs-3-consecutive": (
        {**ONE_OF_ONE, "trip": failure_count(3, window=3)},
        "fail ok fail*2 state=closed fail state=open",
    ),
    "fs-2-consecutive-alternating": (
        {**ONE_OF_ONE, "trip": failure_count(2, window=2)},
        "ok fail " * 20 + "state=closed",
    ),
    "fs-halfopen-02": (ONE_OF_ONE, "half_open state=half_open ok state=closed"),
    "fs-halfopen-07": (THREE_OF_THREE, "half_open ok*2 state=half_open fail state=open"),
    "fs-halfopen-08": (THREE_OF_THREE, "half_open ok*2 state=half_open ok state=closed"),
    "fs-halfopen-13": (THREE_OF_THREE, "half_open ok state=half_open fail state=open"),
    "fs-reject-excess": (
        THREE_OF_THREE,
        "half_open begin:1 begin:2 begin:3 no*5 rejected=5 end:1:ok end:2:ok end:3:ok state=closed",
    ),
    "fs-time-2of3": (
        {"trip": failure_count(2, window=timedelta(seconds=0.2), minimum_calls=3)},
        "fail ok +0.21 fail ok +0.05 state=closed fail state=open",
    ),
    "fs-timed-stats": (
        {"trip": failure_count(1_000_000, window="4s")},
        (
            "ok*10 fail*40 calls=50 failures=40 +1 ok*10 calls=60 failures=40 +1.5 fail*20 calls=80 failures=60 +0.6 ok*5 fail*20 "
            "calls=105 failures=80 +2.3 ok*8 calls=53 failures=40 +1.9 fail*5 calls=13 failures=5"
        ),
    ),
    # cockatiel
    "ck-close": (TWO_FAILURES, "fail*2 +1 begin:1 state=half_open half_opened=1 end:1:ok state=closed closed=1"),
    "ck-open-list": (LIST, "fail*2 +1 fail state=open +1 no +1 ok state=closed half_opened=2"),
    "ck-open-list-reset": (LIST, "fail*2 +1 fail +2 ok state=closed fail*2 +1 ok state=closed"),
    "ck-count-min": (MORE_THAN_HALF, "fail*49 state=closed"),
    "ck-count-strict": (MORE_THAN_HALF, "ok*25 fail*25 state=closed"),
    "ck-count-open": (MORE_THAN_HALF, "ok*24 fail*25 state=closed fail state=open"),
    "ck-count-wrap": (
        {"trip": failure_rate(JUST_ABOVE_HALF, window=5, minimum_calls=5)},
        "fail ok*2 fail ok*2 fail ok*2 state=closed calls=5 failures=1",
    ),
    # first principles
    "cancelled-probe-neutral": (
        TWO_PROBES,
        "open +10 begin:1 end:1:cancelled state=half_open begin:2 begin:3 no end:2:ok end:3:ok state=closed",
    ),
    "clock-standing-still": (
        TWO_PROBES,
        "fail*4 state=open retry_after=10 +0 retry_after=10 +9.999 state=open +0.001 state=half_open",
    ),
}

OTHERWISE = {
    "counts that begin anew at a fixed time, whatever happens": "gb-interval-clears gb-generation-late-result",
    "probes counted in all and not at once": "gb-halfopen-three-successes",
    "an open breaker that stays open until somebody calls: ours is half-open by the time alone": "polly-lazy-transition",
    "late results that count": "polly-late-success-closes",
    "the rule is asked after a success too": "r4j-trip-on-success",
    "slow calls": "r4j-slow-calls r4j-slow-only r4j-halfopen-slow-reopen",
    "half-open judged by the share of its probes: with us the first failure opens": (
        "r4j-halfopen-threshold-inclusive ck-sample-reopen fs-halfopen-03 fs-halfopen-04 fs-halfopen-05 fs-halfopen-06 "
        "fs-halfopen-10 fs-halfopen-11 fs-halfopen-12 fs-halfopen-14"
    ),
    "a lost probe that is never given up": "r4j-stuck-half-open",
    "a state that counts and never refuses": "r4j-metrics-only",
}
"""The scenarios that are not replayed, by what they need that this breaker does not do."""
