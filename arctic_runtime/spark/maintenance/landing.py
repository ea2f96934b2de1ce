"""Expires landing tables, to which other programs append events: deletes old rows, then old snapshots."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable

from pyspark.sql import SparkSession

from arctic_runtime.catalog.observation.plain_tables import observe_landing
from arctic_runtime.catalog.observation.tables import read_last_offsets
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.model.files.expiry import Age, DeleteFiles, LandingPlan, LandingState, format_ages
from arctic_runtime.model.names import list_changes_read
from arctic_runtime.model.properties import COMMIT_TIMES, COMPACTED_UNTIL
from arctic_runtime.model.table import Model
from arctic_runtime.plan.maintenance.landing import plan_landing_expiry
from arctic_runtime.spark.engine.statement import fill_statement, join_parts, quote_name, quote_text
from arctic_runtime.spark.tables.commit import perform_statement, set_properties
from arctic_runtime.spark.tables.snapshots import expire_snapshots


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


def _split_chunks(delete: DeleteFiles | None, most: int) -> list[list[str]]:
    paths = [file.path for file in delete.files] if delete else []
    return [paths[start : start + most] for start in range(0, len(paths), most)]


def _delete_files(spark: SparkSession, landing: Model, files: list[str]) -> None:
    """Deletes all rows of `files`, so that Iceberg removes whole files; files that are gone already are no error.

    The path is wrapped in a `concat`, since Iceberg fails on a plain condition on the path: it can't decide by the path
    alone that it needs to read no rows.
    """
    parts = {"table": quote_name(*landing.table.parts), "files": join_parts(map(quote_text, files))}
    perform_statement(
        "landing.delete", spark, fill_statement("DELETE FROM {table} WHERE concat(_file, '') IN ({files})", **parts)
    )
