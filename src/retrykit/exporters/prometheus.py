"""Metrics for Prometheus, from events and, where asked, from the stores. Needs `retrykit[prometheus]`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ..checks import instance_with
from ..errors import ConfigurationError, MissingExtraError
from ..events import Event
from .gauges import Gauge, Gauges, Reading, check_gauges
from .labels import check_namespace
from .metrics import BREAKER_STATES, METRICS, EventMetrics, Metric

if TYPE_CHECKING:
    from types import ModuleType

    from prometheus_client import CollectorRegistry
    from prometheus_client import Metric as Family

__all__ = ["PrometheusExporter"]


class PrometheusExporter:
    """A listener that counts events for Prometheus. Give one to everything that takes `on_event=`.

    Args:
        registry: where the metrics are registered; None: prometheus_client's own.
        namespace: what every name begins with, 1 to 64 letters, digits and "_", a letter first.
        max_values: distinct values of a label that others make up (error classes, providers, codes, breakers), >= 1; further
            ones count as "other".

    Raises:
        MissingExtraError: prometheus-client is not installed.
        ConfigurationError: a value is not allowed, or the registry has metrics of these names already.

    Example:
        >>> from prometheus_client import CollectorRegistry
        >>> from retrykit import Dispatcher, open_backend
        >>> registry = CollectorRegistry()
        >>> exporter = PrometheusExporter(registry)
        >>> dispatcher = Dispatcher(lambda message, key: None, backend=open_backend("memory://"), on_event=[exporter])
        >>> _ = dispatcher.handle({"id": "welcome-17"})
        >>> registry.get_sample_value("retrykit_messages_total", {"disposition": "sent"})
        1.0
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, *, namespace: str = "retrykit", max_values: int = 100
    ) -> None:
        try:
            import prometheus_client as client
        except ModuleNotFoundError:
            raise MissingExtraError("prometheus", "prometheus-client") from None
        if registry is not None:
            instance_with(
                registry, "registry", "register unregister", "one of prometheus_client, such as CollectorRegistry()"
            )
        self._registry = client.REGISTRY if registry is None else registry
        self._namespace: Final = check_namespace(namespace)
        self._metrics = EventMetrics(max_values)
        try:
            self._instruments = {metric.name: self._instrument(client, metric) for metric in METRICS}
            self._breaker_state = client.Gauge(
                _name("breaker.state"),
                "Whether a breaker is in a state: 1 or 0; known from its first change on",
                ("breaker", "state"),
                namespace=namespace,
                registry=self._registry,
            )
        except ValueError as error:
            raise ConfigurationError(
                f"the metrics cannot be registered: {error}; use one exporter for everything, or another namespace"
            ) from error

    def _instrument(self, client: ModuleType, metric: Metric) -> tuple[Any, str]:
        """Return an instrument, and the name of the method that takes a value."""
        settings: dict[str, Any] = {"namespace": self._namespace, "registry": self._registry}
        if metric.buckets:
            kind, method = client.Histogram, "observe"
            settings["buckets"] = metric.buckets
        else:
            kind, method = client.Counter, "inc"
        instrument = kind(_name(metric.name, metric.unit), metric.text, metric.labels, **settings)
        for value in metric.values:
            instrument.labels(value)
        return instrument, method

    def __call__(self, event: Event) -> None:
        """Count an event."""
        for name, value, labels in self._metrics.of(event):
            instrument, method = self._instruments[name]
            getattr(instrument.labels(*labels) if labels else instrument, method)(value)
            if name == "breaker.changes" and labels[0] in self._metrics.breakers:
                for state in BREAKER_STATES:
                    self._breaker_state.labels(labels[0], state).set(state == labels[1])

    def watch(self, gauges: Gauges) -> None:
        """Show figures of a backend or of parts at each scrape.

        Args:
            gauges: `BackendGauges` or `PartGauges`; one of each.

        Raises:
            ConfigurationError: it is none of them, or such figures are shown already.

        Example:
            >>> from prometheus_client import CollectorRegistry
            >>> from retrykit import open_backend
            >>> from retrykit.exporters.gauges import BackendGauges
            >>> registry = CollectorRegistry()
            >>> PrometheusExporter(registry).watch(BackendGauges(open_backend("memory://")))
            >>> registry.get_sample_value("retrykit_dlq_letters", {"state": "quarantined"})
            0.0
        """
        check_gauges(gauges)
        try:
            self._registry.register(_Collector(self._namespace, gauges))
        except ValueError as error:
            raise ConfigurationError(
                f"the gauges cannot be registered: {error}; an exporter shows one of a kind"
            ) from error


class _Collector:
    """What a registry asks at each scrape."""

    def __init__(self, namespace: str, gauges: Gauges) -> None:
        self._namespace = namespace
        self._gauges = gauges

    def describe(self) -> Iterable[Family]:
        """Name the gauges without reading a store."""
        return [self._family(gauge) for gauge in self._gauges.gauges]

    def collect(self) -> Iterable[Family]:
        """Read the gauges."""
        return [self._family(reading.gauge, reading) for reading in self._gauges.read()]

    def _family(self, gauge: Gauge, reading: Reading | None = None) -> Family:
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        kind = CounterMetricFamily if gauge.is_total else GaugeMetricFamily
        labels = () if gauge.label is None else (gauge.label,)
        family = kind(f"{self._namespace}_{_name(gauge.name, gauge.unit)}", gauge.text, labels=labels)
        for value, number in () if reading is None else reading.values.items():
            family.add_metric([value] if labels else [], float(number))
        return family


def _name(name: str, unit: str = "") -> str:
    """Return a metric's name as Prometheus writes it: with the unit, in underscores."""
    return name.replace(".", "_") + ("_seconds" if unit == "s" else "")
