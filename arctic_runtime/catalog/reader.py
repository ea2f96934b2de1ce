"""Reads a catalog without Spark: namespaces, tables, views and their metadata.

All reads go through pyiceberg, so that a list of tables takes milliseconds and no JVM is started. Where the catalog is
in a database, states of tables and views are read from their metadata files as JSON, and an SQLite file by SQLite, so
that pyiceberg need not be loaded.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from arctic_runtime.catalog.catalog_calls import CatalogCalls, check_libraries
from arctic_runtime.catalog.damaged_files import explain_damage
from arctic_runtime.catalog.database_catalog import DatabaseCatalog, RelationKind, follow_file
from arctic_runtime.catalog.foreign_types import get_foreign_name, is_known_type
from arctic_runtime.catalog.json_metadata import JsonSchema
from arctic_runtime.catalog.storage.embedded_warehouse import prepare_warehouse
from arctic_runtime.catalog_kinds.capabilities import Capabilities
from arctic_runtime.catalog_kinds.object_stores import find_store
from arctic_runtime.errors import CatalogError
from arctic_runtime.model.names import TableName
from arctic_runtime.sql.types import format_array_type, format_struct_type, map_text

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

    from arctic_runtime.catalog.json_metadata import Json, LoadedSchema, LoadedTable
    from arctic_runtime.profile import Profile
    from arctic_runtime.thresholds import Thresholds

T = TypeVar("T")


@dataclass(frozen=True)
class ColumnInfo:
    """A column of a relation, with Spark's name of its type."""

    name: str
    type: str
    comment: str | None = None
    required: bool = False


@dataclass(frozen=True)
class RelationInfo:
    """Description of a table or view from its metadata."""

    namespace: str
    """Schema of the relation."""

    name: str
    kind: RelationKind
    columns: tuple[ColumnInfo, ...]
    properties: dict[str, str]
    sql: str | None = None
    """Query of a view; None for a table."""

    default_schema: str | None = None
    """Schema in which a view's query finds tables that it names without one; None for a table."""

    rows: int | None = None
    """Number of rows; None if the metadata has no counts."""

    bytes: int | None = None
    """Bytes of the data files; None if the metadata has no counts."""

    @property
    def comment(self) -> str | None:
        return self.properties.get("comment")


