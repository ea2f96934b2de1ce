"""The adapter, which answers dbt's requests about a warehouse from the catalog if possible, else by Spark."""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.context import SpawnContext
from typing import TYPE_CHECKING, Any, cast

from dbt.adapters.base import BaseRelation, available
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.catalogs import CatalogIntegration, CatalogIntegrationConfig
from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.contracts.relation import RelationConfig, RelationType
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.spark.impl import SparkAdapter, SparkConfig
from dbt.adapters.sql import SQLAdapter
from dbt.flags import get_flags
from dbt_common.contracts.metadata import CatalogTable
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError
from dbt_common.utils import filter_null_values

from arctic_runtime.catalog.branch.catalog_pointers import BranchScope
from arctic_runtime.catalog.database_catalog import RelationKind
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import list_changes_read
from arctic_runtime.model.properties import CLONE_KIND, KIND
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.statement import quote_text
from dbt import selected_resources
from dbt.adapters.arctic.connections.debug import report_debug
from dbt.adapters.arctic.connections.handle import SessionHandle
from dbt.adapters.arctic.connections.manager import ArcticConnectionManager
from dbt.adapters.arctic.connections.thread_reader import get_thread_reader
from dbt.adapters.arctic.materialize import clones, history, python_models, seeds, table_operations
from dbt.adapters.arctic.materialize import maintain as maintenance
from dbt.adapters.arctic.materialize.command_rows import prepare_start
from dbt.adapters.arctic.materialize.foreign_config import warn_of_ignored_grants
from dbt.adapters.arctic.materialize.observed_command import ObservedCommand
from dbt.adapters.arctic.materialize.readers import Readers
from dbt.adapters.arctic.materialize.row_conditions import RowConditions
from dbt.adapters.arctic.materialize.served_keys import check_served
from dbt.adapters.arctic.project import package_macros
from dbt.adapters.arctic.project.keys import missing_keys
from dbt.adapters.arctic.project.keys.meta_keys import take_meta_keys
from dbt.adapters.arctic.project.sources import list_origins, map_source_tables
from dbt.adapters.arctic.publication import build as publication
from dbt.adapters.arctic.relations import catalogs, constraints, freshness
from dbt.adapters.arctic.relations.column import ArcticColumn
from dbt.adapters.arctic.relations.date_functions import DATE_FUNCTIONS
from dbt.adapters.arctic.relations.docs_catalog import build_catalog, build_single_table, find_changed_comments
from dbt.adapters.arctic.relations.identifiers import (
    NAMED_COLUMNS,
    NamedColumns,
    parse_literal,
    quote_identifier,
    unquote_identifier,
)
from dbt.adapters.arctic.relations.relation import ArcticRelation, write_event_window
from dbt.adapters.arctic.relations.relation_metadata import RelationMetadata, ask_catalog

if TYPE_CHECKING:
    import agate
    from pyspark.sql import SparkSession

    from arctic_runtime.model.clone import ObservedClone
    from arctic_runtime.model.table import Model

logger = AdapterLogger("Arctic")

_FULL = CapabilitySupport(support=Support.Full)
_TYPES: dict[RelationKind, RelationType] = {
    "table": RelationType.Table,
    "view": RelationType.View,
    "other": RelationType.External,
}


@dataclass
class ArcticConfig(SparkConfig):
    """Configuration keys of dbt's own materializations that the adapter supports; the file format is always Iceberg."""

    file_format: str = "iceberg"
    merge_exclude_columns: list[str] | str | None = None
    tblproperties: dict[str, Any] | None = None


