"""When the rows of a table last changed, from its snapshots."""

from __future__ import annotations

import datetime as dt

from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import COMPACTED_UNTIL
from arctic_runtime.model.state import SourceState
from arctic_runtime.spark.engine.statement import name, statement, text


def last_change(state: SourceState) -> dt.datetime:
    """The time of the newest snapshot that is no compaction; of the oldest that is kept where all are."""
    times = [commit.at_ms for commit in state.commits if commit.operation != "replace"]
    newest = times[-1] if times else state.commits[0].at_ms
    return dt.datetime.fromtimestamp(newest / 1000, tz=dt.timezone.utc)


def question(table: TableName) -> str:
    """The same asked of Spark, for catalogs that this process can't read."""
    snapshots = name(table.catalog, table.schema, table.name, "snapshots")
    return statement(
        "SELECT max(committed_at) FROM {of} WHERE operation <> 'replace' AND summary[{trimmed}] IS NULL",
        of=snapshots,
        trimmed=text(COMPACTED_UNTIL),
    )
