"""Advice for users whose ingested table can't go on as it is."""

from __future__ import annotations

from arctic_runtime.model.names import TableName


def advise_resync(table: TableName) -> str:
    """Returns advice to have an ingested table of a database loaded again."""
    return (
        f"`arctic resync {table.name}`, or Resync on the page of the table, has it read again, also while a process "
        "ingests the source; what differs is published"
    )


def advise_reset(table: TableName) -> str:
    """Returns advice to make an ingested table of a database anew, with the columns and the key of its source."""
    return f"`arctic reset {table.name} --yes`, then `arctic resync {table.name}`"
