"""Expiry: old snapshots go, with the files that only they have."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from contextlib import suppress

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.observe import last_offsets, observe_snapshots
from arctic_runtime.effects import effect, retried, wait_for_lock
from arctic_runtime.errors import CommitConflict, ConfigError
from arctic_runtime.model.expiry import ExpiryPlan, ages_text
from arctic_runtime.model.layout import lacking
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import COMMIT_TIMES
from arctic_runtime.model.state import TableState, check_built
from arctic_runtime.model.step import SetProperties, Step
from arctic_runtime.plan.expiry import due, expiry, may_be_due
from arctic_runtime.spark.engine.java_errors import SPARK
from arctic_runtime.spark.engine.statement import Sql, name, statement, text
from arctic_runtime.spark.tables.steps import perform
from arctic_runtime.spark.tables.table_session import TableSession

_FILES = "arctic_files_of_view"


def plan_expiry(session: TableSession, readers: Iterable[TableName]) -> ExpiryPlan:
    """What would go, without Spark; `readers` are the models that may read this one.

    Raises ConfigError where the table was not built yet, or its model sets no age.
    """
    return _planned(session, _built(session), readers)


def expire(session: TableSession, readers: Iterable[TableName]) -> ExpiryPlan:
    """Lets go what is planned, and returns the plan; a snapshot that somebody tags meanwhile stays."""
    names = tuple(readers)

    def attempted() -> ExpiryPlan:
        state = _built(session)
        _keep_few_metadata_files(session, state)
        return _perform(session, state, _planned(session, state, names))

    return retried(attempted, session.reader.thresholds.commits.attempts)


def expire_if_due(session: TableSession, readers: Iterable[TableName]) -> None:
    """Expiry after a run, where enough has come together; it gives way to other writers."""
    names = tuple(readers)

    def attempted() -> None:
        state = session.observe()
        _keep_few_metadata_files(session, state)
        thresholds = session.reader.thresholds
        if may_be_due(session.model, state, _milliseconds(session), thresholds):
            _perform(session, state, due(session.model, state, _planned(session, state, names), thresholds))

    with suppress(CommitConflict):
        retried(attempted, session.reader.thresholds.commits.attempts)


def due_expiry(session: TableSession, readers: Iterable[TableName]) -> ExpiryPlan | None:
    """What `expire_if_due` would let go, without Spark; None for nothing."""
    state, thresholds = session.observe(), session.reader.thresholds
    if not may_be_due(session.model, state, _milliseconds(session), thresholds):
        return None
    plan = due(session.model, state, _planned(session, state, readers), thresholds)
    return plan if plan.steps or plan.tags or plan.trim else None


def _built(session: TableSession) -> TableState:
    state = session.observe()
    check_built(state, session.model.table)
    return state


def _tables(session: TableSession, state: TableState) -> tuple[TableName, ...]:
    table = session.model.table
    if session.model.is_appended:
        return (table,)
    return (table.changes, session.model.base, *([table.totals] if state.aggregate_state is not None else []))


def _planned(session: TableSession, state: TableState, readers: Iterable[TableName]) -> ExpiryPlan:
    found = [observe_snapshots(session.reader, of) for of in _tables(session, state)]
    read = {str(reader): last_offsets(session.reader, reader).get(str(session.model.table)) for reader in readers}
    consumers = {reader: offset for reader, offset in read.items() if offset is not None}
    tables = [of for of in found if of is not None]
    return expiry(session.model, state, tables, consumers, _milliseconds(session), session.reader.thresholds)


def _perform(session: TableSession, state: TableState, plan: ExpiryPlan) -> ExpiryPlan:
    ages = SetProperties("expiry.ages", session.model.table.changes, {COMMIT_TIMES: ages_text(plan.ages)})
    steps: list[Step] = [*([plan.trim] if plan.trim else []), *([ages] if plan.ages and plan.steps else [])]
    steps += [*plan.tags, *plan.steps]
    for step in steps:
        perform(step, session.context(state))
    return plan


def _keep_few_metadata_files(session: TableSession, state: TableState) -> None:
    """Tables of earlier versions keep all of their metadata files; from the next commit on they keep the newest."""
    model = session.model
    parts = ((model.table.changes, state.changes), (model.base, state.base), (model.table, state.appended))
    for table, part in parts:
        wanted = lacking(part.properties) if part is not None else {}
        if wanted:
            perform(SetProperties("expiry.metadata_files", table, wanted), session.context(state))


def orphan_files(session: TableSession, older_than_seconds: int, remove: bool) -> dict[str, list[str]]:
    """Files in the tables' folders that no snapshot of any branch or tag has, by table; they go where `remove` says so.

    Files of writes that are under way are among those that no snapshot has, so the age has to be longer than any write.
    Raises ConfigError where the table was not built yet, or the age is less than a day.
    """
    if older_than_seconds < session.reader.thresholds.expiry.orphan_seconds:
        raise ConfigError(
            f"{session.model.table}: the age is too low, since files of running writes look like orphaned files.\n"
            f"  expected: an age of 1d or more\n  found: {older_than_seconds} seconds"
        )
    names = _tables(session, _built(session))
    before = session.now - datetime.timedelta(seconds=older_than_seconds)
    found = {str(of): _orphans(session.spark(), of, before, remove) for of in names}
    current = session.reader.view_file(session.model.table.schema, session.model.table.name)
    if current is not None:
        found[str(session.model.table)] = _orphans_of_view(session, current, before, remove)
    return found


def _orphans_of_view(session: TableSession, current: str, before: datetime.datetime, remove: bool) -> list[str]:
    """Old metadata files of a table's view, but for the `current` one that it is read from.

    Iceberg leaves a file each time that a view is replaced. Its procedure for tables is given these files.
    """
    folder, _, kept = current.rpartition("/")
    found = session.spark().read.format("binaryFile").option("pathGlobFilter", "*.metadata.json").load(folder)
    files = found.selectExpr("path AS file_path", "modificationTime AS last_modified")
    return _orphans(
        session.spark(), session.model.base, before, remove, files.where(~F.endswith("file_path", F.lit(kept)))
    )


def _orphans(
    spark: SparkSession, table: TableName, before: datetime.datetime, remove: bool, among: DataFrame | None = None
) -> list[str]:
    """Old files that a table does not have: in its folder, or `among` files of one folder with their times."""
    arguments = Sql("")
    if among is not None:
        first = among.select("file_path").first()
        if first is None:
            return []
        among.createOrReplaceTempView(_FILES)
        arguments = statement(
            ", location => {folder}, file_list_view => {files}",
            folder=text(str(first[0]).rpartition("/")[0]),
            files=text(_FILES),
        )
    call = statement(
        "CALL {catalog}.system.remove_orphan_files(table => {table}, older_than => TIMESTAMP {before}, "
        "dry_run => {dry}{among})",
        among=arguments,
        catalog=name(table.catalog),
        table=text(name(*table.parts)),
        before=text(before.isoformat(" ", "seconds")),
        dry=Sql("false" if remove else "true"),
    )

    def perform() -> list[Row]:
        return spark.sql(call).collect()

    found = effect("expiry.orphans", perform, call, SPARK) if remove else wait_for_lock(perform, call, SPARK)
    return sorted(row[0] for row in found)


def _milliseconds(session: TableSession) -> int:
    return int(session.now.timestamp() * 1000)
