"""Lists schemas and relations, and describes them: from the catalog if this process can read it, else by Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from dbt.adapters.base import BaseRelation
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

from arctic_runtime.catalog.database_catalog import RelationKind
from arctic_runtime.catalog.reader import CatalogReader, ColumnInfo, RelationInfo, UnsupportedType
from arctic_runtime.effects import perform_effect
from arctic_runtime.errors import ArcticError
from arctic_runtime.model.names import BASE_SUFFIX, CHANGES_SUFFIX, TOTALS_SUFFIX
from arctic_runtime.model.properties import CHANGES_VIEW, CHANGES_VIEW_KIND, CURRENT_VIEW, CURRENT_VIEW_KIND, KIND
from dbt.adapters.arctic.relations.identifiers import quote_identifier

if TYPE_CHECKING:
    from dbt.adapters.arctic.connections.manager import ArcticConnectionManager

logger = AdapterLogger("Arctic")
T = TypeVar("T")

_NOT_FOUND = ("SCHEMA_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "NoSuchNamespace", "NoSuchTable", "does not exist")
_KINDS: tuple[tuple[str, RelationKind], ...] = (("TABLES", "table"), ("VIEWS", "view"))
_PARTS = (CHANGES_SUFFIX, BASE_SUFFIX, TOTALS_SUFFIX)


def ask_catalog(question: Callable[[], T]) -> T:
    """Returns the answer of a catalog; its errors are raised as DbtRuntimeError."""
    try:
        return question()
    except ArcticError as error:
        raise DbtRuntimeError(str(error)) from error


def is_missing(error: DbtDatabaseError) -> bool:
    """Whether a statement failed because its schema or table does not exist."""
    return any(sign in str(error) for sign in _NOT_FOUND)


@dataclass(frozen=True)
class RelationMetadata:
    """Metadata of schemas and relations, for the thread that asks."""

    connections: ArcticConnectionManager
    get_reader: Callable[[], CatalogReader]

    @property
    def reader(self) -> CatalogReader:
        return self.get_reader()

    def is_readable(self, database: str | None) -> bool:
        """Whether this process reads the catalog `database` itself; None means that of the profile."""
        return database in (None, self.connections.arctic_profile.catalog) and self.reader.is_supported

    def fetch_rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Runs a statement by Spark and returns its rows; raises DbtDatabaseError."""
        _, cursor = self.connections.add_query(sql, auto_begin=False)
        with self.connections.exception_handler(sql):
            return list(cursor.fetchall())

    def list_schemas(self, database: str) -> list[str]:
        if self.is_readable(database):
            return ask_catalog(self.reader.list_namespaces)
        return [row[0] for row in self.fetch_rows("SHOW NAMESPACES IN " + quote_identifier(database))]

    def has_schema(self, database: str, schema: str) -> bool:
        if self.is_readable(database):
            return ask_catalog(lambda: self.reader.has_namespace(schema))
        return schema in self.list_schemas(database)

    def create_schema(self, relation: BaseRelation) -> None:
        """Creates the relation's schema if it does not exist."""
        if self.is_readable(relation.database):
            ask_catalog(lambda: self.reader.create_namespace(str(relation.schema)))
        else:
            create = "CREATE SCHEMA IF NOT EXISTS " + relation.without_identifier().render()
            perform_effect("namespace.create", lambda: self.fetch_rows(create), create)

    def drop_schema(self, relation: BaseRelation) -> None:
        """Drops the relation's schema, which has to be empty in some catalogs."""
        if self.is_readable(relation.database):
            ask_catalog(lambda: self.reader.drop_namespace(str(relation.schema)))
        else:
            drop = "DROP SCHEMA IF EXISTS " + relation.without_identifier().render()
            perform_effect("namespace.drop", lambda: self.fetch_rows(drop), drop)

    def list_relation_kinds(self, schema: BaseRelation) -> dict[str, RelationKind]:
        """Maps the tables and views of a schema to their kinds; empty if there is no such schema."""
        if self.is_readable(schema.database) and self.reader.lists_views:
            return ask_catalog(lambda: self.reader.list_relations(str(schema.schema)))
        kinds: dict[str, RelationKind] = {}
        for noun, kind in _KINDS:
            try:
                rows = self.fetch_rows(f"SHOW {noun} IN " + schema.render())
            except DbtDatabaseError as error:
                if is_missing(error):
                    continue
                raise
            kinds.update({name: kind for _, name, is_temporary in rows if not is_temporary})
        return kinds

    def list_columns(self, relation: BaseRelation) -> tuple[ColumnInfo, ...]:
        """Lists a relation's columns with Spark types; empty if the relation does not exist."""
        is_temporary = relation.is_temporary  # type: ignore[attr-defined]
        described = None if is_temporary else self.describe_relation(relation)
        if described is not None:
            return described.columns
        return () if self.is_readable(relation.database) and not is_temporary else self._list_by_spark(relation)

    def describe_relation(self, relation: BaseRelation) -> RelationInfo | None:
        """Describes a relation by its metadata in the catalog; None if there is no such relation.

        If this process can't read the catalog, or the relation has a type that only Spark knows, Spark describes it.
        """
        schema, name = str(relation.schema), str(relation.identifier)
        if self.is_readable(relation.database):
            try:
                return ask_catalog(lambda: self.reader.describe_relation(schema, name))
            except UnsupportedType:
                logger.debug(f"{relation.render()} has a type that only Spark knows")
        columns = self._list_by_spark(relation)
        kind: RelationKind = "view" if relation.type == RelationType.View else "table"
        properties = self._list_properties(relation.render())
        return RelationInfo(schema, name, kind, columns, properties) if columns else None

    def list_arctic_properties(self, relation: BaseRelation) -> dict[str, str]:
        """Returns the properties that mark a relation as part of an arctic model; empty for any other."""
        described = self.describe_relation(relation)
        properties = described.properties if described else {}
        return {key: value for key, value in properties.items() if key.startswith("arctic.")}

    def list_helper_relations(
        self, relation: BaseRelation, find_relation: Callable[[str], BaseRelation | None]
    ) -> list[BaseRelation]:
        """Returns the existing helper relations of an arctic model; `find_relation` finds one beside it, by its name.

        Empty if `relation` does not belong to an arctic model.
        """
        if not self.list_arctic_properties(relation):
            return []
        parts = _select_existing(find_relation(f"{relation.identifier}{suffix}") for suffix in _PARTS)
        noted = [self.list_arctic_properties(part).get(key) for part in parts for key in (CURRENT_VIEW, CHANGES_VIEW)]
        views = _select_existing(find_relation(name) for name in noted if name)
        kinds = (CURRENT_VIEW_KIND, CHANGES_VIEW_KIND)
        return [*(view for view in views if self.list_arctic_properties(view).get(KIND) in kinds), *parts]

    def _list_by_spark(self, relation: BaseRelation) -> tuple[ColumnInfo, ...]:
        try:
            with self.connections.exception_handler("columns"):
                spark = self.connections.get_thread_connection().handle.spark
                fields = spark.table(relation.render()).schema.fields
        except DbtDatabaseError as error:
            if is_missing(error):
                return ()
            raise
        from arctic_runtime.spark.tables.rows.frames import type_of

        return tuple(ColumnInfo(f.name, type_of(f.dataType), f.metadata.get("comment"), not f.nullable) for f in fields)

    def _list_properties(self, relation: str) -> dict[str, str]:
        """Returns the properties of a relation, whose name is quoted; empty if Spark can't read them."""
        try:
            return dict(self.fetch_rows("SHOW TBLPROPERTIES " + relation))
        except DbtDatabaseError as error:
            logger.debug(str(error))
            return {}


def _select_existing(relations: Iterable[BaseRelation | None]) -> list[BaseRelation]:
    return [relation for relation in relations if relation is not None]
