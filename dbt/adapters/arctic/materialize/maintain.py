"""Converts dbt models to models of the runtime, and the outcome of a run to dbt's response."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import CompilationError
from dbt_common.invocation import get_invocation_id

from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.catalog.required_capabilities import check_declared_needs
from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.node_model import (
    build_model,
    list_declared_constraints,
    list_not_null_columns,
    select_written_keys,
)
from arctic_runtime.model.names import TableName, format_changes_view
from arctic_runtime.model.table import Model
from arctic_runtime.plan.config.configure import lacks_key, read_configuration
from arctic_runtime.plan.refresh.adoption import is_being_adopted
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.plan.row_conditions import split_model
from dbt.adapters.arctic.materialize.foreign_config import check_foreign_config, list_known_keys
from dbt.adapters.arctic.materialize.manifest_checks import check_merge_keys, check_names
from dbt.adapters.arctic.materialize.row_conditions import RowConditions
from dbt.adapters.arctic.project.sources import group_tables_by_source
from dbt.adapters.arctic.relations.constraints import warn_of_unenforced
from dbt.adapters.arctic.relations.relation import write_event_window

if TYPE_CHECKING:
    from dbt.adapters.base import BaseRelation
    from pyspark.sql import SparkSession

    from arctic_runtime.catalog.reader import CatalogReader
    from arctic_runtime.model.clone import ObservedClone
    from arctic_runtime.operations.refreshing import Refreshed
    from arctic_runtime.profile import Profile
    from arctic_runtime.refresh_planner import PlannedRefresh, RefreshPlanner

logger = AdapterLogger("Arctic")

MATERIALIZATION = "arctic"


@dataclass
class ArcticResponse(AdapterResponse):
    """dbt's response for the run of an arctic model, as `run_results.json` stores it."""

    mode: str = ""
    """The way in which the run computed the table: `create`, `incremental`, `full` or `unchanged`."""

    reason: str = ""
    """The reason for the mode as one word in capitals, such as `CHANGES`; see `Reason`."""

    because: str = ""
    """Explanation of the reason for users; empty if the word says enough."""

    inserted: int = 0
    """Number of rows that the run inserted."""

    updated: int = 0
    """Number of existing rows that the run changed."""

    deleted: int = 0
    """Number of rows that the run deleted."""

    frozen: int = 0
    """Number of changes that were not applied, since they would touch frozen rows."""

    quarantined: int = 0
    """Number of rows that fail tests, and so are in the model's quarantine after the run."""

    upserted: int = 0
    """Number of rows that were written without a look at the table, so that they may be inserts or updates.

    Only models with `changelog: input` have such rows.
    """

    version: str = ""
    """Version of the table after the run, as a snapshot id; empty if the table has no version."""

    consumed: dict[str, str] = field(default_factory=dict)
    """Maps the name of each upstream table to the version, as a snapshot id, up to which the run has read it."""

    timings: dict[str, float] = field(default_factory=dict)
    """Seconds that the run took, by the name of the step."""

    estimates: dict[str, float] = field(default_factory=dict)
    """Seconds that were estimated before the run: for an incremental refresh and for a full one, by mode."""

    failures: dict[str, str] = field(default_factory=dict)
    """Error messages of the work that failed after the rows were committed, by its name: `compaction` or `expiry`."""


def build_response(refreshed: Refreshed) -> ArcticResponse:
    """Converts the result of a run to dbt's response."""
    from arctic_runtime.operations.run_response import describe_response, format_response

    return ArcticResponse(_message=format_response(refreshed), **describe_response(refreshed))


ObserveRefresh = Callable[["Model", "Callable[[], Refreshed]"], "Refreshed"]
"""Function that calls the one that refreshes a model, observes it, and returns its result or raises its error."""


def perform_unobserved(_: Model, refresh: Callable[[], Refreshed]) -> Refreshed:
    """Refreshes a model without observing it."""
    return refresh()


FindClone = Callable[["Model"], "ObservedClone | None"]
"""Function that returns the clone of a table whose rows a run may take over; None if there is none."""


