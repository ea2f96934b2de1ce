"""The adapter, which answers dbt's requests about a warehouse from the catalog if possible, else by Spark."""

from __future__ import annotations

import datetime as dt
import logging
import sys
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from dbt.adapters.base import BaseRelation, available
from dbt.adapters.base.impl import ConstraintSupport
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.catalogs import CatalogIntegration, CatalogIntegrationConfig
from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.contracts.relation import RelationConfig, RelationType
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.spark.impl import SparkAdapter, SparkConfig
from dbt.adapters.sql import SQLAdapter
from dbt.constants import RUN_RESULTS_FILE_NAME
from dbt.flags import get_flags
from dbt_common.contracts.constraints import ConstraintType
from dbt_common.contracts.metadata import CatalogTable
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError
from dbt_common.utils import filter_null_values

from arctic_runtime.catalog.branch.catalog_pointers import BranchScope
from arctic_runtime.catalog.database_catalog import RelationKind
from arctic_runtime.catalog.reader import CatalogReader, ColumnInfo, RelationInfo, UnsupportedType
from arctic_runtime.effects import perform_effect
from arctic_runtime.errors import ArcticError, ConfigError
from arctic_runtime.ingest.source import SourceOrigin
from arctic_runtime.model.names import BASE_SUFFIX, CHANGES_SUFFIX, TOTALS_SUFFIX, list_changes_read
from arctic_runtime.model.properties import (
    CHANGES_VIEW,
    CHANGES_VIEW_KIND,
    CLONE_KIND,
    CURRENT_VIEW,
    CURRENT_VIEW_KIND,
    KIND,
)
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session_pool import get_pool, lend_session
from arctic_runtime.spark.engine.statement import quote_text
from dbt import selected_resources
from dbt.adapters.arctic.connections.debug import report_debug
from dbt.adapters.arctic.connections.handle import SessionHandle
from dbt.adapters.arctic.connections.manager import ArcticConnectionManager
from dbt.adapters.arctic.connections.thread_reader import get_thread_reader
from dbt.adapters.arctic.materialize import clones, history, python_models, seeds, table_operations
from dbt.adapters.arctic.materialize import maintain as maintenance
from dbt.adapters.arctic.materialize.foreign_config import warn_of_ignored_grants
from dbt.adapters.arctic.materialize.readers import Readers
from dbt.adapters.arctic.materialize.row_conditions import RowConditions
from dbt.adapters.arctic.materialize.served_keys import check_served
from dbt.adapters.arctic.project import package_macros
from dbt.adapters.arctic.project.keys import missing_keys
from dbt.adapters.arctic.project.sources import list_origins, list_source_tables
from dbt.adapters.arctic.publication.blockers import write_unpublished
from dbt.adapters.arctic.publication.build import (
    BRANCH_COMMANDS,
    FOLDER,
    OPERATIONS_AFTER_BUILDS,
    Build,
    build_operation_error,
    build_scope,
    check_flags,
)
from dbt.adapters.arctic.relations import catalogs, constraints, freshness, spark_metadata
from dbt.adapters.arctic.relations.column import ArcticColumn
from dbt.adapters.arctic.relations.date_functions import DATE_FUNCTIONS
from dbt.adapters.arctic.relations.docs_catalog import build_catalog_table, build_single_table, find_changed_comments
from dbt.adapters.arctic.relations.identifiers import (
    NAMED_COLUMNS,
    NamedColumns,
    parse_literal,
    quote_identifier,
    unquote_identifier,
)
from dbt.adapters.arctic.relations.relation import ArcticRelation, write_event_window

if TYPE_CHECKING:
    import agate
    from pyspark.sql import SparkSession

logger = AdapterLogger("Arctic")
T = TypeVar("T")

