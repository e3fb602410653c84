"""Streams of events are replayed: each incident fires within its window, once, and is over afterwards; quiet days stay silent."""

from __future__ import annotations

import pytest

from retrykit.machines.signals import BUCKET, Occurrence
from tests.monitor.streams import STEPS, replay

HOUR = 120
BEGINS = 10 * HOUR
ENDS = BEGINS + HOUR
STEPS_OF_WINDOW = round(300 / BUCKET)


def during(change):
    return lambda number, step: change(step) if BEGINS <= number < ENDS else None


def deadly(step):
    step.dead = 0.1


def failing(step):
    step.shares = {**step.shares, "provider_unavailable": 0.4}


def stalling(step):
    step.attempts *= 0.3
    step.waiting += 5_000


def broken(step):
    step.open_breakers = ("ses",)


@pytest.mark.parametrize("peak", [20, 200, 5_000])
@pytest.mark.parametrize(
    ("change", "key", "window"),
    [
        (deadly, "dead-letters-jump", STEPS_OF_WINDOW),
        (failing, "error-class-dominates:provider_unavailable", STEPS_OF_WINDOW),
        (broken, "breaker-opens:ses", 1),
    ],
)
def test_incident_fires_once_within_its_window_and_is_over_after_it(change, key, window, peak):
    """An hour of it, in which it neither flaps nor is told again; and nothing else fires."""
    told = replay(peak, peak, ENDS + 2 * HOUR, during(change)).told
    assert [("firing", key), ("resolved", key)] == [(state, name) for _, state, name in told]
    (fired, _, _), (over, _, _) = told
    assert BEGINS < fired <= BEGINS + window + 1
    assert ENDS < over <= ENDS + 2 * STEPS_OF_WINDOW + 2 * STEPS_OF_WINDOW


@pytest.mark.parametrize("peak", [200, 5_000])
def test_backlog_that_grows_while_fewer_are_sent_fires_within_its_window(peak):
    """And is over when it is sent again."""
    told = replay(peak, peak, ENDS + 2 * HOUR, during(stalling)).told
    assert [("firing", "backlog-grows"), ("resolved", "backlog-grows")] == [told_[1:] for told_ in told]
    assert BEGINS < told[0][0] <= BEGINS + 30
    assert ENDS < told[1][0] <= ENDS + 60


def test_backlog_that_grows_while_as_many_are_sent_is_no_alert():
    """A campaign makes it grow; nor is it one when fewer are sent and nothing waits."""

    def more(step):
        step.waiting += 5_000

    def fewer(step):
        step.attempts *= 0.3

    for change in (more, fewer):
        assert [] == replay(1, 200, ENDS + HOUR, during(change)).told


def test_breaker_that_flaps_is_one_alert():
    """Closed for a minute now and then, it is not over."""

    def change(number, step):
        if BEGINS <= number < ENDS and number % 4 < 2:
            broken(step)

    told = replay(1, 200, ENDS + HOUR, change).told
    assert ["firing", "resolved"] == [state for _, state, _ in told]


def test_share_that_swings_about_its_limit_is_told_a_few_times_at_the_most():
    """Between the limit and that of its end nothing changes."""

    def change(number, step):
        if BEGINS <= number:
            step.shares = {**step.shares, "dns_failure": 0.24 if number // 20 % 2 else 0.18}

    told = replay(1, 2_000, BEGINS + 8 * HOUR, change).told
    assert ["firing"] == [state for _, state, _ in told]


def test_little_traffic_wakes_nobody():
    """One of two messages died; one of three attempts failed."""

    def change(number, step):
        step.dead, step.shares = 0.5, {"network_timeout": 0.33}

    assert [] == replay(1, 0.2, STEPS, change).told


def test_total_loss_of_a_small_system_wakes_somebody():
    """All of a few messages a minute die: soon."""

    def change(number, step):
        step.attempts = 2
        if number >= BEGINS:
            step.dead, step.shares = 1.0, {}

    told = replay(1, 4, BEGINS + HOUR, change).told
    assert (BEGINS < told[0][0] <= BEGINS + STEPS_OF_WINDOW, "dead-letters-jump") == (True, told[0][2])


def test_new_codes_are_told_once_each_and_ten_thousand_of_them_in_six_alerts():
    """The record stays small, and what was told is remembered."""
    sizes = []

    def change(number, step):
        if BEGINS <= number < BEGINS + 50:
            first = (number - BEGINS) * 200
            step.occurrences = tuple(
                Occurrence(kind="unknown_code", subject=f"ses: {code}") for code in range(first, first + 200)
            )

    done = replay(1, 20, BEGINS + 50, change)
    sizes.append(len(str(done.signals.to_dict())))
    assert ["firing"] * 6 == [state for _, state, _ in done.told]
    assert [f"unknown-code:ses: {n}" for n in range(5)] + ["unknown-code:*"] == [key for *_, key in done.told]
    assert "9,995 more codes" in done.signals.alerts()[0].title
    assert sizes[0] < 60_000


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.unmeasured
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("peak", [2, 20, 200, 2_000, 50_000])
def test_quiet_days_wake_nobody_whatever_the_traffic(peak, seed, scale):
    """The control stream: 100 days of each under scripts/soak, 1,000 together."""
    told = replay(peak + seed, peak, STEPS * scale(100)).told
    assert [] == [key for _, state, key in told if state == "firing"]
