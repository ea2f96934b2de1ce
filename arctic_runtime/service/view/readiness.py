"""Decides whether tables are loaded and kept up to date, so that a deployment can wait for it."""

from __future__ import annotations

from collections.abc import Iterable

from arctic_runtime.service.view.live_data import TableOverview

_UNREADY_STATES = ("missing", "loading", "failed", "held")
_MAINTAINED = ("model", "ingested")


def list_unready_tables(tables: Iterable[TableOverview]) -> list[TableOverview]:
    """Lists the tables that are not loaded yet, or that are behind because of an error.

    A table that is late but gets on, and one that users have paused, is ready.
    """
    return [table for table in tables if not _is_loaded(table) or _is_stopped(table)]


def _is_loaded(table: TableOverview) -> bool:
    """Whether the table exists and shows all of its sources, even if not their newest changes."""
    if table.kind in _MAINTAINED and not table.version:
        return False
    return table.freshness is None or table.freshness.state == "fresh" or table.freshness.as_of is not None


def _is_stopped(table: TableOverview) -> bool:
    """Whether nothing keeps the table up to date."""
    return table.state in _UNREADY_STATES or (table.ingestion is not None and not table.ingestion.is_running)
