"""Metrics for OpenTelemetry, from events and, where asked, from the stores. Needs `retrykit[opentelemetry]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ..checks import instance_with
from ..errors import ConfigurationError, MissingExtraError
from ..events import Event
from .gauges import Gauge, Gauges, check_gauges
from .metrics import BREAKER_STATES, METRICS, EventMetrics, Metric

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

__all__ = ["OpenTelemetryExporter"]

_NAMESPACE: Final = "retrykit"


class OpenTelemetryExporter:
    """A listener that counts events for OpenTelemetry. Give one to everything that takes `on_event=`.

    Names begin with "retrykit.", attributes too, but for the error class, which is `error.type` as the semantic conventions say.
    Spans are made elsewhere: `retrykit.exporters.tracing`.

    Args:
        meter_provider: who makes the instruments; None: the global one.
        max_values: distinct values of an attribute that others make up (error classes, providers, codes, breakers), >= 1; further
            ones count as "other".

    Raises:
        MissingExtraError: the OpenTelemetry API is not installed.
        ConfigurationError: a value is not allowed.

    Example:
        >>> from opentelemetry.sdk.metrics import MeterProvider
        >>> from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        >>> from retrykit import Dispatcher, open_backend
        >>> reader = InMemoryMetricReader()
        >>> exporter = OpenTelemetryExporter(MeterProvider([reader]))
        >>> dispatcher = Dispatcher(lambda message, key: None, backend=open_backend("memory://"), on_event=[exporter])
        >>> _ = dispatcher.handle({"id": "welcome-17"})
        >>> metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
        >>> [metric.name for metric in metrics]
        ['retrykit.messages', 'retrykit.message.attempts']
    """

    def __init__(self, meter_provider: MeterProvider | None = None, *, max_values: int = 100) -> None:
        try:
            from opentelemetry.metrics import Observation, get_meter
        except ModuleNotFoundError:
            raise MissingExtraError("opentelemetry", "opentelemetry-api") from None
        if meter_provider is not None:
            instance_with(
                meter_provider, "meter_provider", "get_meter", "one of OpenTelemetry, such as MeterProvider([reader])"
            )
        self._observation: type[Observation] = Observation
        self._meter: Meter = get_meter(_NAMESPACE, meter_provider=meter_provider)
        self._metrics = EventMetrics(max_values)
        self._watched = set[str]()
        self._instruments = {metric.name: (self._instrument(metric), _attributes(metric.labels)) for metric in METRICS}
        self._meter.create_observable_gauge(
            f"{_NAMESPACE}.breaker.state",
            [self._breakers],
            description="Whether a breaker is in a state: 1 or 0; known from its first change on",
        )

    def _instrument(self, metric: Metric) -> Callable[[float, dict[str, str]], None]:
        name = f"{_NAMESPACE}.{metric.name}"
        if not metric.buckets:
            return self._meter.create_counter(name, metric.unit, metric.text).add
        return self._meter.create_histogram(
            name, metric.unit, metric.text, explicit_bucket_boundaries_advisory=metric.buckets
        ).record

    def __call__(self, event: Event) -> None:
        """Count an event."""
        for name, value, labels in self._metrics.of(event):
            add, attributes = self._instruments[name]
            add(value, dict(zip(attributes, labels, strict=True)))

    def watch(self, gauges: Gauges) -> None:
        """Show figures of a backend or of parts at each collection.

        Args:
            gauges: `BackendGauges` or `PartGauges`; one of each.

        Raises:
            ConfigurationError: it is none of them, or such figures are shown already.
        """
        check_gauges(gauges)
        names = {gauge.name for gauge in gauges.gauges}
        if names & self._watched:
            raise ConfigurationError(
                f"{min(names & self._watched)} is shown already; an exporter shows gauges of one kind once"
            )
        self._watched |= names
        for gauge in gauges.gauges:
            create = self._meter.create_observable_counter if gauge.is_total else self._meter.create_observable_gauge
            create(f"{_NAMESPACE}.{gauge.name}", [self._reader(gauge, gauges)], gauge.unit, gauge.text)

    def _reader(self, gauge: Gauge, gauges: Gauges) -> Callable[[CallbackOptions], Iterator[Observation]]:
        attributes = _attributes(() if gauge.label is None else (gauge.label,))

        def read(_: CallbackOptions) -> Iterator[Observation]:
            for reading in gauges.read():
                if reading.gauge is gauge:
                    for value, number in reading.values.items():
                        yield self._observation(number, dict.fromkeys(attributes, value))

        return read

    def _breakers(self, _: CallbackOptions) -> Iterator[Observation]:
        names = _attributes(("breaker", "state"))
        for breaker, current in tuple(self._metrics.breakers.items()):
            for state in BREAKER_STATES:
                yield self._observation(int(state == current), dict(zip(names, (breaker, state), strict=True)))


def _attributes(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return labels as OpenTelemetry names them."""
    return tuple("error.type" if label == "error_class" else f"{_NAMESPACE}.{label}" for label in labels)