def find_no_clone(_: Model) -> None:
    """Returns None, for runs that take over no clone."""


def run_model(
    model: Model,
    reader: CatalogReader,
    session: Callable[[], SparkSession],
    request: Request,
    readers: Callable[[TableName], Iterable[TableName]] = lambda _: (),
    observe: ObserveRefresh = perform_unobserved,
    restated: str = "",
    find_clone: FindClone = find_no_clone,
) -> ArcticResponse:
    """Brings a model's table up to date, and before it its quarantine; starts Spark only if one has to be changed.

    `readers` returns the models that may read a table; versions that they have not read yet do not expire after the
    run. `observe` observes the refresh. The rows that the predicate `restated` selects are then computed anew, unless
    it is empty. `find_clone` returns the clone of a table whose rows the run takes over if it can.
    """
    # Imported here, since it is much code, and most commands of dbt refresh nothing.
    from arctic_runtime.operations.refreshing import refresh_parts

    def refresh() -> Refreshed:
        return refresh_parts(
            model,
            reader,
            lambda part: _run_part(part, reader, session, replace(request, clone=find_clone(part)), readers, restated),
        )

    done = observe(model, refresh)
    return build_response(done)


def _run_part(
    model: Model,
    reader: CatalogReader,
    session: Callable[[], SparkSession],
    request: Request,
    readers: Callable[[TableName], Iterable[TableName]],
    restated: str = "",
) -> Refreshed:
    """Brings one table of a model up to date, and computes the rows that the predicate `restated` selects anew."""
    from arctic_runtime.operations.refreshing import format_upkeep_warning, perform_refresh
    from arctic_runtime.refresh_planner import RefreshPlanner

    pins = _GIVEN_PINS.get() or _get_pinned_snapshots(get_invocation_id())
    planner = RefreshPlanner(model, reader, request, pins=pins)
    planned = _plan_promotion(planner, session) if request.clone is not None else None
    if planned is None:
        planner = RefreshPlanner(model, reader, replace(request, clone=None), pins=pins)
        planned = planner.plan_refresh()
    former = planned.state.conflicting
    if former is not None and former.is_plain and not is_being_adopted(model, planned.state):
        logger.info(f"Replacing the {former.kind} {former.name}, since the model is an arctic model now")
    done = perform_refresh(planner, planned, session, readers)
    for part, message in done.failures.items():
        logger.warning(format_upkeep_warning(model.table, part, message))
    return restate_rows(model, reader, session, done, restated) if restated else done


def _plan_promotion(planner: RefreshPlanner, session: Callable[[], SparkSession]) -> PlannedRefresh | None:
    """Plans the run that takes over the clone of the planner's request; None if it can't, or if there is nothing new.

    A message says why it can't.
    """
    from arctic_runtime.spark.refresh.promote import plan_promoted_run

    try:
        return plan_promoted_run(planner, session)
    except ConfigError as refused:
        logger.info(str(refused).splitlines()[0])
        return None


def restate_rows(
    model: Model, reader: CatalogReader, session: Callable[[], SparkSession], done: Refreshed, where: str
) -> Refreshed:
    """Restates rows of a table that its refresh, which is done, did not compute in full.

    A table whose rows can't be restated is left as the refresh made it, with a warning.
    """
    from arctic_runtime.plan.refresh.restate import EventsGone, check_restatable
    from arctic_runtime.spark.refresh.restate import restate_part
    from arctic_runtime.spark.refresh.run import Refresh

    if done.outcome.mode not in ("incremental", "unchanged") or done.outcome.reason == "SCHEMA_ONLY":
        return done
    try:
        check_restatable(model)
    except ConfigError as refused:
        logger.warning(str(refused))
        return done
    try:
        part = restate_part(Refresh.from_model(model, reader, session), where)
    except EventsGone as refused:
        logger.warning(str(refused))
        return done
    rows = {action: count + part.rows.get(action, 0) for action, count in done.outcome.rows.items()}
    outcome = replace(
        done.outcome,
        mode="full",
        reason="RESTATED",
        because=f"where {where}",
        rows=rows,
        version=part.version,
        frozen=done.outcome.frozen + part.frozen,
    )
    return replace(done, outcome=outcome)