class CatalogReader:
    """Reads a profile's catalog, and creates and drops namespaces; safe to share between threads.

    `is_supported` says whether pyiceberg can open this kind of catalog. If it can't, every method that reads the
    catalog raises CatalogError, and only Spark can read the catalog. A namespace has one level, and is given by its
    plain name.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._opening = threading.RLock()
        self._is_prepared = False
        self._of_thread = threading.local()
        self._calls = CatalogCalls(profile)
        self._ask = self._calls.ask_catalog

    @property
    def thresholds(self) -> Thresholds:
        return self.profile.thresholds

    @cached_property
    def is_supported(self) -> bool:
        return self.profile.build_pyiceberg_properties() is not None

    @property
    def lists_views(self) -> bool:
        """Whether the catalog can list its views, not only its tables."""
        return self.is_supported and self.profile.catalog_kind.lists_views

    @property
    def can_edit_metadata(self) -> bool:
        """Whether snapshots can be removed from a table's metadata without Spark, which deletes their files too."""
        kind = self.profile.catalog_kind
        return self.is_supported and (kind.is_database or kind.is_server)

    @property
    def can_change_refs(self) -> bool:
        """Whether branches and tags can be changed without Spark, whose next statement sees the change."""
        return self.can_edit_metadata and not self.profile.caches_tables

    @cached_property
    def capabilities(self) -> Capabilities:
        """The catalog's capabilities: those of its kind, and those that its server states; asks the server once.

        Raises CatalogError if the server does not answer.
        """
        declared = self.profile.catalog_kind.capabilities
        read_stated = self.profile.catalog_kind.read_stated_capabilities
        return declared if read_stated is None else declared.complete(read_stated(self.catalog))

    def learn_capabilities(self, known: Capabilities) -> None:
        """Adds the results of tests to the catalog's capabilities; capabilities that are already known stay."""
        self.__dict__["capabilities"] = self.capabilities.complete(known)

    def list_namespaces(self) -> list[str]:
        return sorted(".".join(levels) for levels in self._ask("list namespaces", self.catalog.list_namespaces))

    def has_namespace(self, namespace: str) -> bool:
        return self._ask(f"look for namespace {namespace}", lambda: self.catalog.namespace_exists((namespace,)))

    def load_namespace_properties(self, namespace: str) -> dict[str, str]:
        """Returns the properties of a namespace, such as its location."""
        return dict(
            self._ask(f"load properties of {namespace}", lambda: self.catalog.load_namespace_properties((namespace,)))
        )

    def create_namespace(self, namespace: str) -> None:
        """Creates the namespace; does nothing if it exists, or if somebody else creates it at the same time.

        A user who may create none needs no more than that it exists.
        """

        def create_if_missing() -> None:
            if self.catalog.namespace_exists((namespace,)):
                return
            try:
                self.catalog.create_namespace_if_not_exists((namespace,))
            except self._calls.database_errors:
                # Of two who create it at once, both find that it is missing, and the database refuses the second one.
                if not self.catalog.namespace_exists((namespace,)):
                    raise

        self.perform_change("namespace.create", f"create namespace {namespace}", create_if_missing)

    def drop_namespace(self, namespace: str) -> None:
        """Drops an empty namespace; does nothing if it does not exist."""
        from pyiceberg.exceptions import NoSuchNamespaceError

        def drop_if_there() -> None:
            with suppress(NoSuchNamespaceError):
                self.catalog.drop_namespace((namespace,))

        self.perform_change("namespace.drop", f"drop namespace {namespace}", drop_if_there)

    def perform_change(self, effect_name: str, description: str, change: Callable[[], T]) -> T:
        """Calls `change`, which changes the catalog, and returns its result; retries while the catalog is locked.

        `effect_name` is the name of the change in `EFFECTS`; `description` describes it in errors. Raises CatalogError
        if the catalog does not answer.
        """
        return self._calls.perform_change(effect_name, description, change)

    def ask_catalog(self, description: str, question: Callable[[], T]) -> T:
        """Calls `question`, which only reads the catalog, and returns its result; retries while the catalog is locked.

        `description` describes the question in errors. Raises CatalogError if the catalog does not answer.
        """
        return self._ask(description, question)

    def list_relations(self, namespace: str) -> dict[str, RelationKind]:
        """Returns the kind of each table and view in the namespace, by its name; empty if the namespace is missing."""
        database = self._database
        if database is not None:
            return self._ask(f"list {namespace}", lambda: database.list_relations(namespace))
        if not self.has_namespace(namespace):
            return {}
        kinds: dict[str, RelationKind] = {}
        if self.lists_views:
            for levels in self._ask(f"list views of {namespace}", lambda: self.catalog.list_views((namespace,))):
                kinds[levels[-1]] = "view"
        for levels in self._ask(f"list tables of {namespace}", lambda: self.catalog.list_tables((namespace,))):
            kinds.setdefault(levels[-1], "table")
        return kinds

    def list_tables(self, namespace: str) -> list[str]:
        return sorted(name for name, kind in self.list_relations(namespace).items() if kind == "table")

    def list_views(self, namespace: str) -> list[str]:
        return sorted(name for name, kind in self.list_relations(namespace).items() if kind == "view")

    def load_table(self, namespace: str, name: str) -> Table:
        """Loads the current version of a table; raises pyiceberg's NoSuchTableError if there is none.

        If a column has a type that pyiceberg does not know, the type is replaced by a readable one (see
        `foreign_types`) if the catalog is in a database; for other catalogs CatalogError is raised.
        """
        return self._ask(f"load table {namespace}.{name}", lambda: self._load_table(namespace, name))

    def load_metadata(self, namespace: str, name: str) -> LoadedTable | None:
        """Loads the metadata of the current version of a table, for readers of no other file; None if there is none.

        If the catalog is in a database, this is much faster than `load_table`, and loads no library.
        """
        database = self._database
        if database is None:
            return find_table(self, TableName(self.profile.catalog, namespace, name))
        return self._ask(f"load table {namespace}.{name}", lambda: database.load_metadata(namespace, name))

    def load_view(self, namespace: str, name: str) -> RelationInfo:
        """Loads a view's columns, SQL and properties; raises pyiceberg's NoSuchViewError if there is none."""
        described = self._ask(f"load view {namespace}.{name}", lambda: self._read_view(namespace, name))
        with explain_damage(f"{namespace}.{name}", "its metadata file"):
            return _build_view_info(namespace, name, described)

    def describe_relation(self, namespace: str, name: str) -> RelationInfo | None:
        """Returns columns, comments, properties and size of a table or view; None if there is no such relation."""
        from pyiceberg.exceptions import NoSuchTableError, NoSuchViewError

        try:
            return _build_table_info(namespace, name, self.load_table(namespace, name))
        except NoSuchTableError:
            pass
        try:
            return self.load_view(namespace, name)
        except NoSuchViewError:
            return None

    @cached_property
    def _database(self) -> DatabaseCatalog | None:
        """Reader of the database in which the catalog is stored; None if it is not in a database."""
        is_database = self.profile.catalog_kind.is_database
        return DatabaseCatalog(self.profile, lambda: self.catalog, self._prepare) if is_database else None

    @property
    def catalog(self) -> Catalog:
        """The pyiceberg catalog, opened at the first use; each thread has its own if a connection can't be shared."""
        if not self.profile.catalog_kind.is_thread_safe:
            return self._open_for_thread()
        with self._opening:
            return self._catalog

    def _open_for_thread(self) -> Catalog:
        if not hasattr(self._of_thread, "catalog"):
            self._of_thread.catalog = self._open_catalog()
        catalog: Catalog = self._of_thread.catalog
        return catalog

    @cached_property
    def _catalog(self) -> Catalog:
        return self._open_catalog()

    def _open_catalog(self) -> Catalog:
        from pyiceberg.catalog import load_catalog

        properties = self.profile.build_pyiceberg_properties()
        if properties is None:
            raise CatalogError(f"catalog {self.profile.catalog} can't be read from this process, only through Spark")
        check_libraries(self.profile)
        self._prepare()

        def open_catalog() -> Any:
            return self._ask("open it", lambda: load_catalog(self.profile.catalog, **properties))

        try:
            opened = open_catalog()
        except CatalogError:
            if not self.profile.catalog_kind.is_database:
                raise
            opened = open_catalog()  # Another process may have created the database's tables at the same time.
        if self.profile.sqlite_file is not None:
            follow_file(opened.engine, self.profile.sqlite_file)
        catalog: Catalog = opened
        return catalog

    def _prepare(self) -> None:
        """Creates an embedded warehouse that is missing, and checks the object store of its files; once."""
        if self._is_prepared:
            return
        with self._opening:
            file = self.profile.sqlite_file
            if find_store(self.profile.catalog_properties) is not None or (file is not None and not file.exists()):
                prepare_warehouse(self.profile)
            self._is_prepared = True

    def _load_table(self, namespace: str, name: str) -> Table:
        from pydantic import ValidationError
        from pyiceberg.exceptions import ValidationError as MetadataError

        if self._database is not None:
            return self._database.load_table(namespace, name)
        try:
            return self.catalog.load_table((namespace, name))
        except (ValidationError, MetadataError) as error:
            raise CatalogError(
                f"{namespace}.{name} can't be read without Spark.",
                expected="columns of types that pyiceberg knows",
                actual=_find_unread_part(error),
                fix="read it through a table or an Iceberg view without that column",
            ) from error

    def _read_view(self, namespace: str, name: str) -> Json:
        """Returns the metadata of a view, as JSON."""
        if self._database is not None:
            return self._database.read_view(namespace, name)
        described: Json = json.loads(self.catalog.load_view((namespace, name)).metadata.model_dump_json())
        return described

    def swap_metadata_file(self, namespace: str, name: str, expected: str, address: str) -> bool:
        """Makes the file at `address` the current metadata file of a table, if that still is the file `expected`.

        Returns whether it was; the catalog must be in a database.
        """
        return self.database.swap_metadata_location(namespace, name, expected, address)

    @property
    def database(self) -> DatabaseCatalog:
        """Reader of the database in which the catalog is stored; the catalog must be in a database."""
        database = self._database
        assert database is not None
        return database

    def read_metadata_file(self, namespace: str, name: str) -> tuple[str, bytes] | None:
        """Returns the address and the text of a table's current metadata file; None if there is no such table.

        The catalog must be in a database.
        """
        database = self._database
        assert database is not None

        def read_current() -> tuple[str, bytes] | None:
            location = database.find_metadata_location(namespace, name, "TABLE")
            if location is None:
                return None
            with explain_damage(f"{namespace}.{name}", location):
                return location, database.read_metadata_text(location)

        return self._ask(f"read the metadata of {namespace}.{name}", read_current)

    def keep_metadata_text(self, address: str, text: bytes) -> None:
        """Keeps the text of a metadata file in memory, for reads that follow; the catalog must be in a database."""
        assert self._database is not None
        self._database.keep_metadata_text(address, text)

    @property
    def is_database(self) -> bool:
        """Whether the catalog is in a database, in which this process can change which metadata file is current."""
        return self._database is not None

    def get_view_file(self, namespace: str, name: str) -> str | None:
        """Returns the location of a view's metadata file.

        None if there is no such view, or if the catalog is not in a database.
        """
        database = self._database
        if database is None:
            return None
        return self._ask(
            f"look for view {namespace}.{name}", lambda: database.find_metadata_location(namespace, name, "VIEW")
        )

    def list_metadata_files(self, namespaces: Iterable[str]) -> dict[tuple[str, str], tuple[RelationKind, str]] | None:
        """Returns kind and metadata file of each table and view in `namespaces`, by its namespace and name.

        One query reads all of them, so they were current at the same time. None if the catalog is not in a database.
        """
        database = self._database
        if database is None:
            return None
        return self._ask(
            "look up the metadata files of tables", lambda: database.list_metadata_files(tuple(namespaces))
        )

    def get_view_version(self, namespace: str, name: str) -> str:
        """Returns a text that identifies the current version of a view, and that each replacement of the view changes.

        Raises pyiceberg's NoSuchViewError if there is no such view.
        """
        described = self._ask(f"load view {namespace}.{name}", lambda: self._read_view(namespace, name))
        times = [entry["timestamp-ms"] for entry in described["version-log"]]
        return f"{described['view-uuid']} {described['current-version-id']} {times[-1:]}"