_FULL = CapabilitySupport(support=Support.Full)
_TYPES: dict[RelationKind, RelationType] = {
    "table": RelationType.Table,
    "view": RelationType.View,
    "other": RelationType.External,
}
_PARTS = (CHANGES_SUFFIX, BASE_SUFFIX, TOTALS_SUFFIX)


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

    CONSTRAINT_SUPPORT = {  # noqa: RUF012
        ConstraintType.check: ConstraintSupport.ENFORCED,
        ConstraintType.not_null: ConstraintSupport.ENFORCED,
        ConstraintType.unique: ConstraintSupport.NOT_ENFORCED,
        ConstraintType.primary_key: ConstraintSupport.NOT_ENFORCED,
        ConstraintType.foreign_key: ConstraintSupport.NOT_ENFORCED,
    }
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
        self._nodes: tuple[Any, ...] = ()
        self._sources: tuple[Any, ...] = ()
        self._keyless_tables: frozenset[str] = frozenset()
        self._readers = Readers((), ())
        self._row_conditions: RowConditions | None = None
        self._build: Build | None = None
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
            check_flags(get_flags())
        self._nodes = tuple(getattr(macro_resolver, "nodes", {}).values())
        self._sources = tuple(getattr(macro_resolver, "sources", {}).values())
        self._keyless_tables = missing_keys.complete_keys(self._nodes)
        self._readers = Readers(self._nodes, self._sources)
        self._row_conditions = RowConditions(macro_resolver)
        maintenance.check_manifest(self._nodes, self._sources, self.profile)
        check_served(self._nodes)

    def set_relations_cache(self, *arguments: Any, **options: Any) -> None:
        """Lists relations for dbt before the first model is built.

        First raises CompilationError if a selected model has no primary key.
        """
        missing_keys.check_selected_keys(self.config, self._nodes, self._keyless_tables)
        if self.is_published_whole and getattr(get_flags(), "WHICH", None) in BRANCH_COMMANDS:
            self.prepare_build(selected_resources.SELECTED_RESOURCES)
        super().set_relations_cache(*arguments, **options)

    @property
    def is_published_whole(self) -> bool:
        """Whether the target has `publish: build`."""
        return str(cast(Any, self.config.credentials).publish) == "build"

    @property
    def build_scope(self) -> BranchScope:
        """The relations and schemas of the project, as far as they are in the catalog."""
        return build_scope(self._nodes, self._sources, self.profile.catalog)

    def begin_build(self) -> Build:
        """Begins a branch of the catalog, to which this adapter writes until `end_build`; or returns that one."""
        if self._build is None:
            folder = Path(self.config.project_root) / self.config.target_path / FOLDER
            build = Build(self.profile, folder)
            with self.connections.exception_handler("begin the build"):
                build.begin_build(self.build_scope)
            self._use_profile(build.branch.reader.profile)
            self._build = build
        return self._build

    def prepare_build(self, selected: Collection[str]) -> None:
        """Begins a build, and prepares the nodes with the ids `selected` and all that they read for its branch."""
        build, names = self.begin_build(), frozenset(selected)
        with self.connections.exception_handler("prepare the branch"):
            nodes = (node for node in self._nodes if node.unique_id in names)
            build.prepare_nodes(nodes, self.get_macro_resolver())

    def end_build(self, selected: Collection[str]) -> None:
        """Publishes the build; `selected` are the ids of the nodes that it was to run."""
        build, self._build = self._build, None
        assert build is not None
        self._use_profile(build.branch.origin.profile)
        with lend_session(get_pool(self.profile)) as session:
            build.finish_build(self.get_macro_resolver(), frozenset(selected), session)

    def _use_profile(self, profile: Profile) -> None:
        self.connections.change_profile(profile)
        self.__dict__.pop("_own_reader", None)

    def cleanup_connections(self) -> None:
        """Closes all connections; dbt calls this at the end of a command, at which a build is published.

        A build that was interrupted is not published.
        """
        super().cleanup_connections()
        if self._build is None:
            return
        selected = selected_resources.SELECTED_RESOURCES
        if sys.exc_info()[0] is not None:
            self._use_profile(self._build.branch.origin.profile)
            self._build.give_up()
            self._build = None
            self._write_unpublished(selected, "not published, since the build was interrupted")
            return
        try:
            with self.connections.exception_handler("publish the build"):
                self.end_build(selected)
        except DbtRuntimeError as error:
            self._write_unpublished(selected, str(error.msg))
            raise

    def _write_unpublished(self, selected: Collection[str], reason: str) -> None:
        """Writes results by which `dbt retry` runs the whole build again, unless dbt is to write none."""
        flags = get_flags()
        if getattr(flags, "WRITE_JSON", False):
            folder = Path(self.config.project_root) / self.config.target_path
            write_unpublished(folder / RUN_RESULTS_FILE_NAME, self.get_macro_resolver(), selected, flags, reason)

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
        """Runs SQL; outside a refresh, as in `dbt show`, `changes(…)` in the SQL returns all existing change rows."""
        if list_changes_read(sql):
            with self.connections.exception_handler(sql):
                from arctic_runtime.spark.refresh.run import preview_changes

                preview_changes(self.spark_session(), self.catalog_reader, sql)
            self.connections.get_thread_connection().handle.mark_temporary_view()
        response, table = super().execute(sql, auto_begin, fetch, limit)
        tested = self._build.tests.find_response(sql) if self._build is not None and fetch else None
        return tested or response, table

    @available.parse(lambda *_a, **_k: "")
    def restrict_test(self, node: dict[str, Any], sql: str) -> str:
        """Returns the query of a test, which in a build looks at changed rows alone if that is enough."""
        if self._build is None:
            return sql
        models = frozenset(maintenance.get_node_table(other) for other in self._nodes if maintenance.is_arctic(other))
        all_rows = bool(getattr(get_flags(), "FULL_REFRESH", False))
        self.connections.get_thread_connection().handle.mark_temporary_view()
        with self.connections.exception_handler(sql):
            return self._build.tests.restrict_test(node, sql, models, self.spark_session(), all_rows)

    @available.parse_none
    def maintain(
        self, relation: BaseRelation, node: dict[str, Any], sql: str, full_refresh: bool
    ) -> maintenance.ArcticResponse:
        """Brings the table of an arctic model up to date; with dbt's flag `--empty`, only the table's schema."""
        asked: Any = getattr(self.config, "args", None)
        sampled = getattr(asked, "sample", None) is not None
        empty = bool(getattr(asked, "empty", False))
        self.connections.get_thread_connection().handle.mark_temporary_view()
        with self.connections.exception_handler(sql):
            if sampled:
                stands = self.get_relation(str(relation.database), str(relation.schema), str(relation.identifier))
                maintenance.check_sample(node, stands is not None and not full_refresh)
            model = maintenance.to_model(relation, node, sql, list_source_tables(self._sources), self._row_conditions)
            request, readers = Request(full_refresh, schema_only=empty), self._readers.list_readers
            if self._build is not None:
                for part in model.parts:
                    self._build.note_refresh(part, readers)
            return maintenance.run_model(model, self.catalog_reader, self.spark_session, request, readers)

    @available.parse(lambda *_a, **_k: False)
    def has_arctic_origin(self, origin: BaseRelation) -> bool:
        """Whether `dbt clone` can make an arctic model a clone of this relation, rather than a view of it."""
        if str(origin.database) != self.profile.catalog:
            return True  # `clone_arctic` refuses it by name.
        table = maintenance.get_table_name(origin)
        return self._is_readable(origin.database) and self._ask_catalog(
            lambda: clones.is_arctic_table(self.catalog_reader, table)
        )

    @available.parse_none
    def clone_arctic(
        self, relation: BaseRelation, node: dict[str, Any], origin: BaseRelation, replaces: bool
    ) -> AdapterResponse:
        """Makes an arctic model a clone of another environment's; if `replaces`, drops what has its name first."""
        with self.connections.exception_handler("clone"):
            return self._clone_relation(relation, node, origin, replaces)

    def _clone_relation(
        self,
        relation: BaseRelation,
        node: dict[str, Any],
        origin: BaseRelation,
        replaces: bool,
        selected: Sequence[str] | None = None,
    ) -> AdapterResponse:
        nodes = tuple(cast(Any, self.get_macro_resolver()).nodes.values())
        table, reader = maintenance.get_table_name(origin), self.catalog_reader
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
            with self.connections.exception_handler("clone"):
                try:
                    made = self._clone_relation(relation, node, origin, replaces=False, selected=selected)
                    logger.info(f"{relation.render()} is a {made} now")
                except ConfigError as error:
                    logger.info(f"{relation.render()} is built from its query. {str(error).splitlines()[0]}")

    @available.parse_none
    def build_maintained_relation(self, relation: BaseRelation, node: dict[str, Any]) -> BaseRelation:
        """Returns the relation of an arctic model that queries read: a view with `merge: on_read`, else a table."""
        is_view = node["config"].get("merge") == "on_read"
        kind = RelationType.View if is_view else RelationType.Table
        return cast(BaseRelation, relation.incorporate(type=kind))

    @available.parse_list
    def build_maintained_relations(self, relation: BaseRelation, node: dict[str, Any]) -> list[BaseRelation]:
        """Returns the relations of an arctic model that queries read.

        These are its own relation, its views of current row versions and of changes, and its quarantine, if configured.
        """
        model = maintenance.to_model(relation, node, "")
        views = [view for view in (model.current_view, model.changes_view) if view is not None]
        shown = [relation.incorporate(path={"identifier": view.name}, type=RelationType.View) for view in views]
        if model.quarantine is not None:
            named = relation.incorporate(path={"identifier": model.quarantine.table.name})
            shown.append(self.build_maintained_relation(named, node))
        return [self.build_maintained_relation(relation, node), *cast(list[BaseRelation], shown)]

    @available.parse_list
    def arctic_operation(self, name: str, target: BaseRelation | str, arguments: Mapping[str, Any]) -> list[str]:
        """Performs the operation `name` on an arctic model, given by its relation or name; returns lines for people."""
        from arctic_runtime.operations.operation import OperationContext
        from arctic_runtime.operations.registry import get_operation

        with self.connections.exception_handler(name):
            operation = get_operation(name)
            if self._build is not None and name in OPERATIONS_AFTER_BUILDS:
                raise build_operation_error(name)
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
    def arctic_as_of(self, relation: BaseRelation, time: str, recorded: str | None = None) -> str:
        """Returns a subquery for a `from` clause with the row versions of `relation` that were valid at `time`.

        With `recorded`, these are the versions as recorded at that time; without it, versions that were corrected later
        are included. Both times are SQL expressions.
        """
        return history.write_as_of(relation.render(), time, recorded)

    @available.parse(lambda *_a, **_k: "")
    def arctic_valid_at(self, alias: str, time: str, recorded: str | None = None) -> str:
        """Returns the SQL condition for row versions of the table `alias` that were valid at `time`.

        With `recorded`, these are the versions as recorded at that time; without it, versions that were corrected later
        are included. Both times are SQL expressions.
        """
        return history.write_valid_at(unquote_identifier(alias), time, recorded)

    @available.parse(lambda *_a, **_k: "")
    def arctic_current(self, relation: BaseRelation) -> str:
        """Returns a subquery for a `from` clause with the current row versions of `relation`, a table with history."""
        return history.write_current(relation.render())

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
        name = unquote_identifier(database) if database else self.profile.catalog
        if self._is_readable(name):
            return self._ask_catalog(self.catalog_reader.list_namespaces)
        return [row[0] for row in self._fetch_rows("SHOW NAMESPACES IN " + quote_identifier(name))]

    @available.parse(lambda *_a, **_k: False)
    def check_schema_exists(self, database: str, schema: str) -> bool:
        if self._is_readable(database):
            return self._ask_catalog(lambda: self.catalog_reader.has_namespace(schema))
        return schema in self.list_schemas(database)

    @available.parse_none
    def create_namespace(self, relation: BaseRelation) -> None:
        """Creates the relation's schema if it does not exist."""
        rendered = relation.without_identifier().render()
        if self._is_readable(relation.database):
            self._ask_catalog(lambda: self.catalog_reader.create_namespace(str(relation.schema)))
        else:
            create = "CREATE SCHEMA IF NOT EXISTS " + rendered
            perform_effect("namespace.create", lambda: self._fetch_rows(create), create)

    @available.parse_none
    def drop_namespace(self, relation: BaseRelation) -> None:
        """Drops all relations in the relation's schema, then the schema, since some catalogs drop only empty ones."""
        for member in self.list_relations_without_caching(relation):
            self.drop_relation(member)
        if self._is_readable(relation.database):
            self._ask_catalog(lambda: self.catalog_reader.drop_namespace(str(relation.schema)))
        else:
            drop = "DROP SCHEMA IF EXISTS " + relation.without_identifier().render()
            perform_effect("namespace.drop", lambda: self._fetch_rows(drop), drop)

    # Relations

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        database, schema = schema_relation.database or self.profile.catalog, str(schema_relation.schema)
        if self._is_readable(database) and self.catalog_reader.lists_views:
            kinds = self._ask_catalog(lambda: self.catalog_reader.list_relations(schema))
        else:
            place = self.Relation.create(database=database, schema=schema).without_identifier().render()
            kinds = spark_metadata.list_relation_kinds(self._fetch_rows, place)
        return [
            self.Relation.create(database=database, schema=schema, identifier=name, type=_TYPES[kind])
            for name, kind in kinds.items()
        ]

    def get_relation(self, database: str, schema: str, identifier: str) -> BaseRelation | None:
        return cast("BaseRelation | None", SQLAdapter.get_relation(self, database, schema, identifier))

    def _make_match_kwargs(self, database: str, schema: str, identifier: str) -> dict[str, str]:
        """Returns the parts of a name by which dbt compares relations; the project's `quoting` does not change them."""
        return filter_null_values({"database": database, "schema": schema, "identifier": identifier})

    def get_columns_in_relation(self, relation: BaseRelation) -> list[ArcticColumn]:  # type: ignore[override]
        """Returns the relation's columns with Spark types; empty if the relation does not exist."""
        return [self.Column(column=c.name, dtype=c.type) for c in self._list_columns(relation)]

    @available.parse_list
    def arctic_parts(self, relation: BaseRelation | None) -> list[BaseRelation]:
        """Returns the existing helper relations of an arctic model: its views, change table, base, aggregate state.

        Empty if `relation` is None or does not belong to an arctic model.
        """
        if relation is None or not self._list_arctic_properties(relation):
            return []
        names = [f"{relation.identifier}{suffix}" for suffix in _PARTS]
        parts = [part for part in map(partial(self._get_sibling, relation), names) if part is not None]
        noted = (self._list_arctic_properties(part).get(key) for part in parts for key in (CURRENT_VIEW, CHANGES_VIEW))
        views = [self._get_sibling(relation, name) for name in noted if name]
        kinds = (CURRENT_VIEW_KIND, CHANGES_VIEW_KIND)
        own = [view for view in views if view and self._list_arctic_properties(view).get(KIND) in kinds]
        return [*own, *parts]

    def _get_sibling(self, relation: BaseRelation, name: str) -> BaseRelation | None:
        return self.get_relation(str(relation.database), str(relation.schema), name)

    @available.parse_list
    def arctic_property_names(self, relation: BaseRelation) -> list[str]:
        """Returns the names of properties that mark a relation as part of an arctic model; empty for any other."""
        return sorted(self._list_arctic_properties(relation))

    @available.parse(lambda *_a, **_k: False)
    def is_clone(self, relation: BaseRelation) -> bool:
        """Whether the relation is a view that `dbt clone` made of an arctic model, a seed or a snapshot."""
        return self._list_arctic_properties(relation).get(KIND) == CLONE_KIND

    @available.parse_none
    def comments_to_change(
        self, relation: BaseRelation, description: str | None, columns: dict[str, str]
    ) -> dict[str, Any]:
        """Returns the wanted comments that differ from the stored ones.

        The result has `relation`, None if unchanged, and `columns`, the changed comments by column name.
        """
        return find_changed_comments(self._describe_relation(relation), description, columns)

    @available.parse_none
    def ignore_grants(self, relation: BaseRelation, materialized: str) -> None:
        """Warns of grants that are ignored, unless the message about settings of other adapters lists them."""
        warn_of_ignored_grants(relation.render(), materialized)

    # Statements

    @available.parse_none
    def stage_seed(self, relation: BaseRelation, agate_table: agate.Table) -> None:
        """Creates a temporary view with the seed's rows, with all columns as text."""
        handle: SessionHandle = self.connections.get_thread_connection().handle
        with self.connections.exception_handler("stage the seed"):
            frame = seeds.as_text_frame(handle.spark, agate_table)
            frame.createOrReplaceTempView(quote_identifier(str(relation.identifier)))
            handle.mark_temporary_view()

    @available.parse(lambda *_a, **_k: "")
    def python_query(self, node: dict[str, Any], code: str) -> str:
        """Runs a Python model's function; returns the query that reads the rows of its result."""
        handle: SessionHandle = self.connections.get_thread_connection().handle
        view = python_models.name_view(str(node["alias"]))
        with self.connections.exception_handler(code):
            rows = python_models.run_python_model(code, str(node["unique_id"]), handle.spark)
            rows.createOrReplaceTempView(quote_identifier(view))
            handle.mark_temporary_view()
            handle.mark_foreign_code()
        return python_models.write_view_query(view)

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
        reader = self.catalog_reader if self._is_readable(on_branch.database) else None

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
        plan = "\n".join(row[0] for row in self._fetch_rows("EXPLAIN " + sql))
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
        import agate

        tables, failures = [], []
        for relation in sorted(relations, key=lambda r: r.render()):
            try:
                described = self._describe_relation(relation)
            except DbtRuntimeError as failure:
                failures.append(failure)
                continue
            if described is not None:
                tables.append(build_catalog_table(str(relation.database), [described]))
        merged = agate.Table.merge(tables) if tables else build_catalog_table(self.profile.catalog, [])
        return merged, failures  # type: ignore[return-value]

    def get_catalog_for_single_relation(self, relation: BaseRelation) -> CatalogTable | None:
        described = self._describe_relation(relation)
        return build_single_table(str(relation.database), described) if described else None

    def calculate_freshness_from_metadata_batch(
        self,
        sources: list[BaseRelation],
        macro_resolver: Any = None,  # noqa: ARG002
    ) -> tuple[list[AdapterResponse | None], dict[BaseRelation, Any]]:
        """Computes the freshness of tables from metadata alone; tables without a snapshot are left out of the result.

        For a table that `arctic ingest` writes, this is the time as of which it shows its source; for any other table,
        the time of its newest snapshot that changed rows. The list of responses, the first result, is always empty.
        """
        now = dt.datetime.now(tz=dt.timezone.utc)
        times = {source: self._find_last_change(source) for source in sources}
        fresh = {s: self._create_freshness_response(at, now) for s, at in times.items() if at is not None}
        return [], fresh

    def calculate_freshness_from_metadata(
        self, source: BaseRelation, macro_resolver: Any = None
    ) -> tuple[AdapterResponse | None, Any]:
        _, freshness_by_source = self.calculate_freshness_from_metadata_batch([source], macro_resolver)
        if source not in freshness_by_source:
            raise DbtRuntimeError(freshness.build_unknown_error(source.render(), self._find_origin(source) is not None))
        return None, freshness_by_source[source]

    # Access to the catalog and to Spark

    def _is_readable(self, database: str | None) -> bool:
        return database in (None, self.profile.catalog) and self.catalog_reader.is_supported

    @staticmethod
    def _ask_catalog(question: Callable[[], T]) -> T:
        try:
            return question()
        except ArcticError as error:
            raise DbtRuntimeError(str(error)) from error

    def _fetch_rows(self, sql: str) -> list[tuple[Any, ...]]:
        _, cursor = self.connections.add_query(sql, auto_begin=False)
        with self.connections.exception_handler(sql):
            return list(cursor.fetchall())

    def _list_columns(self, relation: BaseRelation) -> tuple[ColumnInfo, ...]:
        described = None if relation.is_temporary else self._describe_relation(relation)  # type: ignore[attr-defined]
        if described is not None:
            return described.columns
        is_known_missing = self._is_readable(relation.database) and not relation.is_temporary  # type: ignore[attr-defined]
        return () if is_known_missing else self._list_columns_by_spark(relation)

    def _list_columns_by_spark(self, relation: BaseRelation) -> tuple[ColumnInfo, ...]:
        try:
            with self.connections.exception_handler("columns"):
                fields = self.spark_session().table(relation.render()).schema.fields
        except DbtDatabaseError as error:
            if spark_metadata.is_missing(error):
                return ()
            raise
        from arctic_runtime.spark.tables.rows.frames import type_of

        return tuple(ColumnInfo(f.name, type_of(f.dataType), f.metadata.get("comment"), not f.nullable) for f in fields)

    def _describe_relation(self, relation: BaseRelation) -> RelationInfo | None:
        """Describes a relation by its metadata in the catalog; None if there is no such relation.

        If this process can't read the catalog, or the relation has a type that only Spark knows, Spark describes it.
        """
        schema, name = str(relation.schema), str(relation.identifier)
        if self._is_readable(relation.database):
            try:
                return self._ask_catalog(lambda: self.catalog_reader.describe_relation(schema, name))
            except UnsupportedType:
                logger.debug(f"{relation.render()} has a type that only Spark knows")
        columns = self._list_columns_by_spark(relation)
        kind: RelationKind = "view" if relation.type == RelationType.View else "table"
        properties = spark_metadata.list_properties(self._fetch_rows, relation.render())
        return RelationInfo(schema, name, kind, columns, properties) if columns else None

    def _list_arctic_properties(self, relation: BaseRelation) -> dict[str, str]:
        described = self._describe_relation(relation)
        properties = described.properties if described else {}
        return {key: value for key, value in properties.items() if key.startswith("arctic.")}

    def _find_origin(self, source: BaseRelation) -> SourceOrigin | None:
        """Returns the origin of the dbt source `source` if `arctic ingest` writes its table; None for other tables."""
        return self._ask_catalog(lambda: list_origins(self._sources)).get(maintenance.get_table_name(source))

    def _find_last_change(self, source: BaseRelation) -> dt.datetime | None:
        if self._is_readable(source.database):
            table, origin = maintenance.get_table_name(source), self._find_origin(source)
            return self._ask_catalog(lambda: freshness.find_last_loaded(self.catalog_reader, table, origin))
        query = freshness.write_last_change_query(maintenance.get_table_name(source))
        try:
            time: dt.datetime | None = self._fetch_rows(query)[0][0]
        except DbtDatabaseError as error:
            if spark_metadata.is_missing(error):
                return None
            raise
        return time.replace(tzinfo=dt.timezone.utc) if time is not None and time.tzinfo is None else time
