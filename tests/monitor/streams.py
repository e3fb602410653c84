"""Days of a mail system, drawn from seeds: what its processes count, step by step, with and without an incident."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator, Iterable
from datetime import UTC, datetime, timedelta

import attrs

from retrykit.machines.alert_rules import DEFAULT_RULES
from retrykit.machines.signals import BUCKET, Backlog, Contribution, Signals, class_key, exchange, told

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
STEPS = round(86_400 / BUCKET)
"""Steps of a day."""

SHARES = {
    "network_timeout": 0.03,
    "connection_error": 0.01,
    "provider_throttled": 0.02,
    "mailbox_full": 0.02,
    "greylisted": 0.05,
    "soft_bounce": 0.02,
}
"""Of the attempts, on an ordinary day."""
DEAD = 0.004
BOUNCED = 0.01


@attrs.define
class Step:
    """What a system does in half a minute."""

    attempts: float
    """Messages that are tried, on average."""
    shares: dict[str, float]
    dead: float = DEAD
    waiting: int = 0
    occurrences: tuple = ()
    open_breakers: tuple = ()


def poisson(rng: random.Random, mean: float) -> int:
    if mean > 50:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    limit, count, product = math.exp(-mean), 0, rng.random()
    while product > limit:
        count, product = count + 1, product * rng.random()
    return count


def quiet(rng: random.Random, peak: float) -> Generator[Step]:
    """Days without an incident, for ever: night and day, campaigns, hours that differ, and clumps of failures.

    Args:
        rng: what is drawn from.
        peak: messages in a minute at noon.
    """
    step, campaign, left, waiting = 0, 1.0, 0, 0.0
    while True:
        if step % 120 == 0:  # an hour: what fails and dies varies by a third
            drift = {name: math.exp(rng.gauss(0, 0.3)) for name in SHARES}
            dying = math.exp(rng.gauss(0, 0.3))
            if not left and rng.random() < 0.1:
                left, campaign = rng.randrange(60, 240), rng.uniform(2, 6)
        daylight = 0.05 + 0.95 * math.sin(math.pi * (step % STEPS) / STEPS) ** 2
        attempts = peak / 2 * daylight * (campaign if left else 1.0)
        left = max(0, left - 1)
        clump = {name: rng.gammavariate(4, 0.25) for name in SHARES}  # each step by a half
        shares = {name: share * drift[name] * clump[name] for name, share in SHARES.items()}
        waiting += attempts * sum(shares.values()) - waiting / 20  # a wait of ten minutes
        yield Step(attempts, shares, DEAD * dying, poisson(rng, waiting))
        step += 1


def contributions(rng: random.Random, steps: Iterable[Step], instance: str = "a") -> Generator[Contribution]:
    """Draw what is counted in each step."""
    for seq, step in enumerate(steps, 1):
        failed = {class_key(name): poisson(rng, step.attempts * share) for name, share in step.shares.items()}
        good = max(0.0, 1 - sum(step.shares.values()))
        counts = {
            "sent": poisson(rng, step.attempts * good),
            "dead": poisson(rng, step.attempts * step.dead),
            "failed": sum(failed.values()),
            **failed,
        }
        counts["handled"] = counts["sent"] + counts["dead"] + poisson(rng, step.attempts * BOUNCED)
        yield Contribution(
            instance=instance,
            seq=seq,
            counts={name: count for name, count in counts.items() if count},
            occurrences=step.occurrences,
            open_breakers=step.open_breakers,
            backlog=Backlog(waiting=step.waiting, due=0, overdue=0.0, letters=0, died_last_hour=0),
        )


class Replay:
    """A record that is fed, and what people were told, with the number of the step."""

    def __init__(self, rules=DEFAULT_RULES, begin: datetime = BEGIN) -> None:
        self.rules = rules
        self.now = begin
        self.step = 0
        self.signals: Signals | None = None
        self.told: list[tuple[int, str, str]] = []

    def feed(self, given: Contribution, length: float = BUCKET) -> None:
        self.now += timedelta(seconds=length)
        self.step += 1
        self.signals = exchange(self.signals, "test", given, self.rules, lease=60, now=self.now)
        notices = self.signals.notices(given.instance)
        if notices:
            self.told += [(self.step, each.state.value, each.key) for each in notices]
            self.signals = told(self.signals, "test", notices)


def replay(
    seed: int,
    peak: float,
    steps: int,
    change: Callable[[int, Step], None] = lambda _, __: None,
    rules=DEFAULT_RULES,
) -> Replay:
    """Replay a stream; `change` makes an incident of it, step by step."""
    rng = random.Random(seed)
    done = Replay(rules)

    def changed() -> Generator[Step]:
        for number, step in zip(range(steps), quiet(rng, peak), strict=False):
            change(number, step)
            yield step

    for given in contributions(rng, changed()):
        done.feed(given)
    return done
