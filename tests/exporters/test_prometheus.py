"""Events as Prometheus sees them, in its own text."""

from __future__ import annotations

import asyncio
import logging
import sys
import tracemalloc

import pytest

from tests.capabilities import require

require("prometheus_client")

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

from retrykit import (
    Action,
    CircuitBreaker,
    Dispatcher,
    PolicyMatrix,
    RetryBudget,
    RetryPolicy,
    open_async_backend,
    open_backend,
)
from retrykit.errors import ConfigurationError, MissingExtraError
from retrykit.events import BreakerChanged, UnknownCode
from retrykit.exporters.gauges import AsyncBackendGauges, BackendGauges, PartGauges
from retrykit.exporters.prometheus import PrometheusExporter
from retrykit.failure import ErrorGroup
from tests.exporters.samples import AT, EVENTS, failure


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def exporter(registry):
    return PrometheusExporter(registry)


def series(registry):
    """Return what a scrape gives: lines of samples by their name and labels."""
    lines = generate_latest(registry).decode().splitlines()
    samples = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name: float(value) for name, value in samples if "_created" not in name}


def test_exporter_told_of_every_kind_of_event_shows_all_of_them(registry, exporter):
    """One of each kind of event gives these samples."""
    for event in EVENTS:
        exporter(event)
    shown = series(registry)
    wanted = {
        'retrykit_messages_total{disposition="sent"}': 1,
        'retrykit_messages_total{disposition="dead_lettered"}': 1,
        'retrykit_messages_total{disposition="bounced"}': 0,
        'retrykit_message_attempts_bucket{disposition="sent",le="1.0"}': 1,
        'retrykit_message_attempts_bucket{disposition="dead_lettered",le="3.0"}': 0,
        'retrykit_message_attempts_bucket{disposition="dead_lettered",le="4.0"}': 1,
        'retrykit_attempts_failed_total{action="retry",error_class="mailbox_full",error_group="temporary_mailbox"}': 1,
        'retrykit_provider_failures_total{error_group="temporary_mailbox",provider="ses"}': 1,
        'retrykit_retry_delay_seconds_bucket{le="300.0"}': 0,
        'retrykit_retry_delay_seconds_bucket{le="900.0"}': 1,
        'retrykit_dead_letters_total{reason="retries_exhausted"}': 1,
        "retrykit_quarantined_total": 1,
        'retrykit_unknown_codes_total{code="X-99",provider="ses"}': 1,
        'retrykit_outcomes_verified_total{answer="accepted"}': 1,
        "retrykit_messages_republished_total": 1,
        "retrykit_publish_failures_total": 1,
        'retrykit_delivery_mismatches_total{kind="missing"}': 1,
        'retrykit_redrive_changes_total{state="stopped"}': 1,
        'retrykit_breaker_changes_total{breaker="ses",state="open"}': 1,
        'retrykit_breaker_state{breaker="ses",state="open"}': 1,
        'retrykit_breaker_state{breaker="ses",state="closed"}': 0,
    }
    assert wanted == {name: shown[name] for name in wanted}


def test_exporter_shows_one_state_of_a_breaker_at_a_time(registry, exporter):
    """Exactly one of the states is 1, the latest."""
    for before, after in [("closed", "open"), ("open", "half_open"), ("half_open", "closed")]:
        exporter(BreakerChanged(at=AT, name="ses", before=before, after=after))
        states = {name: value for name, value in series(registry).items() if name.startswith("retrykit_breaker_state")}
        assert 5 == len(states)
        assert {f'retrykit_breaker_state{{breaker="ses",state="{after}"}}'} == {
            name for name, value in states.items() if value
        }


def test_exporter_beside_a_broken_listener_counts_what_a_dispatcher_did(registry, exporter, caplog):
    """No message is lost to a listener that raises on each event, and the log names it."""

    def broken(event):
        raise KeyError(type(event).__name__)

    outcomes = iter([None, ConnectionResetError("gone"), ValueError("bug")])

    def send(message, key):
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome
        return "p-1"

    matrix = PolicyMatrix({group: RetryPolicy.never(Action.DEAD_LETTER) for group in ErrorGroup})
    backend = open_backend("memory://")
    with caplog.at_level(logging.ERROR):
        dispatcher = Dispatcher(send, backend=backend, matrix=matrix, on_event=[broken, exporter])
        kinds = [dispatcher.handle({"id": f"m-{number}"}).kind.value for number in range(3)]
    shown = series(registry)
    assert ["sent", "dead_lettered", "dead_lettered"] == kinds
    assert 2 == shown['retrykit_messages_total{disposition="dead_lettered"}']
    assert 1 == shown['retrykit_message_attempts_sum{disposition="sent"}']
    assert 2 == backend.dead_letters.count()
    assert caplog.records
    assert all("broken" in record.getMessage() for record in caplog.records)


def test_exporter_with_ten_thousand_codes_stays_small(registry, exporter):
    """A hundred codes are shown, the rest as one; the memory of ten thousand is that of a hundred."""

    def meet(numbers):
        for number in numbers:
            exporter(UnknownCode(at=AT, code=f"X-{number}", provider="ses", failure=failure()))

    meet(range(200))
    tracemalloc.start()
    meet(range(200, 10_000))
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    codes = {name: value for name, value in series(registry).items() if name.startswith("retrykit_unknown_codes_total")}
    assert 101 == len(codes)
    assert 9_900 == codes['retrykit_unknown_codes_total{code="other",provider="ses"}']
    assert grown < 500_000, "bytes; ten thousand series take about ten megabytes"