def write_restated_window(node: Mapping[str, Any], asked: Any) -> str:
    """Returns the SQL predicate for the rows of a model that dbt's flags `--event-time-start` and `-end` select.

    `asked` has the flags. Empty without these, and for a model without `event_time`. Times without a zone are in UTC.
    """
    column = node["config"].get("event_time")
    given: list[datetime | None] = [getattr(asked, name, None) for name in ("EVENT_TIME_START", "EVENT_TIME_END")]
    start, end = (at.replace(tzinfo=at.tzinfo or timezone.utc) if at else None for at in given)
    return write_event_window(str(column), start, end) if column else ""


@functools.lru_cache(maxsize=1)
def _get_pinned_snapshots(_invocation: str) -> PinnedSnapshots:
    """Returns the upstream versions that all models of one dbt invocation read; empty at its first call."""
    return PinnedSnapshots()


_GIVEN_PINS: ContextVar[PinnedSnapshots | None] = ContextVar("given pins", default=None)


def is_pinned() -> bool:
    """Whether runs in this thread are parts of a refresh that reads given versions, as of `arctic run`."""
    return _GIVEN_PINS.get() is not None


@contextmanager
def use_pinned_snapshots(pins: PinnedSnapshots) -> Iterator[None]:
    """Makes runs in this thread read the upstream versions `pins`, rather than those of their dbt invocation.

    Applies until the context ends.
    """
    token = _GIVEN_PINS.set(pins)
    try:
        yield
    finally:
        _GIVEN_PINS.reset(token)


def to_model(
    relation: BaseRelation,
    node: Mapping[str, Any],
    sql: str,
    sources: Mapping[TableName, bool] | None = None,
    tests: RowConditions | None = None,
) -> Model:
    """Converts a dbt model to a model of the runtime; raises ConfigError if its configuration is invalid.

    `sources` are the tables that the project declares as sources, each with whether the project ingests it. A table
    with the model's name that is not one of them may be replaced by the model; without `sources`, the model replaces no
    table. `tests` are the tests that decide
    which rows are in its quarantine, needed if the queries of the model are used.
    """
    config = read_configuration(select_written_keys(node), str(node["unique_id"]), list_known_keys())
    model = build_model(node, get_table_name(relation), sql, config, sources)
    if config.on_failed_row != "quarantine" or tests is None:
        return split_model(model, ())
    return split_model(model, tests.list_conditions(str(node["unique_id"])))


def check_sample(node: Mapping[str, Any], would_delete: bool) -> None:
    """Raises ConfigError if a run with `--sample`, which reads a part of the upstream rows, would lose other rows.

    With `input: changes` no later run would read the other rows; with `would_delete` the run would delete them from the
    table.
    """
    if node["config"].get("input") == "changes":
        raise ConfigError(
            f"{node['unique_id']}: --sample can't be used with `input: changes`: a run reads each new row only once.",
            fix="leave the model out with --exclude, or run without --sample",
        )
    if would_delete:
        raise ConfigError(
            f"{node['unique_id']}: --sample would delete the rows outside of the sample from the existing table.",
            fix="add --full-refresh to delete these rows, or build into another schema",
        )


def get_node_table(node: Any) -> TableName:
    """Returns the table name of a node of the manifest."""
    return TableName(str(node.database), str(node.schema), str(node.alias))


def is_arctic(node: Any) -> bool:
    """Whether a node of the manifest is a model with `materialized: arctic`."""
    return str(node.resource_type) == "model" and node.config.materialized == MATERIALIZATION


def get_table_name(relation: BaseRelation) -> TableName:
    return TableName(str(relation.database), str(relation.schema), str(relation.identifier))