class ArcticAdapter(SparkAdapter):
    """Adapter for tables and views of an Iceberg catalog.

    Relations are listed without Spark; Spark starts with the first statement, or when `spark_session` is called.
    """

    Relation = ArcticRelation
    Column = ArcticColumn
    ConnectionManager = ArcticConnectionManager
    AdapterSpecificConfigs = ArcticConfig
    connections: ArcticConnectionManager
    CATALOG_INTEGRATIONS = (catalogs.IcebergIntegration,)

    CONSTRAINT_SUPPORT = constraints.SUPPORT
    _capabilities = CapabilityDict(
        {
            Capability.SchemaMetadataByRelations: _FULL,
            Capability.TableLastModifiedMetadata: _FULL,
            Capability.GetCatalogForSingleRelation: _FULL,
            Capability.MicrobatchConcurrency: CapabilitySupport(support=Support.Unsupported),
        }
    )

    def __init__(self, config: Any, mp_context: SpawnContext) -> None:
        super().__init__(config, mp_context)
        # `dbt debug` tries the connection of a profile, without a project.
        if hasattr(config, "dispatch"):
            package_macros.complete_search_order(config.dispatch, config.project_name)
        self._metadata = RelationMetadata(self.connections, lambda: self.catalog_reader)
        self._nodes: tuple[Any, ...] = ()
        self._sources: tuple[Any, ...] = ()
        self._keyless_tables: frozenset[str] = frozenset()
        self._readers = Readers((), ())
        self._row_conditions: RowConditions | None = None
        self._command_build = publication.CommandBuild(config, self._use_profile)
        self._observed = ObservedCommand(config)
        constraints.declare_enforced(maintenance.MATERIALIZATION)
        # Warnings of pyiceberg about files are of no use to dbt's users.
        logging.getLogger("pyiceberg").setLevel(logging.ERROR)

    # Used by the runtime

    @property
    def profile(self) -> Profile:
        """The target of `profiles.yml` in the form that `arctic_runtime` uses."""
        return self.connections.arctic_profile

    @property
    def catalog_reader(self) -> CatalogReader:
        """Reads the catalog that this thread uses: that of `use_reader`, or the target's."""
        return get_thread_reader() or self._own_reader

    @cached_property
    def _own_reader(self) -> CatalogReader:
        return CatalogReader(self.profile)

    def spark_session(self) -> SparkSession:
        """Returns the Spark session of the calling thread's connection; starts Spark if it is not running yet."""
        handle: SessionHandle = self.connections.get_thread_connection().handle
        return handle.spark

    def add_catalog_integration(self, catalog_integration: CatalogIntegrationConfig) -> CatalogIntegration:
        """Adds an integration of `catalogs.yml`; raises DbtRuntimeError if it is not for the profile's catalog."""
        catalogs.check_integration(catalog_integration, self.profile.catalog)
        return super().add_catalog_integration(catalog_integration)

    # The arctic materialization

    def set_macro_resolver(self, macro_resolver: Any) -> None:
        """Checks the models of the manifest and completes their keys; dbt calls this after it has parsed a project."""
        super().set_macro_resolver(macro_resolver)
        if self.is_published_whole:
            publication.check_flags(get_flags())
        self._nodes = tuple(getattr(macro_resolver, "nodes", {}).values())
        self._sources = tuple(getattr(macro_resolver, "sources", {}).values())
        take_meta_keys(self._nodes)
        self._keyless_tables = missing_keys.complete_keys(self._nodes)
        self._readers = Readers(self._nodes, self._sources)
        self._row_conditions = RowConditions(macro_resolver)
        maintenance.check_manifest(self._nodes, self._sources, self.profile)
        check_served(self._nodes)

    def set_relations_cache(self, *arguments: Any, **options: Any) -> None:
        """Lists relations for dbt before the first model is built.

        First raises CompilationError if a selected model has no primary key.
        """
        self._observed.begin_command(self.get_macro_resolver())
        missing_keys.check_selected_keys(self.config, self._nodes, self._keyless_tables)
        if self.is_published_whole and getattr(get_flags(), "WHICH", None) in publication.BRANCH_COMMANDS:
            self.prepare_build(selected_resources.SELECTED_RESOURCES)
        prepare_start(self.get_macro_resolver(), lambda: self.catalog_reader, selected_resources.SELECTED_RESOURCES)
        super().set_relations_cache(*arguments, **options)

    @property
    def is_published_whole(self) -> bool:
        """Whether the target has `publish: build`."""
        return str(cast(Any, self.config.credentials).publish) == "build"

    @property
    def branch_scope(self) -> BranchScope:
        """The relations and schemas of the project, as far as they are in the catalog."""
        return publication.build_scope(self._nodes, self._sources, self.profile.catalog)

    def begin_build(self) -> publication.Build:
        """Begins a branch of the catalog, to which this adapter writes until `end_build`; or returns that one."""
        with self.connections.exception_handler("begin the build"):
            return self._command_build.begin_build(self.profile, self.branch_scope)

    def prepare_build(self, selected: Collection[str]) -> None:
        """Begins a build, and prepares the nodes with the ids `selected` and all that they read for its branch."""
        build, names = self.begin_build(), frozenset(selected)
        with self.connections.exception_handler("prepare the branch"):
            nodes = (node for node in self._nodes if node.unique_id in names)
            build.prepare_nodes(nodes, self.get_macro_resolver())

    def end_build(self, selected: Collection[str]) -> None:
        """Publishes the build; `selected` are the ids of the nodes that it was to run."""
        self._command_build.end_build(self.get_macro_resolver(), selected)

    def _use_profile(self, profile: Profile) -> None:
        self.connections.change_profile(profile)
        self.__dict__.pop("_own_reader", None)

    def cleanup_connections(self) -> None:
        """Closes all connections; dbt calls this at the end of a command, at which a build is published.

        A build that was interrupted is not published.
        """
        super().cleanup_connections()
        with self._observed.end_command() as unpublished:
            handle_errors = self.connections.exception_handler
            unpublished.update(self._command_build.end_command(self.get_macro_resolver(), handle_errors))

    @available.parse(lambda *_a, **_k: "")
    def changes_of(self, relation: BaseRelation, node: dict[str, Any]) -> str:
        """Returns the placeholder by which a model's SQL reads the new rows of `relation`.

        A refresh replaces the placeholder by these rows.
        """
        return maintenance.name_changes(relation, node)

    @available.parse(lambda *_a, **_k: "")
    def quarantine_of(self, relation: BaseRelation, node: dict[str, Any]) -> BaseRelation:
        """Returns the relation with the rows that fail the tests of the model with the table `relation`."""
        return maintenance.name_quarantine(relation, node)

    def execute(
        self, sql: str, auto_begin: bool = False, fetch: bool = False, limit: int | None = None
    ) -> tuple[AdapterResponse, agate.Table]:
        """Runs SQL and returns dbt's response, with the rows if `fetch` is set.

        If the SQL reads `changes(…)`, as `dbt show` of a model does, the views that it reads are created first, over
        all existing change rows. The response for a test that reads only changed rows says how many it read.
        """
        if list_changes_read(sql):
            with self.connections.exception_handler(sql):
                from arctic_runtime.spark.refresh.run import preview_changes

                preview_changes(self.spark_session(), self.catalog_reader, sql)
            self.connections.get_thread_connection().handle.mark_temporary_view()
        response, table = super().execute(sql, auto_begin, fetch, limit)
        build = self._command_build.build
        tested = build.tests.find_response(sql) if build is not None and fetch else None
        return tested or response, table

    @available.parse(lambda *_a, **_k: "")
    def restrict_test(self, node: dict[str, Any], sql: str) -> str:
        """Returns the query of a test; in a build, changed to read only changed rows if those are enough."""
        if (build := self._command_build.build) is None:
            return sql
        models = frozenset(maintenance.get_node_table(other) for other in self._nodes if maintenance.is_arctic(other))
        all_rows = bool(getattr(get_flags(), "FULL_REFRESH", False))
        self.connections.get_thread_connection().handle.mark_temporary_view()
        with self.connections.exception_handler(sql):
            return build.tests.restrict_test(node, sql, models, self.spark_session(), all_rows)

    @available.parse_none
    def maintain(
        self, relation: BaseRelation, node: dict[str, Any], sql: str, full_refresh: bool, with_frozen: bool = False
    ) -> maintenance.ArcticResponse:
        """Brings the table of an arctic model up to date; with dbt's flag `--empty`, only the table's schema.

        A `full_refresh` leaves frozen rows as they are, unless `with_frozen`.
        """
        asked: Any = getattr(self.config, "args", None)
        self.connections.get_thread_connection().handle.mark_temporary_view()
        with self.connections.exception_handler(sql):
            if getattr(asked, "sample", None) is not None:
                stands = self.get_relation(str(relation.database), str(relation.schema), str(relation.identifier))
                maintenance.check_sample(node, stands is not None and not full_refresh)
            model = maintenance.to_model(relation, node, sql, map_source_tables(self._sources), self._row_conditions)
            is_empty = bool(getattr(asked, "empty", False))
            request = Request(full_refresh, with_frozen=full_refresh and with_frozen, schema_only=is_empty)
            readers, observe = self._readers.list_readers, self._observed.observe_node(node, self.get_macro_resolver())
            if (build := self._command_build.build) is not None:
                for part in model.parts:
                    build.note_refresh(part, readers)
            where, reader = maintenance.write_restated_window(node, asked), self.catalog_reader
            session, find_clone = self.spark_session, self._find_clone_of_state
            return maintenance.run_model(model, reader, session, request, readers, observe, where, find_clone)

    def _find_clone_of_state(self, model: Model) -> ObservedClone | None:
        """Returns the clone of a model in the environment of `--state`, if the target has `promote_from_state`."""
        asked: Any = getattr(self.config, "args", None)
        state = getattr(asked, "state", None)
        if state is None or not cast(Any, self.config.credentials).promote_from_state:
            return None
        manifest = self.get_macro_resolver()
        return clones.find_clone(model, str(state), str(self.config.project_root), manifest, self.catalog_reader)

    @available.parse(lambda *_a, **_k: False)
    def has_arctic_origin(self, origin: BaseRelation) -> bool:
        """Whether `dbt clone` can make an arctic model a clone of this relation, rather than a view of it."""
        if str(origin.database) != self.profile.catalog:
            return True  # `clone_arctic` refuses it by name.
        table = maintenance.get_table_name(origin)
        return self._metadata.is_readable(origin.database) and ask_catalog(
            lambda: clones.is_arctic_table(self.catalog_reader, table)
        )

    @available.parse_none
    def clone_arctic(
        self,
        relation: BaseRelation,
        node: dict[str, Any],
        origin: BaseRelation,
        replaces: bool,
        selected: Sequence[str] | None = None,
    ) -> AdapterResponse:
        """Makes an arctic model a clone of another environment's; if `replaces`, drops what has its name first."""
        nodes = tuple(cast(Any, self.get_macro_resolver()).nodes.values())
        table, reader = maintenance.get_table_name(origin), self.catalog_reader
        with self.connections.exception_handler("clone"):
            return clones.clone_relation(relation, node, table, nodes, reader, self.spark_session, replaces, selected)

    @available.parse_none
    def clone_from_state(
        self, relation: BaseRelation, node: dict[str, Any], origin: BaseRelation, selected: Sequence[str]
    ) -> None:
        """Makes an arctic model that has no table yet a clone of the state's, if the target has `clone_from_state`.

        `selected` has the unique ids of the nodes that this command runs. If the model can't be a clone, a message says
        why, and its run builds it.
        """
        if not cast(Any, self.config.credentials).clone_from_state or relation.render() == origin.render():
            return
        own = (str(relation.database), str(relation.schema), str(relation.identifier))
        if self.get_relation(*own) is None and self.has_arctic_origin(origin):
            try:
                made = self.clone_arctic(relation, node, origin, replaces=False, selected=selected)
                logger.info(f"{relation.render()} is a {made} now")
            except DbtRuntimeError as error:
                if not isinstance(error.__cause__, ConfigError):
                    raise
                logger.info(f"{relation.render()} is built from its query. {str(error.__cause__).splitlines()[0]}")

    @available.parse_none
    def build_maintained_relation(self, relation: BaseRelation, node: dict[str, Any]) -> BaseRelation:
        """Returns the relation of an arctic model that queries read: a view with `merge: on_read`, else a table."""
        return maintenance.build_relation(relation, node)

    @available.parse_list
    def build_maintained_relations(self, relation: BaseRelation, node: dict[str, Any]) -> list[BaseRelation]:
        """Returns the relations of an arctic model that queries read: its own, its views and its quarantine."""
        return maintenance.build_relations(relation, node)

    @available.parse_list
    def arctic_operation(self, name: str, target: BaseRelation | str, arguments: Mapping[str, Any]) -> list[str]:
        """Performs the operation `name` on an arctic model, given by its relation or name; returns lines for people."""
        from arctic_runtime.operations.operation import OperationContext
        from arctic_runtime.operations.registry import get_operation

        with self.connections.exception_handler(name):
            operation = get_operation(name)
            if self._command_build.build is not None and name in publication.OPERATIONS_AFTER_BUILDS:
                raise publication.build_operation_error(name)
            connection = self.connections.get_thread_connection()
            if operation.changes:
                connection.handle.mark_temporary_view()
            manifest = self.get_macro_resolver()
            model, models = table_operations.resolve_models(operation, target, self._nodes, self.config, manifest)
            # Parts of an operation run in threads of their own, which have no connection.
            context = OperationContext(self.catalog_reader, lambda: connection.handle.spark, tuple(models))
            return table_operations.perform_on_model(operation, context, model, arguments)

    # Tables with history

    @available.parse(lambda *_a, **_k: "")
    def write_history(self, form: str, *arguments: Any) -> str:
        """Returns the SQL that reads a table with history in a form of `HISTORY_FORMS`, such as `as_of` a time."""
        return history.HISTORY_FORMS[form](*arguments)

    # Names and types

    @classmethod
    def quote(cls, identifier: str) -> str:
        return quote_identifier(identifier)

    @available
    def literal(self, value: str | None) -> str:
        """Returns the SQL string literal of `value`; that of an empty text if `value` is None."""
        return quote_text(value or "")

    @available
    def write_json_path(self, parts: list[str | int]) -> str:
        """The SQL string literal of a path into a JSON text, from names of fields and positions in arrays."""
        return quote_text(package_macros.write_json_path(parts))

    @available
    def unescape_literal(self, literal: str) -> str:
        """Returns the text of a string literal that `literal` wrote; text without quotes is returned unchanged."""
        return parse_literal(literal)

    @available.parse(lambda *_a, **_k: "")
    def date_expression(self, name: str, *arguments: Any) -> str:
        """Returns the SQL of dbt's date function `name`, such as `dateadd`, with these arguments."""
        return DATE_FUNCTIONS[name](*map(str, arguments))

    @classmethod
    def convert_integer_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        return seeds.choose_integer_type(agate_table.columns[col_idx])

    @classmethod
    def convert_number_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        return seeds.choose_number_type(agate_table.columns[col_idx])

    @classmethod
    def convert_time_type(cls, agate_table: agate.Table, col_idx: int) -> str:  # noqa: ARG003
        return "string"

    def valid_incremental_strategies(self) -> list[str]:
        return ["append", "merge", "insert_overwrite", "delete+insert", "microbatch"]

    @available.parse_list
    def list_named_columns(self, kind: NamedColumns, *arguments: Any) -> list[str]:
        """Returns the columns that users have named in a configuration, as SQL.

        `kind` selects the rules for the names, and the meaning of `arguments` (see NAMED_COLUMNS).
        """
        return NAMED_COLUMNS[kind](*arguments)

    def assert_valid_snapshot_target_given_strategy(self, relation: Any, column_names: Any, strategy: Any) -> None:
        """Checks a snapshot's columns as dbt does, but ignores the case of their names."""
        lowered = {key: name.lower() for key, name in column_names.items()}
        super().assert_valid_snapshot_target_given_strategy(relation, lowered, strategy)

    # Schemas

    def list_schemas(self, database: str | None) -> list[str]:
        return self._metadata.list_schemas(unquote_identifier(database) if database else self.profile.catalog)

    @available.parse(lambda *_a, **_k: False)
    def check_schema_exists(self, database: str, schema: str) -> bool:
        return self._metadata.has_schema(database, schema)

    @available.parse_none
    def create_namespace(self, relation: BaseRelation) -> None:
        """Creates the relation's schema if it does not exist."""
        self._metadata.create_schema(relation)

    @available.parse_none
    def drop_namespace(self, relation: BaseRelation) -> None:
        """Drops all relations in the relation's schema, then the schema, since some catalogs drop only empty ones."""
        for member in self.list_relations_without_caching(relation):
            self.drop_relation(member)
        self._metadata.drop_schema(relation)

    # Relations

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        place = {"database": schema_relation.database or self.profile.catalog, "schema": str(schema_relation.schema)}
        kinds = self._metadata.list_relation_kinds(self.Relation.create(**place).without_identifier())
        return [self.Relation.create(**place, identifier=name, type=_TYPES[kind]) for name, kind in kinds.items()]

    def get_relation(self, database: str, schema: str, identifier: str) -> BaseRelation | None:
        return cast("BaseRelation | None", SQLAdapter.get_relation(self, database, schema, identifier))

    def _make_match_kwargs(self, database: str, schema: str, identifier: str) -> dict[str, str]:
        """Returns the parts of a name by which dbt compares relations; the project's `quoting` does not change them."""
        return filter_null_values({"database": database, "schema": schema, "identifier": identifier})

    def get_columns_in_relation(self, relation: BaseRelation) -> list[ArcticColumn]:  # type: ignore[override]
        """Returns the relation's columns with Spark types; empty if the relation does not exist."""
        return [self.Column(column=c.name, dtype=c.type) for c in self._metadata.list_columns(relation)]

    @available.parse_list
    def arctic_parts(self, relation: BaseRelation | None) -> list[BaseRelation]:
        """Returns the existing helper relations of an arctic model, such as its change table; empty for any other."""
        if relation is None:
            return []
        place = (str(relation.database), str(relation.schema))
        return self._metadata.list_helper_relations(relation, lambda name: self.get_relation(*place, name))

    @available.parse_list
    def arctic_property_names(self, relation: BaseRelation) -> list[str]:
        """Returns the names of properties that mark a relation as part of an arctic model; empty for any other."""
        return sorted(self._metadata.list_arctic_properties(relation))

    @available.parse(lambda *_a, **_k: False)
    def is_clone(self, relation: BaseRelation) -> bool:
        """Whether the relation is a view that `dbt clone` made of an arctic model, a seed or a snapshot."""
        return self._metadata.list_arctic_properties(relation).get(KIND) == CLONE_KIND

    @available.parse_none
    def comments_to_change(
        self, relation: BaseRelation, description: str | None, columns: dict[str, str]
    ) -> dict[str, Any]:
        """Returns the wanted comments that differ from the stored ones, as `find_changed_comments` does."""
        return find_changed_comments(self._metadata.describe_relation(relation), description, columns)

    @available.parse_none
    def ignore_grants(self, relation: BaseRelation, materialized: str) -> None:
        """Warns of grants that are ignored, unless the message about settings of other adapters lists them."""
        warn_of_ignored_grants(relation.render(), materialized)

    # Statements

    @available.parse_none
    def stage_seed(self, relation: BaseRelation, agate_table: agate.Table) -> None:
        """Creates a temporary view with the seed's rows, with all columns as text."""
        with self.connections.exception_handler("stage the seed"):
            seeds.stage_rows(self.connections.get_thread_connection().handle, str(relation.identifier), agate_table)

    @available.parse(lambda *_a, **_k: "")
    def python_query(self, node: dict[str, Any], code: str) -> str:
        """Runs a Python model's function; returns the query that reads the rows of its result."""
        with self.connections.exception_handler(code):
            return python_models.stage_result(self.connections.get_thread_connection().handle, node, code)

    @available
    def new_suffix(self) -> str:
        """Returns a random suffix for unique names."""
        return uuid.uuid4().hex[:12]

    @available
    def branch_of(self, relation: BaseRelation) -> BaseRelation:
        """Returns the relation on a branch with a new name, for `replace_rows`, which creates the branch."""
        from dbt.adapters.arctic.materialize import increments

        return relation.replace(branch=increments.branch_name(self.new_suffix()))

    @available.parse(lambda *_a, **_k: "")
    def write_event_filter(self, column: str, start: dt.datetime | None, end: dt.datetime | None) -> str:
        """Returns the SQL condition for rows whose `column` is in a microbatch, from `start` to before `end`.

        A microbatch reads its sources by the same condition.
        """
        return write_event_window(column, start, end)

    @available.parse_none
    def replace_rows(self, on_branch: BaseRelation, sql: str, staged: BaseRelation) -> AdapterResponse:
        """Runs statements that write to a branch of a table, and publishes the branch: readers see all or nothing.

        `on_branch` is a result of `branch_of`. The table `staged`, which the statements read, is dropped in any case.
        """
        from dbt.adapters.arctic.materialize import increments

        table, branch = maintenance.get_table_name(on_branch), str(on_branch.branch)  # type: ignore[attr-defined]
        reader = self.catalog_reader if self._metadata.is_readable(on_branch.database) else None

        try:
            with self.connections.exception_handler(sql):
                attempt = increments.build_attempt(self.spark_session(), reader, branch, self.profile.thresholds)
                return increments.publish_in_one_step(attempt, table, lambda: self.execute(sql)[0])
        finally:
            self.drop_relation(staged)

    @available
    def select_checked_columns(self, model: dict[str, Any]) -> str:
        """Returns the select list of a contract's columns, with expressions that raise an error for invalid values."""
        return constraints.select_list(model)

    def validate_sql(self, sql: str) -> AdapterResponse:
        plan = "\n".join(row[0] for row in self._metadata.fetch_rows("EXPLAIN " + sql))
        if "Error occurred during query planning" in plan:
            raise DbtDatabaseError(plan.split("Error occurred during query planning:")[1].strip())
        return AdapterResponse(_message="OK")

    def debug_query(self) -> None:
        """Runs the checks of `dbt debug`: logs versions, and tries to write."""
        with self.connections.exception_handler("debug"):
            for line in report_debug(self):
                logger.info(f"  {line}")

    # Documentation and freshness

    def get_catalog(
        self, relation_configs: Iterable[RelationConfig], used_schemas: frozenset[tuple[str, str]]
    ) -> tuple[agate.Table, list[Exception]]:
        schemas = {
            self.Relation.create(database=node.database, schema=node.schema).without_identifier()
            for node in relation_configs
        }
        members = [member for schema in schemas for member in self.list_relations_without_caching(schema)]
        return self.get_catalog_by_relations(used_schemas, set(members))

    def get_catalog_by_relations(
        self,
        used_schemas: frozenset[tuple[str, str]],  # noqa: ARG002
        relations: set[BaseRelation],
    ) -> tuple[agate.Table, list[Exception]]:
        return build_catalog(relations, self._metadata.describe_relation)

    def get_catalog_for_single_relation(self, relation: BaseRelation) -> CatalogTable | None:
        described = self._metadata.describe_relation(relation)
        return build_single_table(str(relation.database), described) if described else None

    def calculate_freshness_from_metadata_batch(
        self,
        sources: list[BaseRelation],
        macro_resolver: Any = None,  # noqa: ARG002
    ) -> tuple[list[AdapterResponse | None], dict[BaseRelation, Any]]:
        """Computes the freshness of tables only from metadata; tables without a snapshot are left out of the result.

        For a table that `arctic ingest` writes, this is the time as of which it shows its source; for any other table,
        the time of its newest snapshot that changed rows. The list of responses, the first result, is always empty.
        """
        now = dt.datetime.now(tz=dt.timezone.utc)
        tables = {source: maintenance.get_table_name(source) for source in sources}
        origins = ask_catalog(lambda: list_origins(self._sources))
        times = {s: freshness.find_shown_time(self._metadata, t, origins.get(t)) for s, t in tables.items()}
        fresh = {s: self._create_freshness_response(at, now) for s, at in times.items() if at is not None}
        return [], fresh

    def calculate_freshness_from_metadata(
        self, source: BaseRelation, macro_resolver: Any = None
    ) -> tuple[AdapterResponse | None, Any]:
        _, freshness_by_source = self.calculate_freshness_from_metadata_batch([source], macro_resolver)
        if source not in freshness_by_source:
            is_ingested = maintenance.get_table_name(source) in ask_catalog(lambda: list_origins(self._sources))
            raise DbtRuntimeError(freshness.build_unknown_error(source.render(), is_ingested))
        return None, freshness_by_source[source]
