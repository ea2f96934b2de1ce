"""Expiry: deletes old snapshots of a model's tables, and the files that only these snapshots contain.

Expires landing tables too, to which other programs append events: deletes old rows, then old snapshots.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.foreign_readers import list_foreign_offsets
from arctic_runtime.catalog.observation.clones import list_clones, observe_clone_tags
from arctic_runtime.catalog.observation.plain_tables import observe_landing
from arctic_runtime.catalog.observation.tables import observe_snapshots, read_last_offsets
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.shared_files import list_own_orphans, remove_own_files
from arctic_runtime.catalog.storage.disk_files import list_store_files
from arctic_runtime.catalog_kinds.object_stores import is_store_address
from arctic_runtime.effects import perform_effect, retry_on_conflict, wait_for_lock
from arctic_runtime.errors import CommitConflict, ConfigError
from arctic_runtime.model.clone import ReleaseClone, list_tagged_tables, shares_files
from arctic_runtime.model.files.expiry import (
    Age,
    DeleteFiles,
    ExpiryPlan,
    LandingPlan,
    LandingState,
    SnapshotUse,
    format_ages,
)
from arctic_runtime.model.files.layout import list_missing_properties
from arctic_runtime.model.names import TableName, list_changes_read
from arctic_runtime.model.properties import COMMIT_TIMES, COMPACTED_UNTIL
from arctic_runtime.model.state import TableState, check_built
from arctic_runtime.model.step import SetProperties, Step
from arctic_runtime.model.table import Model
from arctic_runtime.plan.cloning.clone_plan import plan_release
from arctic_runtime.plan.maintenance.expiry import may_expire, plan_snapshot_expiry, select_due_steps
from arctic_runtime.plan.maintenance.landing import plan_landing_expiry
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.engine.statement import Sql, fill_statement, join_parts, quote_name, quote_text
from arctic_runtime.spark.maintenance.cloning import drop_clone, release_tags
from arctic_runtime.spark.tables.commit import perform_statement, set_properties
from arctic_runtime.spark.tables.steps import expire_snapshots, perform_step
from arctic_runtime.spark.tables.table_session import TableSession

_FILES = "arctic_files_of_view"


def plan_expiry(session: TableSession, readers: Iterable[TableName]) -> ExpiryPlan:
    """Plans the expiry of a table's snapshots, without Spark.

    `readers` are the tables of models that may read the table; snapshots that they still need are kept, and those that
    models of other projects need that have noted themselves in the table. Raises ConfigError if there is no table yet,
    or if its model sets no age.
    """
    return _plan_with_readers(session, _require_built_state(session), readers)


def expire_versions(session: TableSession, readers: Iterable[TableName]) -> ExpiryPlan:
    """Expires the snapshots that are due, and returns the plan; after a commit conflict it plans again.

    `readers` are the tables of models that may read the table (see `plan_expiry`). A snapshot that gets a tag meanwhile
    stays.
    """
    names = tuple(readers)

    def attempt_expiry() -> ExpiryPlan:
        state = _require_built_state(session)
        _keep_few_metadata_files(session, state)
        return _perform_plan(session, state, _plan_with_readers(session, state, names))

    return retry_on_conflict(attempt_expiry, session.reader.thresholds.commits.attempts)


def expire_if_due(session: TableSession, readers: Iterable[TableName]) -> None:
    """Expires snapshots after a run, but only if enough of them are due.

    `readers` are the tables of models that may read the table (see `plan_expiry`). After a commit conflict it tries
    again a limited number of times, then gives up without an error.
    """
    names = tuple(readers)

    def attempt_expiry() -> None:
        state = session.observe_state()
        _keep_few_metadata_files(session, state)
        thresholds = session.reader.thresholds
        if may_expire(session.model, state, _get_millis(session), thresholds):
            _perform_plan(
                session,
                state,
                select_due_steps(session.model, state, _plan_with_readers(session, state, names), thresholds),
            )
        elif clones := _plan_clone_release(session):
            _perform_plan(session, state, ExpiryPlan((), (), clones=clones))

    with suppress(CommitConflict):
        retry_on_conflict(attempt_expiry, session.reader.thresholds.commits.attempts)


def find_due_expiry(session: TableSession, readers: Iterable[TableName]) -> ExpiryPlan | None:
    """Plans the expiry that `expire_if_due` would perform, without Spark; None if nothing is due."""
    state, thresholds = session.observe_state(), session.reader.thresholds
    if not may_expire(session.model, state, _get_millis(session), thresholds):
        clones = _plan_clone_release(session)
        return ExpiryPlan((), (), clones=clones) if clones else None
    plan = select_due_steps(session.model, state, _plan_with_readers(session, state, readers), thresholds)
    return plan if plan.steps or plan.tags or plan.changelog_compaction or plan.clones else None


def _require_built_state(session: TableSession) -> TableState:
    state = session.observe_state()
    check_built(state, session.model.table)
    return state


def _list_tables(session: TableSession, state: TableState) -> tuple[TableName, ...]:
    table = session.model.table
    if session.model.is_appended:
        return (table,)
    return (table.changes, session.model.base, *([table.totals] if state.aggregate_state is not None else []))


def _plan_with_readers(session: TableSession, state: TableState, readers: Iterable[TableName]) -> ExpiryPlan:
    observed = [observe_snapshots(session.reader, table) for table in _list_tables(session, state)]
    read = {str(reader): read_last_offsets(session.reader, reader).get(str(session.model.table)) for reader in readers}
    consumers = {reader: offset for reader, offset in read.items() if offset is not None}
    for foreign, (offset, _) in list_foreign_offsets(state.log, session.reader, _get_millis(session)).items():
        consumers.setdefault(str(foreign), offset)
    use = SnapshotUse([table for table in observed if table is not None], consumers)
    plan = plan_snapshot_expiry(session.model, state, use, _get_millis(session), session.reader.thresholds)
    return replace(plan, clones=_plan_clone_release(session))


def _plan_clone_release(session: TableSession) -> tuple[ReleaseClone, ...]:
    """Plans to drop clones of the model that nobody uses, and tags for clones that do not exist."""
    reader, model = session.reader, session.model
    if not observe_clone_tags(reader, [model.log]):
        return ()
    observed = observe_clone_tags(reader, list_tagged_tables(model.table))
    return plan_release(observed, _get_millis(session), reader.profile.clone_ttl_seconds, reader.thresholds.expiry)


def _release_clone(session: TableSession, step: ReleaseClone) -> None:
    if step.is_dropped:
        drop_clone(session, step.clone)
    release_tags(session, step.tags)


def _perform_plan(session: TableSession, state: TableState, plan: ExpiryPlan) -> ExpiryPlan:
    ages = SetProperties("expiry.ages", session.model.table.changes, {COMMIT_TIMES: format_ages(plan.ages)})
    steps: list[Step] = [
        *([plan.changelog_compaction] if plan.changelog_compaction else []),
        *([ages] if plan.ages and plan.steps else []),
    ]
    steps += [*plan.tags, *plan.steps]
    for step in steps:
        perform_step(step, session.build_context(state))
    for release in plan.clones:
        _release_clone(session, release)
    return plan


def _keep_few_metadata_files(session: TableSession, state: TableState) -> None:
    """Sets the properties by which Iceberg keeps only the newest metadata files, on tables that lack these properties.

    Tables that were created by early versions of this project lack them, and would keep all metadata files.
    """
    model = session.model
    parts = ((model.table.changes, state.changes), (model.base, state.base), (model.table, state.appended))
    for table, part in parts:
        wanted = list_missing_properties(part.properties) if part is not None else {}
        if wanted:
            perform_step(SetProperties("expiry.metadata_files", table, wanted), session.build_context(state))


def find_orphan_files(session: TableSession, older_than_seconds: int, remove: bool) -> dict[str, list[str]]:
    """Lists, for each table of a model, the files in its folder that belong to no snapshot; if `remove`, deletes them.

    Only files older than `older_than_seconds` are listed, since the files of running writes belong to no snapshot
    either. If the model has a view, old metadata files of the view are listed as well, but not for a clone. Raises
    ConfigError if there is no table yet, or if the age is less than the threshold `orphan_seconds`.
    """
    if older_than_seconds < session.reader.thresholds.expiry.orphan_seconds:
        raise ConfigError(
            f"{session.model.table}: the age is too low, since files of running writes look like orphaned files.",
            expected="an age of 1d or more",
            actual=f"{older_than_seconds} seconds",
        )
    state = _require_built_state(session)
    names = _list_tables(session, state)
    before = session.now - datetime.timedelta(seconds=older_than_seconds)
    if state.log is not None and shares_files(state.log.properties):
        return {str(table): _find_own_orphans(session, table, before, remove) for table in names}
    _check_clones(session)
    orphans = {str(table): _find_table_orphans(session, table, before, remove) for table in names}
    current = session.reader.get_view_file(session.model.table.schema, session.model.table.name)
    if current is not None:
        orphans[str(session.model.table)] = _find_view_orphans(session, current, before, remove)
    return orphans


def _find_own_orphans(session: TableSession, table: TableName, before: datetime.datetime, remove: bool) -> list[str]:
    """Lists the orphaned files in the folder of a clone's table; if `remove`, deletes them."""
    orphans = list_own_orphans(session.reader, table, before)
    if remove:
        remove_own_files(session.reader, table, orphans)
    return orphans


