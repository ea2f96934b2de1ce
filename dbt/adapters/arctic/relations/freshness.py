"""Determines the time as of which a table shows its source, from the progress of ingestion or its newest change."""

from __future__ import annotations

import datetime as dt

from dbt_common.exceptions import DbtDatabaseError

from arctic_runtime.catalog.observation.tables import observe_progress, observe_source
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.ingest.source import SourceOrigin
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import COMPACTED_UNTIL
from arctic_runtime.model.sources.freshness import to_origin_status
from arctic_runtime.model.sources.ingestion import ChangeSource
from arctic_runtime.model.state import SourceState
from arctic_runtime.spark.engine.statement import fill_statement, quote_name, quote_text
from dbt.adapters.arctic.relations.relation_metadata import RelationMetadata, ask_catalog, is_missing


def find_last_loaded(reader: CatalogReader, table: TableName, origin: SourceOrigin | None) -> dt.datetime | None:
    """Returns the time as of which a table is known to show its source.

    None if the table has no snapshot or does not exist, or if its first load has not ended.

    For a table of an ingested source, whose `origin` is given, this is the newest time that ingestion knows, including
    the last check of a source without changes. While the table is reloaded, it is the time as of which the reload
    began. For other tables, and if ingestion knows no time, it is the time at which the rows last changed.
    """
    state = observe_source(reader, table)
    if state is None:
        return None
    known = observe_progress(reader, origin.dead_letters) if origin else None
    if known is None or origin is None:
        return find_last_change(state)
    source = ChangeSource(str(table), origin.dead_letters)
    status = to_origin_status(source, origin.source_name, known, state.commits)
    return status.as_of or (find_last_change(state) if status.load is None else None)


def find_shown_time(metadata: RelationMetadata, table: TableName, origin: SourceOrigin | None) -> dt.datetime | None:
    """Returns the time as of which a table shows its source, only from metadata; None if it is not known.

    If this process can't read the catalog, it is the time of the newest snapshot that changed rows.
    """
    if metadata.is_readable(table.catalog):
        return ask_catalog(lambda: find_last_loaded(metadata.reader, table, origin))
    try:
        time: dt.datetime | None = metadata.fetch_rows(write_last_change_query(table))[0][0]
    except DbtDatabaseError as error:
        if is_missing(error):
            return None
        raise
    return time.replace(tzinfo=dt.timezone.utc) if time is not None and time.tzinfo is None else time


def build_unknown_error(relation: str, is_ingested: bool) -> str:
    """Returns the error message for a table whose freshness is unknown."""
    cure = "run `arctic ingest`, which loads it" if is_ingested else "create it, or correct its name in the source"
    alternative = ", or one whose first load has not ended" if is_ingested else ", or one without a snapshot"
    return (
        f"the freshness of {relation} is unknown.\n  expected: a table with a snapshot, or a `loaded_at_field`\n"
        f"  found: no such table{alternative}\n  what to do: {cure}"
    )


def find_last_change(state: SourceState) -> dt.datetime:
    """Returns the time of the newest existing commit that is no compaction; if all are, the time of the oldest."""
    times = [commit.at_ms for commit in state.commits if commit.operation != "replace"]
    newest = times[-1] if times else state.commits[0].at_ms
    return dt.datetime.fromtimestamp(newest / 1000, tz=dt.timezone.utc)


def write_last_change_query(table: TableName) -> str:
    """Returns the query for the time of a table's last change, for catalogs that only Spark can read."""
    snapshots = quote_name(table.catalog, table.schema, table.name, "snapshots")
    return fill_statement(
        "SELECT max(committed_at) FROM {of} WHERE operation <> 'replace' AND summary[{trimmed}] IS NULL",
        of=snapshots,
        trimmed=quote_text(COMPACTED_UNTIL),
    )