class UnsupportedType(Exception):
    """Raised for a column type that only Spark can name."""


def to_spark_type(iceberg_type: IcebergType | str | Json) -> str:
    """Returns Spark's name of an Iceberg type, as `DESCRIBE` shows it; raises UnsupportedType for an unknown type.

    The type is pyiceberg's, or JSON as in a metadata file: a text, or a mapping for a nested type.
    """
    match iceberg_type:
        case str():
            return _name_plain_type(iceberg_type)
        case {"type": "list", "element": element}:
            return format_array_type(to_spark_type(element))
        case {"type": "map", "key": key, "value": value}:
            return map_text(to_spark_type(key), to_spark_type(value))
        case {"type": "struct", "fields": fields}:
            return format_struct_type((field["name"], to_spark_type(field["type"])) for field in fields)
        case dict():
            raise UnsupportedType(str(iceberg_type))
        case _:
            return to_spark_type(json.loads(iceberg_type.model_dump_json()))


_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


def _name_plain_type(text: str) -> str:
    if text in _PLAIN_TYPES:
        return _PLAIN_TYPES[text]
    if (decimal := _DECIMAL.fullmatch(text)) is not None:
        return f"decimal({decimal[1]},{decimal[2]})"
    if text.startswith("fixed["):
        return "binary"
    if (foreign := get_foreign_name(text)) is not None:
        return foreign
    if is_known_type(text):
        raise UnsupportedType(text)
    return text