def _check_clones(session: TableSession) -> None:
    """Raises ConfigError if clones need files in the folders of the model's tables that no tag keeps any more."""
    table = session.model.table
    wanted = {session.model.log} | (set() if session.model.is_appended else {session.model.base})
    kept = {seen.tag: {name for name, _ in seen.tags} for seen in observe_clone_tags(session.reader, wanted)}
    clones = [clone for clone in list_clones(session.reader) if clone.origin.model == table]
    if lost := [clone for clone in clones if not wanted <= kept.get(clone.tag, set())]:
        raise ConfigError(
            f"{table}: orphaned files can't be told from those of clones of a table that was dropped since.",
            actual=", ".join(str(clone.table) for clone in lost),
            fix="drop these clones with `arctic reset`, or make them anew with `dbt clone --full-refresh`",
        )


def _find_view_orphans(session: TableSession, current: str, before: datetime.datetime, remove: bool) -> list[str]:
    """Lists the metadata files of a model's view that are older than `before`; if `remove`, deletes them.

    The file `current`, which the view still uses, is left out. Iceberg leaves a file behind each time a view is
    replaced. Its procedure for orphaned files works only on tables, so it is called for the base table with a list of
    the view's files.
    """
    folder, _, file_name = current.rpartition("/")
    files = _list_metadata_files(session, folder).where(~F.endswith("file_path", F.lit(file_name)))
    return _find_table_orphans(session, session.model.base, before, remove, files)


