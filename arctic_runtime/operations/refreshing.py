"""Refreshes a model, then compacts and expires its table if due; for dbt, the service and the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from arctic_runtime.catalog.foreign_readers import list_tables_to_note
from arctic_runtime.catalog.observation.table_size import UnmergedRows, count_table_rows
from arctic_runtime.catalog.observation.tables import observe_model, read_last_offsets
from arctic_runtime.model.clone import shares_files
from arctic_runtime.model.foreign_readers import name_note
from arctic_runtime.model.names import TableName, parse_full_name
from arctic_runtime.refresh_planner import Outcome, PlannedRefresh, RefreshPlanner
from arctic_runtime.spark.engine.messages import get_message
from arctic_runtime.spark.engine.spark_loss import to_spark_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.catalog.reader import CatalogReader
    from arctic_runtime.model.table import Model

READ_NOTE = "note of its reads"

Readers = Callable[[TableName], Iterable[TableName]]
"""Function that returns the tables of the models that may read a table; versions that these need do not expire."""


@dataclass(frozen=True)
class Refreshed:
    """Result of a refresh and of the upkeep after it.

    `failures` has the error message of each part of the upkeep that failed, by its name, `compaction` or `expiry`.
    `quarantined` is the number of rows in the model's quarantine.
    """

    outcome: Outcome
    failures: Mapping[str, str] = field(default_factory=dict)
    quarantined: int = 0

    @property
    def is_changed(self) -> bool:
        return self.outcome.mode != "unchanged"


def perform_refresh(
    planner: RefreshPlanner,
    planned: PlannedRefresh,
    session: Callable[[], SparkSession],
    readers: Readers,
    with_upkeep: bool = True,
) -> Refreshed:
    """Performs the refresh `planned`, then the compaction and expiry that are due for the table.

    Returns the outcome without either if the table is up to date. `session` returns a Spark session; it is not called
    in this case, so that no Spark is started. `readers` returns, for the name of a table, the names of the tables whose
    models may read it; versions that one of these models has not read yet do not expire. If `with_upkeep` is False,
    compaction and expiry are left to the caller, as in the service, which performs them at other times. Raises the
    errors of `Refresh.run_refresh`; errors of compaction and expiry are returned in `Refreshed.failures`.
    """
    notes = _plan_read_notes(planner, planned, session)
    unchanged = planner.report_unchanged(planned)
    if unchanged is not None:
        use_note = {"note of its use": lambda: _note_use(planner, planned, session)}
        return Refreshed(unchanged, _run_upkeep({**use_note, **notes}))
    from arctic_runtime.spark.maintenance.compaction import compact_if_due
    from arctic_runtime.spark.maintenance.expiry import expire_if_due
    from arctic_runtime.spark.refresh.run import Refresh

    refresh = Refresh(planner, session)
    outcome = refresh.run_refresh(planned)
    if outcome.mode == "unchanged":
        return Refreshed(outcome, _run_upkeep(notes))
    table = refresh.table
    if not with_upkeep:
        return Refreshed(replace(outcome, timings=table.timings.list_seconds()), _run_upkeep(notes))
    upkeep = {**notes, "compaction": lambda: compact_if_due(table)}
    if not planner.reader.profile.is_branch:
        upkeep["expiry"] = lambda: expire_if_due(table, readers(table.model.table))
    failures = _run_upkeep(upkeep)
    return Refreshed(replace(outcome, timings=table.timings.list_seconds()), failures)


def refresh_parts(model: Model, reader: CatalogReader, refresh: Callable[[Model], Refreshed]) -> Refreshed:
    """Calls `refresh` for a model's quarantine, if it has one, and then for the model; returns the model's result.

    So a row that fails is in the quarantine before it leaves the table. Failures of upkeep are those of both.
    """
    if model.quarantine is None:
        return refresh(model)
    failures = refresh(model.quarantine).failures
    refreshed = refresh(model)
    rows = count_table_rows(model.quarantine, observe_model(reader, model.quarantine), UnmergedRows(reader))
    return replace(refreshed, failures={**failures, **refreshed.failures}, quarantined=rows)


def expire_after_publication(
    model: Model, reader: CatalogReader, session: Callable[[], SparkSession], readers: Readers
) -> dict[str, str]:
    """Expires old versions of a model that a build has published; for on a branch nothing expires.

    Notes its reads of tables of other projects too. Returns the error messages of the parts that failed, by name.
    """
    from arctic_runtime.spark.maintenance.expiry import expire_if_due
    from arctic_runtime.spark.tables.table_session import TableSession

    table = TableSession(model, reader, session)
    parts = {"expiry": lambda: expire_if_due(table, readers(model.table))}
    if model.foreign_tables:
        read = [name for text in read_last_offsets(reader, model.table) if (name := parse_full_name(text)) is not None]
        now_ms = round(1000 * table.now.timestamp())
        parts[READ_NOTE] = lambda: _note_reads(model, read, reader, session, now_ms)
    return _run_upkeep(parts)


def _note_use(planner: RefreshPlanner, planned: PlannedRefresh, session: Callable[[], SparkSession]) -> None:
    """Notes, once a day, that a clone is in use; does nothing for another table."""
    log = planned.state.log
    if log is None or not shares_files(log.properties):
        return
    from arctic_runtime.spark.maintenance.cloning import note_use
    from arctic_runtime.spark.tables.table_session import TableSession

    note_use(TableSession(planner.model, planner.reader, session), planned.state)


def _plan_read_notes(
    planner: RefreshPlanner, planned: PlannedRefresh, session: Callable[[], SparkSession]
) -> dict[str, Callable[[], None]]:
    """Returns the part of the upkeep that notes, in tables of other projects, that the model reads them.

    Empty if the model reads no such table, or if it notes that when its build is published.
    """
    names = {state.name for state in planned.upstreams.states.values() if state is not None}
    tables = planner.model.foreign_tables & names
    if not tables or planner.reader.profile.is_branch:
        return {}
    now_ms = round(1000 * planner.now.timestamp())
    return {READ_NOTE: lambda: _note_reads(planner.model, tables, planner.reader, session, now_ms)}


def _note_reads(
    model: Model, tables: Iterable[TableName], reader: CatalogReader, session: Callable[[], SparkSession], now_ms: int
) -> None:
    """Notes in tables of other projects, once a day, that `model` reads them; starts Spark only to write a note."""
    lacking = list_tables_to_note(model, tables, reader, now_ms)
    if not lacking:
        return
    from arctic_runtime.spark.tables.commit import set_properties

    for table in lacking:
        set_properties("reader.note", session(), table, {name_note(model.table): str(now_ms)})


def _run_upkeep(parts: Mapping[str, Callable[[], None]]) -> dict[str, str]:
    """Runs each part of the upkeep; returns the error messages of the parts that failed, by name.

    It raises no error, since the rows of the run are committed already.
    """
    failures: dict[str, str] = {}
    for part, action in parts.items():
        try:
            action()
        except Exception as error:
            failures[part] = get_message(to_spark_ended(error) or error)
    return failures


def format_upkeep_warning(table: TableName, part: str, message: str) -> str:
    """Formats the warning that the upkeep `part`, after a run of `table`, failed with the error `message`."""
    return (
        f"{table}: the rows of this run are committed, but the {part} after it failed.\n  found: {message}\n"
        "  what to do: nothing now, since a later run tries again; if it fails every time, fix the cause"
    )