_PLAIN_TYPES = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "string": "string",
    "uuid": "string",
    "binary": "binary",
    "unknown": "void",
    "variant": "variant",
}


def _list_columns(schema: LoadedSchema) -> tuple[ColumnInfo, ...]:
    return tuple(
        ColumnInfo(field.name, to_spark_type(field.field_type), field.doc, field.required) for field in schema.fields
    )


def _build_table_info(namespace: str, name: str, table: Table) -> RelationInfo:
    snapshot = table.current_snapshot()
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    return RelationInfo(
        namespace=namespace,
        name=name,
        kind="table",
        columns=_list_columns(table.schema()),
        properties=dict(table.properties),
        rows=_count_live_rows(summary) if snapshot else 0,
        bytes=int(summary["total-files-size"]) if "total-files-size" in summary else None,
    )


def _find_unread_part(error: Exception) -> str:
    """Returns the line of pydantic's error that names the cause: the first `Value error`, else the first line."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line.startswith("Value error")), lines[0])


def _count_live_rows(summary: dict[str, str]) -> int | None:
    """Number of rows that are not deleted, from a snapshot's summary; None if equality deletes make it unknown."""
    if "total-records" not in summary or int(summary.get("total-equality-deletes", 0)):
        return None
    return int(summary["total-records"]) - int(summary.get("total-position-deletes", 0))


def _build_view_info(namespace: str, name: str, described: Json) -> RelationInfo:
    version = {each["version-id"]: each for each in described["versions"]}[described["current-version-id"]]
    schema = {each["schema-id"]: JsonSchema(each) for each in described["schemas"]}[version["schema-id"]]
    return RelationInfo(
        namespace=namespace,
        name=name,
        kind="view",
        columns=_list_columns(schema),
        properties=dict(described.get("properties") or {}),
        sql=next((text["sql"] for text in version["representations"] if text["dialect"] == "spark"), None),
        default_schema=".".join(version["default-namespace"]),
    )


def find_table(reader: CatalogReader, name: TableName) -> Table | None:
    """Loads the current version of a table; None if there is none."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return reader.load_table(name.schema, name.name)
    except NoSuchTableError:
        return None


def find_metadata(reader: CatalogReader, name: TableName) -> LoadedTable | None:
    """Loads the metadata of the current version of a table, as `CatalogReader.load_metadata` does."""
    return reader.load_metadata(name.schema, name.name)