def test_exporter_watching_a_backend_shows_its_figures(registry, exporter):
    """The gauges are read at the scrape."""
    backend = open_backend("memory://")
    exporter.watch(BackendGauges(backend, fresh=0))
    Dispatcher(lambda message, key: 1 / 0, backend=backend, on_event=[]).handle({"id": "m"})
    shown = series(registry)
    wanted = {
        "retrykit_backend_up": 1,
        'retrykit_dlq_letters{state="quarantined"}': 1,
        'retrykit_dlq_died{window="1h"}': 1,
        "retrykit_retry_queue_due": 0,
        "retrykit_retry_queue_oldest_age_seconds": 0,
        "retrykit_unsettled": 0,
    }
    assert wanted == {name: shown[name] for name in wanted}


def test_exporter_watching_parts_shows_their_figures(registry, exporter):
    """What only grows is a counter."""
    exporter.watch(PartGauges(budgets={"ses": RetryBudget(capacity=10)}, breakers=[CircuitBreaker("ses")]))
    shown = series(registry)
    wanted = {
        'retrykit_budget_tokens{budget="ses"}': 10,
        'retrykit_budget_denied_total{budget="ses"}': 0,
        'retrykit_breaker_rejected_total{breaker="ses"}': 0,
    }
    assert wanted == {name: shown[name] for name in wanted}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_values": 0}, "max_values is 0; allowed are whole numbers >= 1"),
        ({"max_values": "many"}, "max_values is 'many'; allowed are whole numbers"),
        ({"namespace": ""}, "namespace is ''; allowed are 1 to 64 letters, digits and '_', a letter first"),
        ({"namespace": "a-b"}, "namespace is 'a-b'; allowed"),
        ({"namespace": "a b"}, "namespace is 'a b'; allowed"),
        ({"namespace": 5}, "namespace is 5; allowed"),
        ({"registry": "x"}, "registry is 'x', which has no register; allowed is one of prometheus_client"),
        (
            {"registry": CollectorRegistry},
            "registry is the class CollectorRegistry; allowed is one of prometheus_client",
        ),
    ],
)
def test_exporter_with_an_option_that_is_not_allowed_names_it_and_registers_nothing(registry, options, message):
    """A second try on the same registry finds nothing in its way."""
    with pytest.raises(ConfigurationError) as caught:
        PrometheusExporter(**{"registry": registry, **options})
    assert str(caught.value).startswith(message)
    assert {} == series(registry)
    assert PrometheusExporter(registry)


NO_GAUGES = [
    ("x", "gauges is 'x', which has no gauges; allowed is BackendGauges(backend), AsyncBackendGauges(backend) or Part"),
    (None, "gauges is None, which has no gauges; allowed is"),
    (PartGauges, "gauges is the class PartGauges; allowed is"),
]


@pytest.mark.parametrize(("gauges", "message"), NO_GAUGES)
def test_exporter_told_to_watch_something_else_refuses_it(registry, exporter, gauges, message):
    """At once, and not at the first scrape."""
    with pytest.raises(ConfigurationError) as caught:
        exporter.watch(gauges)
    assert str(caught.value).startswith(message)
    assert series(registry)


def test_exporter_watching_an_asynchronous_backend_shows_what_was_refreshed(registry, exporter):
    """Before each scrape, by the application."""
    backend = open_async_backend("memory://")
    gauges = AsyncBackendGauges(backend)
    exporter.watch(gauges)
    shown = series(registry)
    assert (0, False) == (shown["retrykit_backend_up"], "retrykit_unsettled" in shown)
    asyncio.run(gauges.refresh())
    shown = series(registry)
    assert (1, 0) == (shown["retrykit_backend_up"], shown["retrykit_unsettled"])


def test_exporter_made_twice_for_one_registry_is_refused(registry, exporter):
    """Two would count everything twice."""
    with pytest.raises(ConfigurationError, match="use one exporter for everything, or another namespace"):
        PrometheusExporter(registry)
    assert PrometheusExporter(registry, namespace="mailer")
    exporter.watch(BackendGauges(open_backend("memory://")))
    with pytest.raises(ConfigurationError, match="an exporter shows one of a kind"):
        exporter.watch(BackendGauges(open_backend("memory://")))


def test_exporter_without_a_registry_uses_the_one_of_the_client():
    """Where an application has no registry of its own, the scrape of the client library shows the metrics."""
    exporter = PrometheusExporter(namespace="retrykit_test")
    try:
        exporter(EVENTS[0])
        delay = REGISTRY.get_sample_value("retrykit_test_retry_delay_seconds_sum")
        assert 900 == delay
    finally:
        for instrument, _ in exporter._instruments.values():
            REGISTRY.unregister(instrument)
        REGISTRY.unregister(exporter._breaker_state)


def test_exporter_without_its_extra_names_it(monkeypatch):
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'retrykit\[prometheus\]'"):
        PrometheusExporter()