def name_changes(relation: BaseRelation, node: Mapping[str, Any]) -> str:
    """Returns the quoted name by which a model's SQL reads the new rows of `relation`.

    In a unit test this is the name of the relation with the rows of the test. Raises CompilationError for a model that
    is not an arctic one.
    """
    if node.get("resource_type") == "unit_test":
        return str(relation.render())
    materialized = node.get("config", {}).get("materialized")
    if node.get("resource_type") == "model" and materialized != MATERIALIZATION:
        raise CompilationError(
            f"{node.get('unique_id')}: changes(…) gives each row exactly once, which only a model with "
            f"materialized='{MATERIALIZATION}' and input='changes' can keep; this one is materialized='{materialized}'"
        )
    return "`" + format_changes_view(get_table_name(relation)) + "`"


def name_quarantine(relation: BaseRelation, node: Mapping[str, Any]) -> BaseRelation:
    """Returns the relation with the rows that fail the tests of the model with the table `relation`.

    In a unit test this is `relation`, with the rows of the test.
    """
    if node.get("resource_type") == "unit_test":
        return relation
    named: BaseRelation = relation.incorporate(path={"identifier": get_table_name(relation).quarantine.name})
    return named


def build_relation(relation: BaseRelation, node: Mapping[str, Any]) -> BaseRelation:
    """Builds the relation of an arctic model that queries read: a view with `merge: on_read`, else a table."""
    is_view = node["config"].get("merge") == "on_read"
    return relation.incorporate(type=RelationType.View if is_view else RelationType.Table)  # type: ignore[no-any-return]


def build_relations(relation: BaseRelation, node: Mapping[str, Any]) -> list[BaseRelation]:
    """Builds all relations of an arctic model that queries read.

    These are its own relation, its views of current row versions and of changes, and its quarantine, if configured.
    """
    model = to_model(relation, node, "")
    views = [view for view in (model.current_view, model.changes_view) if view is not None]
    shown = [relation.incorporate(path={"identifier": view.name}, type=RelationType.View) for view in views]
    if model.quarantine is not None:
        named = relation.incorporate(path={"identifier": model.quarantine.table.name})
        shown.append(build_relation(named, node))
    return [build_relation(relation, node), *shown]


def check_manifest(nodes: Sequence[Any], sources: Iterable[Any] = (), profile: Profile | None = None) -> None:
    """Raises CompilationError for wrong configuration of arctic and incremental models, and for names used twice.

    The error names the model, its file and everything that is wrong with its configuration, also if no catalog of the
    profile's kind has the features that the model needs. A missing primary key is no error here. A name is used twice
    if two relations of the project have it.
    """
    check_foreign_config(nodes)
    models: dict[str, Model] = {}
    for node in nodes:
        if is_arctic(node):
            try:
                checked = node.to_dict(omit_none=True)
                models[node.unique_id] = model = read_declared_model(node)
                if not lacks_key(select_written_keys(checked)):
                    list_not_null_columns(checked, model.config.primary_key)
                if profile is not None and node.config.enabled:
                    check_declared_needs(profile, model)
                warn_of_unenforced([constraint for constraint, _ in list_declared_constraints(checked)])
            except ConfigError as error:
                raise CompilationError(f"{node.original_file_path}: {error}") from error
    check_merge_keys(nodes)
    check_names(nodes, models, group_tables_by_source(sources))


def read_declared_model(node: Any) -> Model:
    """Returns the model of an arctic node without its query; raises ConfigError if its configuration is invalid.

    The primary key may be missing.
    """
    written = select_written_keys(node.to_dict(omit_none=True))
    config = read_configuration(written, node.unique_id, list_known_keys(), may_lack_key=True)
    if config.on_failed_row == "quarantine" and getattr(node, "language", "sql") != "sql":
        raise ConfigError(
            f"{node.unique_id}: `on_failed_row: quarantine` needs a query, to which the tests are added.",
            actual="a Python model",
            fix="put it on a SQL model that reads this one, or leave it out",
        )
    return split_model(Model(get_node_table(node), "", config), ())
