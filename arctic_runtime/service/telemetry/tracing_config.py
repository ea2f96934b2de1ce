"""Decides whether to send traces, without importing OpenTelemetry."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from arctic_runtime.errors import ConfigError

if TYPE_CHECKING:
    from arctic_runtime.service.telemetry.traces import Traces

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def build_traces(project: str) -> Traces | None:
    """Builds Traces if the environment names an endpoint, else returns None.

    Raises ConfigError if OpenTelemetry's library is not installed.
    """
    if not is_traced(os.environ):
        return None
    if find_spec("opentelemetry.exporter") is None or find_spec("opentelemetry.sdk") is None:
        raise ConfigError(
            "OpenTelemetry is configured, but its library is not installed.",
            expected="the packages opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http",
            fix="install dbt-arctic with the extra `otel`, or set OTEL_SDK_DISABLED=true",
        )
    from arctic_runtime.service.telemetry.traces import Traces

    return Traces(project)


def is_traced(environment: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry is configured with an endpoint for traces, and is not disabled."""
    is_off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or (
        environment.get("OTEL_TRACES_EXPORTER", "otlp") == "none"
    )
    return not is_off and any(environment.get(name) for name in _ENDPOINTS)
