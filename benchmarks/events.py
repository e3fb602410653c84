"""What an event costs with none, one and three listeners, and with the exporters: `python benchmarks/events.py`.

All rows are sampled in turns, in another order each round, and the medians are compared in the same run. Ratios are to a bare
call of a function that does nothing. Needs the dependency group "test" for the exporters; one that is absent is named and left out.
"""

from __future__ import annotations

import argparse
import logging
import platform
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import count

from resilience import Sampler, flaky, medians, noop, sampler

from retrykit import Action, Decision, Dispatcher, Disposition, Message, open_backend, retry
from retrykit.decision import DispositionKind
from retrykit.events import AttemptFailed, Listener, MessageHandled, emit
from retrykit.exporters.logs import LogListener
from retrykit.failure import ErrorClass, Failure, Outcome

BARE = "a bare call"

SENT = MessageHandled(
    at=datetime.now(UTC), disposition=Disposition(kind=DispositionKind.SENT, message_id="welcome-17", attempts=1)
)
FAILED = AttemptFailed(
    at=datetime.now(UTC),
    subject="welcome-17",
    attempt=1,
    failure=Failure(error_class=ErrorClass.MAILBOX_FULL, outcome=Outcome.REJECTED, provider="ses"),
    decision=Decision(Action.RETRY, 900.0, "mailbox_full, retry 1 of 3, waits 900 s"),
)


def ignore(event: object) -> None:
    """Listen to nothing."""


def raising(event: object) -> None:
    """Fail, as a listener with a bug does."""
    raise KeyError("bug")


def exporters() -> dict[str, Listener | None]:
    """Return a listener of each kind that comes with retrykit; None where its library is absent."""
    found: dict[str, Listener | None] = {"logs": LogListener(), "Prometheus": None, "OpenTelemetry": None}
    try:
        from prometheus_client import CollectorRegistry

        from retrykit.exporters.prometheus import PrometheusExporter

        found["Prometheus"] = PrometheusExporter(CollectorRegistry())
    except ImportError:
        pass
    try:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader

        from retrykit.exporters.opentelemetry import OpenTelemetryExporter

        found["OpenTelemetry"] = OpenTelemetryExporter(MeterProvider([InMemoryMetricReader()]))
    except ImportError:
        pass
    return found


def telling(event: MessageHandled | AttemptFailed, listeners: Sequence[Listener]) -> Callable[[], object]:
    """Return a function that tells of an event."""
    return lambda: emit(listeners, event)


def handling(listeners: Sequence[Listener]) -> Callable[[], object]:
    """Return a function that handles a message which is sent, in memory."""
    numbers = count()
    dispatcher = Dispatcher(lambda message, key: None, backend=open_backend("memory://"), on_event=listeners)
    return lambda: dispatcher.handle(Message(id=f"m-{next(numbers)}", payload=None))


def retried(listeners: Sequence[Listener], fn: Callable[[], int]) -> Callable[[], object]:
    """Return a function that is retried without waits."""
    return retry(on=ConnectionError, attempts=3, backoff=[0], on_event=listeners)(fn)


def table(title: str, makers: dict[str, Callable[[], object]], rounds: int) -> None:
    """Measure a table and print it."""
    samplers: dict[str, Sampler] = {BARE: sampler(noop)} | {name: sampler(fn) for name, fn in makers.items()}
    found = medians(samplers, rounds)
    print(f"\n{title}")
    for name, value in found.items():
        print(f"  {name:34} {value:10,.0f} ns {value / found[BARE]:10.1f} x")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="samples of each row (default 9)")
    rounds = parser.parse_args().rounds
    logging.getLogger("retrykit").addHandler(logging.NullHandler())
    logging.getLogger("retrykit").propagate = False
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, median of {rounds} rounds")
    listeners: dict[str, Sequence[Listener]] = {f"{number} listeners": [ignore] * number for number in (0, 1, 3)}
    for name, listener in exporters().items():
        if listener is None:
            print(f"not installed: {name}")
        else:
            listeners[name] = [listener]
    listeners["one that raises, logged"] = [raising]
    for title, event in {"sent message": SENT, "failed attempt": FAILED}.items():
        table(f"Telling of a {title}", {name: telling(event, each) for name, each in listeners.items()}, rounds)
    table("A message handled in memory", {name: handling(each) for name, each in listeners.items()}, rounds)
    few = {name: each for name, each in listeners.items() if not name.startswith("one")}
    table("@retry, a call that succeeds", {name: retried(each, noop) for name, each in few.items()}, rounds)
    table("@retry, two failures, then success", {name: retried(each, flaky()) for name, each in few.items()}, rounds)


if __name__ == "__main__":
    main()
