"""Sends the metrics of commands by OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader

from arctic_runtime.service.telemetry.command_metrics import COMMAND_METRICS, CommandMetric, MetricTotals
from arctic_runtime.service.telemetry.traces import SERVICE, build_resource


class OtlpMetrics:
    """Sends the values of `totals` as the OTEL environment variables say: each minute by default, and at the end."""

    def __init__(self, project: str, totals: MetricTotals, reader: MetricReader | None = None) -> None:
        self._totals = totals
        reader = reader or PeriodicExportingMetricReader(OTLPMetricExporter())
        self._provider = MeterProvider([reader], build_resource(project), shutdown_on_exit=False)
        meter = self._provider.get_meter(SERVICE)
        for metric in COMMAND_METRICS:
            create = meter.create_observable_counter if metric.is_counter else meter.create_observable_gauge
            create(metric.name, [partial(self._observe_metric, metric)], metric.unit, metric.meaning)

    def close(self) -> None:
        """Sends the last values; waits for the receiver as long as OpenTelemetry's variables say."""
        self._provider.shutdown()

    def _observe_metric(self, metric: CommandMetric, _: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(value, dict(zip(metric.labels, labels, strict=True)))
            for labels, value in self._totals.list_values(metric.name)
        ]
