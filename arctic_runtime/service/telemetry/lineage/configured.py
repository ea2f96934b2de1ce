"""Builds what sends lineage by OpenLineage's client, which is an extra."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.service.telemetry.lineage.observed import observe_lineage

if TYPE_CHECKING:
    from arctic_runtime.service.telemetry.lineage.emitter import LineageEmitter

DEFAULT_NAMESPACE = "dbt-arctic"


def build_lineage_emitter(reader: CatalogReader, project: str, warn: Callable[[str], None]) -> LineageEmitter:
    """Builds an emitter, as the environment or a file says.

    The file is `openlineage.yml` in the current folder or in `~/.openlineage`. `project` is the prefix of job names.
    The namespace of jobs is OPENLINEAGE_NAMESPACE, else `dbt-arctic`. OPENLINEAGE_PARENT_ID and
    OPENLINEAGE_ROOT_PARENT_ID name the run of a scheduler that all runs belong to. Raises ConfigError if OpenLineage's
    client is not installed, or can't read its configuration.
    """
    if find_spec("openlineage") is None:
        raise ConfigError(
            "OpenLineage is configured, but its client is not installed.",
            expected="the package openlineage-python",
            actual="none",
            fix="install dbt-arctic with the extra `lineage`, or set OPENLINEAGE_DISABLED=true",
        )
    from arctic_runtime.service.telemetry.lineage.emitter import PRODUCER, JobIdentity, LineageEmitter
    from arctic_runtime.service.telemetry.lineage.parent_run import read_parent_run

    parent = read_parent_run(os.environ, PRODUCER)
    namespace = os.environ.get("OPENLINEAGE_NAMESPACE", DEFAULT_NAMESPACE)
    observe = partial(observe_lineage, reader)
    try:
        return LineageEmitter(JobIdentity(namespace, project, parent), observe, warn, reader.thresholds.lineage)
    except Exception as error:
        raise ConfigError(
            "OpenLineage's configuration can't be used.",
            actual=f"{type(error).__name__}: {error}",
            fix="correct `openlineage.yml` or the variables that begin with OPENLINEAGE",
        ) from error
