"""Decides what is observed of a process, from the environment and the profile; loads no library of a receiver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.plan.config.value_reader import TEXT, Setting, describe_settings, keep_value

FILE_VARIABLE = "ARCTIC_METRICS_FILE"
"""Environment variable with the path of the metrics file, which is used instead of that of the profile."""

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_LINEAGE_VARIABLES = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
_LINEAGE_TRANSPORT = "OPENLINEAGE__TRANSPORT"
_LINEAGE_FILE = "openlineage.yml"

TELEMETRY_SETTINGS = (
    Setting(
        "metrics_file",
        keep_value({**TEXT, "type": ["string", "null"]}),
        (
            "the file with metrics that commands write at their end, for node_exporter's textfile collector; relative "
            "to the project's folder. The variable `ARCTIC_METRICS_FILE` overrides it"
        ),
    ),
)
"""Keys of `telemetry` in a target."""


@dataclass(frozen=True)
class TelemetrySettings:
    """What a process sends and writes about its work."""

    has_traces: bool = False
    has_metrics: bool = False
    has_lineage: bool = False
    metrics_file: Path | None = None

    @property
    def is_on(self) -> bool:
        return self.has_traces or self.has_metrics or self.has_lineage or self.metrics_file is not None


def read_telemetry(written: Mapping[str, Any], base: Path, environment: Mapping[str, str]) -> TelemetrySettings:
    """Reads the settings of a process from the key `telemetry` of its target, and from its environment.

    Relative paths are relative to `base`. Raises ConfigError for unknown keys and invalid values.
    """
    check_telemetry(written)
    file = environment.get(FILE_VARIABLE) or written.get("metrics_file")
    return TelemetrySettings(
        is_traced(environment),
        is_metered(environment),
        is_lineage_sent(environment, (Path.cwd(), Path.home() / ".openlineage")),
        None if file is None else base / Path(file).expanduser(),
    )


def check_telemetry(written: Any) -> None:
    """Raises ConfigError for unknown keys and invalid values of the key `telemetry`."""
    if not isinstance(written, Mapping):
        raise ConfigError(f"`telemetry` must be a mapping; found a {type(written).__name__}")
    known = [setting.name for setting in TELEMETRY_SETTINGS]
    for key in written:
        if key not in known:
            raise ConfigError(
                f"`telemetry` has no key `{key}`{suggest_nearest(str(key), known)}; known are {', '.join(known)}"
            )
    file = written.get("metrics_file")
    if file is not None and not (isinstance(file, str) and file.strip()):
        raise ConfigError(f"`telemetry.metrics_file` must be the path of a file; found {file!r}")


def is_traced(environment: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry is configured with an endpoint for traces, and is not disabled."""
    return _is_exported(environment, "TRACES")


def is_metered(environment: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry is configured with an endpoint for metrics, and is not disabled."""
    return _is_exported(environment, "METRICS")


def _is_exported(environment: Mapping[str, str], signal: str) -> bool:
    is_off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or (
        environment.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() == "none"
    )
    endpoints = (_ENDPOINT, f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    return not is_off and any(environment.get(name) for name in endpoints)


def is_lineage_sent(environment: Mapping[str, str], folders: tuple[Path, ...]) -> bool:
    """Whether OpenLineage is configured with a destination for events, and is not disabled."""
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    named = any(environment.get(name) for name in _LINEAGE_VARIABLES) or any(
        name.startswith(_LINEAGE_TRANSPORT) for name in environment
    )
    return named or any((folder / _LINEAGE_FILE).is_file() for folder in folders)


def describe_telemetry_settings() -> str:
    """Formats the table of docs/telemetry.md with the keys of `telemetry`."""
    return describe_settings("key of `telemetry`", TELEMETRY_SETTINGS)