def _list_metadata_files(session: TableSession, folder: str) -> DataFrame:
    """Returns the metadata files of a view in `folder`, with the columns `file_path` and `last_modified`."""
    spark = session.spark()
    stored = list_store_files(session.reader, folder)
    if stored is not None:
        files = [file for file in stored if file[0].endswith(".metadata.json")]
        return spark.createDataFrame(files, "file_path string, last_modified timestamp")
    metadata_files = spark.read.format("binaryFile").option("pathGlobFilter", "*.metadata.json").load(folder)
    return metadata_files.selectExpr("path AS file_path", "modificationTime AS last_modified")


def _find_table_orphans(
    session: TableSession, table: TableName, before: datetime.datetime, remove: bool, among: DataFrame | None = None
) -> list[str]:
    """Lists files older than `before` that no snapshot of `table` contains; if `remove`, deletes them.

    The files are those in the table's folder, or those in `among`, which has `file_path` and `last_modified` of files
    in one folder. A folder in an object store is listed by the FileIO of the table, since Hadoop can't read the store.
    """
    spark = session.spark()
    folder = session.reader.load_table(table.schema, table.name).location()
    arguments = Sql(", prefix_listing => true" if is_store_address(folder) else "")
    if among is not None:
        first = among.select("file_path").first()
        if first is None:
            return []
        among.createOrReplaceTempView(_FILES)
        folder = str(first[0]).rpartition("/")[0]
        arguments = fill_statement(
            ", location => {folder}, file_list_view => {files}",
            folder=quote_text(folder),
            files=quote_text(_FILES),
        )
    call = fill_statement(
        "CALL {catalog}.system.remove_orphan_files(table => {table}, older_than => TIMESTAMP {before}, "
        "dry_run => {dry}{among})",
        among=arguments,
        catalog=quote_name(table.catalog),
        table=quote_text(quote_name(*table.parts)),
        before=quote_text(before.isoformat(" ", "seconds")),
        dry=Sql("false" if remove else "true"),
    )

    def collect_rows() -> list[Row]:
        return spark.sql(call).collect()

    rows = (
        perform_effect("expiry.orphans", collect_rows, call, SPARK)
        if remove
        else wait_for_lock(collect_rows, call, SPARK)
    )
    orphans = sorted(row[0] for row in rows)
    if remove:
        _remove_remaining(session, table, folder, orphans)
    return orphans


