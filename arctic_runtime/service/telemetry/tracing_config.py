"""Builds what sends traces and metrics by OpenTelemetry, whose library is an extra."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from arctic_runtime.errors import ConfigError

if TYPE_CHECKING:
    from arctic_runtime.service.telemetry.command_metrics import MetricTotals
    from arctic_runtime.service.telemetry.otlp_metrics import OtlpMetrics
    from arctic_runtime.service.telemetry.traces import Traces


def build_traces(project: str) -> Traces:
    """Builds Traces; raises ConfigError if OpenTelemetry's library is not installed."""
    _check_installed()
    from arctic_runtime.service.telemetry.traces import Traces

    return Traces(project)


def build_otlp_metrics(project: str, totals: MetricTotals) -> OtlpMetrics:
    """Builds what sends `totals`; raises ConfigError if OpenTelemetry's library is not installed."""
    _check_installed()
    from arctic_runtime.service.telemetry.otlp_metrics import OtlpMetrics

    return OtlpMetrics(project, totals)


def _check_installed() -> None:
    if find_spec("opentelemetry.exporter") is None or find_spec("opentelemetry.sdk") is None:
        raise ConfigError(
            "OpenTelemetry is configured, but its library is not installed.",
            expected="the packages opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http",
            fix="install dbt-arctic with the extra `otel`, or set OTEL_SDK_DISABLED=true",
        )
