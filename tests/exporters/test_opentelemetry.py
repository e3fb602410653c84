"""Events as OpenTelemetry's own reader sees them."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tests.capabilities import require

require("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from retrykit import RetryBudget, open_async_backend, open_backend
from retrykit.errors import ConfigurationError, MissingExtraError
from retrykit.events import BreakerChanged
from retrykit.exporters.gauges import AsyncBackendGauges, BackendGauges, PartGauges
from retrykit.exporters.metrics import METRICS
from retrykit.exporters.opentelemetry import OpenTelemetryExporter
from tests.exporters.samples import AT, EVENTS


@pytest.fixture
def reader():
    return InMemoryMetricReader()


@pytest.fixture
def exporter(reader):
    return OpenTelemetryExporter(MeterProvider([reader]))


def points(reader):
    """Return the data points of each metric."""
    data = reader.get_metrics_data()
    scopes = data.resource_metrics[0].scope_metrics if data else []
    return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}


def test_exporter_told_of_every_kind_of_event_shows_every_metric(reader, exporter):
    """One of each kind gives a point for each metric of the table, under its name."""
    for event in EVENTS:
        exporter(event)
    found = points(reader)
    assert {f"retrykit.{metric.name}" for metric in METRICS} | {"retrykit.breaker.state"} == set(found)
    (failed,) = found["retrykit.attempts.failed"]
    assert 1 == failed.value
    assert {
        "retrykit.error_group": "temporary_mailbox",
        "error.type": "mailbox_full",
        "retrykit.action": "retry",
    } == dict(failed.attributes)


def test_exporter_measures_into_the_buckets_of_the_table(reader, exporter):
    """Waits of minutes and hours are told apart, and one attempt from two."""
    for event in EVENTS:
        exporter(event)
    found = points(reader)
    (delay,) = found["retrykit.retry.delay"]
    assert (900, 1) == (delay.sum, delay.count)
    assert (1, 5, 15, 30, 60, 300, 900, 3600, 21600, 86400) == tuple(delay.explicit_bounds)
    attempts = {point.attributes["retrykit.disposition"]: point.sum for point in found["retrykit.message.attempts"]}
    assert {"sent": 1, "dead_lettered": 4} == attempts


def test_exporter_shows_one_state_of_a_breaker_at_a_time(reader, exporter):
    """Exactly one of the states is 1, the latest."""
    exporter(BreakerChanged(at=AT, name="ses", before="closed", after="open"))
    exporter(BreakerChanged(at=AT, name="ses", before="open", after="half_open"))
    states = {point.attributes["retrykit.state"]: point.value for point in points(reader)["retrykit.breaker.state"]}
    assert {"closed": 0, "open": 0, "half_open": 1, "isolated": 0, "disabled": 0} == states


def test_exporter_watching_a_backend_shows_its_figures(reader, exporter):
    """Every gauge that has a value is there at each collection."""
    exporter.watch(BackendGauges(open_backend("memory://")))
    found = points(reader)
    assert {f"retrykit.{gauge.name}" for gauge in BackendGauges.gauges} - set(found) <= {"retrykit.deliveries"}
    letters = {point.attributes["retrykit.state"]: point.value for point in found["retrykit.dlq.letters"]}
    assert {"quarantined": 0, "redriving": 0, "resolved": 0, "discarded": 0, "superseded": 0} == letters
    assert [({}, 1)] == [(dict(point.attributes), point.value) for point in found["retrykit.backend.up"]]


def test_exporter_watching_parts_shows_their_figures(reader, exporter):
    """What only grows is a counter."""
    exporter.watch(PartGauges(budgets={"ses": RetryBudget(capacity=10)}))
    metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    found = {metric.name: metric.data for metric in metrics}
    (tokens,) = found["retrykit.budget.tokens"].data_points
    assert ({"retrykit.budget": "ses"}, 10) == (dict(tokens.attributes), tokens.value)
    assert found["retrykit.budget.denied"].is_monotonic


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_values": 0}, "max_values is 0; allowed are whole numbers >= 1"),
        ({"meter_provider": 5}, "meter_provider is 5, which has no get_meter; allowed is one of OpenTelemetry"),
        (
            {"meter_provider": MeterProvider},
            "meter_provider is the class MeterProvider; allowed is one of OpenTelemetry",
        ),
    ],
)
def test_exporter_with_an_option_that_is_not_allowed_names_it(options, message):
    """With what is."""
    with pytest.raises(ConfigurationError) as caught:
        OpenTelemetryExporter(**options)
    assert str(caught.value).startswith(message)


def test_exporter_told_to_watch_something_else_or_the_same_again_refuses_it(reader, exporter):
    """Twice the same figures would be two answers to one question."""
    for gauges in ("x", None, PartGauges):
        with pytest.raises(ConfigurationError, match=r"^gauges is .*; allowed is BackendGauges\(backend\)"):
            exporter.watch(gauges)
    exporter.watch(PartGauges(budgets={"ses": RetryBudget()}))
    with pytest.raises(
        ConfigurationError, match=r"^breaker\.rejected is shown already; an exporter shows gauges of one"
    ):
        exporter.watch(PartGauges())
    exporter.watch(BackendGauges(open_backend("memory://")))
    assert {"retrykit.backend.up", "retrykit.budget.tokens"} <= set(points(reader))


def test_exporter_watching_an_asynchronous_backend_shows_what_was_refreshed(reader, exporter):
    """Until then that nobody has."""
    gauges = AsyncBackendGauges(open_async_backend("memory://"))
    exporter.watch(gauges)
    assert {"retrykit.backend.up": 0} == {name: found[0].value for name, found in points(reader).items()}
    asyncio.run(gauges.refresh())
    assert 1 == points(reader)["retrykit.backend.up"][0].value


def test_exporter_without_its_extra_names_it(monkeypatch):
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'retrykit\[opentelemetry\]'"):
        OpenTelemetryExporter()
