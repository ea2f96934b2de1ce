"""Decides whether to send lineage, without importing OpenLineage, which most projects don't use."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.service.telemetry.lineage.observed import observe_lineage

if TYPE_CHECKING:
    from arctic_runtime.service.telemetry.lineage.emitter import LineageEmitter

_VARIABLES = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
_TRANSPORT = "OPENLINEAGE__TRANSPORT"
_FILE = "openlineage.yml"
DEFAULT_NAMESPACE = "dbt-arctic"


def build_lineage_emitter(reader: CatalogReader, project: str, warn: Callable[[str], None]) -> LineageEmitter | None:
    """Builds an emitter if OpenLineage is configured by the environment or a file; else returns None.

    The file is `openlineage.yml` in the current folder or in `~/.openlineage`. `project` is the prefix of job names.
    The namespace of jobs is OPENLINEAGE_NAMESPACE, else `dbt-arctic`. Raises ConfigError if OpenLineage's client is not
    installed, or can't read its configuration.
    """
    if not is_configured(os.environ, (Path.cwd(), Path.home() / ".openlineage")):
        return None
    if find_spec("openlineage") is None:
        raise ConfigError(
            "OpenLineage is configured, but its client is not installed.",
            expected="the package openlineage-python",
            actual="none",
            fix="install dbt-arctic with the extra `lineage`, or set OPENLINEAGE_DISABLED=true",
        )
    from arctic_runtime.service.telemetry.lineage.emitter import JobIdentity, LineageEmitter

    namespace = os.environ.get("OPENLINEAGE_NAMESPACE", DEFAULT_NAMESPACE)
    observe = partial(observe_lineage, reader)
    try:
        return LineageEmitter(JobIdentity(namespace, project), observe, warn, reader.thresholds.lineage)
    except Exception as error:
        raise ConfigError(
            "OpenLineage's configuration can't be used.",
            actual=f"{type(error).__name__}: {error}",
            fix="correct `openlineage.yml` or the variables that begin with OPENLINEAGE",
        ) from error


def is_configured(environment: Mapping[str, str], folders: tuple[Path, ...]) -> bool:
    """Whether OpenLineage is configured with a destination for events, and is not disabled."""
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    named = any(environment.get(name) for name in _VARIABLES) or any(
        name.startswith(_TRANSPORT) for name in environment
    )
    return named or any((folder / _FILE).is_file() for folder in folders)
