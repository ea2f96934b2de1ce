"""Stores requests to load an ingested table again, for the process that ingests its source."""

from __future__ import annotations

from arctic_runtime.catalog.observation.tables import observe_progress
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.properties import RESYNC_PREFIX
from arctic_runtime.model.sources.ingestion import to_millis
from arctic_runtime.spark.tables.commit import set_properties
from arctic_runtime.spark.tables.table_session import TableSession


def request_resync(table: TableSession) -> str:
    """Requests that a table is loaded again from its database; returns the name of its source.

    The request is stored until the process that ingests the source has begun to load. Raises ConfigError if the table
    is not ingested from a database, or was never ingested.
    """
    source, name = table.model.source, table.model.ingested_from
    if source is None or name is None:
        raise ConfigError(
            f"{table.model.table} can't be loaded again: no source is ingested into it.",
            fix="run `dbt run --full-refresh`, which computes a model again",
        )
    if not source.can_load:
        raise ConfigError(
            f"{table.model.table} can't be loaded again: {source.name} is no database, and gives no snapshot.",
            fix="use `arctic restore` for an older version, or `arctic overwrite` for rows of another table",
        )
    if observe_progress(table.reader, source.dead_letters) is None:
        raise ConfigError(
            f"{table.model.table}: {source.name} was never ingested.",
            fix="run `arctic ingest`, which loads it",
        )
    values = {f"{RESYNC_PREFIX}{name}": str(to_millis(table.now))}
    set_properties("ingest.request", table.spark(), source.dead_letters, values)
    return source.name