def _remove_remaining(session: TableSession, table: TableName, folder: str, orphans: Sequence[str]) -> None:
    """Deletes the orphaned files that are still in a folder of an object store.

    Iceberg only logs that it could not delete a file. Raises CatalogError if this can't be done either.
    """
    stored = list_store_files(session.reader, folder) if orphans else None
    remaining = sorted({path for path, _ in stored or ()}.intersection(orphans))
    if not remaining:
        return
    files = session.reader.load_table(table.schema, table.name).io

    def remove_files() -> None:
        for path in remaining:
            with suppress(FileNotFoundError):
                files.delete(path)

    session.reader.perform_change("expiry.orphans", f"delete orphaned files of {table}", remove_files)


def _get_millis(session: TableSession) -> int:
    return int(session.now.timestamp() * 1000)


def plan_landing(
    landing: Model, models: Iterable[Model], reader: CatalogReader, now: datetime.datetime | None = None
) -> LandingPlan:
    """Plans the expiry of a landing table, without Spark, as of `now`, by default the present time.

    `models` are those that may read the table; rows that they have not read are kept. Raises ConfigError if the table
    does not exist, is no landing table, or sets no age.
    """
    return _plan_expiry_of_landing(landing, models, reader, observe_landing(reader, landing.table), now)


def expire_landing(
    landing: Model,
    models: Iterable[Model],
    reader: CatalogReader,
    spark: Callable[[], SparkSession],
    now: datetime.datetime | None = None,
) -> LandingPlan:
    """Deletes the rows and expires the snapshots that `plan_landing` plans; returns the plan.

    Before that, it stores in a property of the table the version up to which rows may be missing. So a reader that is
    not among `models`, and has not read up to this version, raises an error instead of missing rows.
    """
    state = observe_landing(reader, landing.table)
    plan = _plan_expiry_of_landing(landing, models, reader, state, now)
    notes = _build_notes(state, plan)
    if notes:
        set_properties("landing.mark", spark(), landing.table, notes)
    limits = reader.thresholds
    for files in _split_chunks(plan.delete, limits.expiry.deleted_files):
        retry_on_conflict(lambda: _delete_files(spark(), landing, files), limits.commits.attempts)  # noqa: B023 - called at once
    if plan.expire is not None:
        expire_snapshots(plan.expire, spark())
    return plan


def _plan_expiry_of_landing(
    landing: Model, models: Iterable[Model], reader: CatalogReader, state: LandingState, now: datetime.datetime | None
) -> LandingPlan:
    own = str(landing.table)
    read = [(model, read_last_offsets(reader, model.table).get(own)) for model in models]
    is_reader = [offset is not None or landing.table in list_changes_read(model.sql) for model, offset in read]
    readers = {str(model.table): offset for (model, offset), reads in zip(read, is_reader, strict=True) if reads}
    at = now or datetime.datetime.now(datetime.timezone.utc)
    thresholds = reader.thresholds.changelog
    return plan_landing_expiry(state, landing.config.retention, readers, int(at.timestamp() * 1000), thresholds)


def _build_notes(state: LandingState, plan: LandingPlan) -> dict[str, str]:
    """Builds the properties to set on the landing table before rows are deleted; empty if they are set already.

    The properties have the commit times of snapshots, and the version up to which rows may be missing.
    """
    ages = {COMMIT_TIMES: format_ages(plan.ages)} if plan.ages and plan.ages != state.ages else {}
    until = plan.delete.until if plan.delete else Age(0, 0)
    deleted = {COMPACTED_UNTIL: format_ages([until])} if until.sequence > state.deleted.sequence else {}
    return ages | deleted


def _split_chunks(delete: DeleteFiles | None, chunk_size: int) -> list[list[str]]:
    paths = [file.path for file in delete.files] if delete else []
    return [paths[start : start + chunk_size] for start in range(0, len(paths), chunk_size)]


def _delete_files(spark: SparkSession, landing: Model, files: list[str]) -> None:
    """Deletes all rows of `files`, so that Iceberg removes whole files; files that are gone already are no error.

    The path is wrapped in a `concat`, since Iceberg fails on a plain condition on the path: it can't decide by the path
    alone that it needs to read no rows.
    """
    parts = {"table": quote_name(*landing.table.parts), "files": join_parts(map(quote_text, files))}
    perform_statement(
        "landing.delete", spark, fill_statement("DELETE FROM {table} WHERE concat(_file, '') IN ({files})", **parts)
    )
