"""A warehouse: a catalog with tables that a program defines, each by a query and a primary key."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from arctic_runtime.api.table import Connection, Table
from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.model.names import TableName, format_changes_view, parse_table_name
from arctic_runtime.model.table import Model
from arctic_runtime.operations.refreshing import Refreshed, perform_refresh
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.profile import Profile
from arctic_runtime.refresh_planner import RefreshPlanner
from arctic_runtime.spark.engine.statement import quote_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Self


def open_warehouse(location: str | os.PathLike[str] | Profile, *, spark: SparkSession | None = None) -> Warehouse:
    """Opens a warehouse: a folder of this machine, which is created if needed, or the catalog of a `Profile`.

    `spark` is a session that the program has already; the warehouse uses its Spark. None means the active session of
    this process; if there is no active session, Spark starts when it is first needed. Raises ConfigError for a location
    that can't be used, and CatalogError for a folder that can't be read or written.
    """
    profile = location if isinstance(location, Profile) else Profile.for_embedded(os.fspath(location))
    return Warehouse(Connection(profile, spark))


class Warehouse:
    """The tables that a program defines in one catalog; created by `open_warehouse`, closed by `close` or `with`.

    Definitions last as long as this object, stored tables stay. Methods may be called from any thread.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._models: dict[TableName, Model] = {}

    @property
    def profile(self) -> Profile:
        """The catalog and the Spark that the warehouse uses."""
        return self._connection.profile

    @property
    def spark(self) -> SparkSession:
        """A Spark session whose default catalog is this warehouse; starts Spark."""
        return self._connection.get_session()

    @property
    def tables(self) -> tuple[Table, ...]:
        """The defined tables, sorted by name, whether they exist already or not."""
        return tuple(self._build_table(model) for _, model in sorted(self._models.items()))

    def define_table(self, name: str, query: str, **config: Any) -> Table:
        """Defines the table `name`, written as `schema.name`, by its query; nothing is stored before `Table.refresh`.

        `config` has the same keys as the configuration of a dbt model, at least `primary_key`. The query also names
        tables as `schema.name`. A later definition of the same name replaces this one. Raises one ConfigError with all
        errors in `config`.
        """
        self._connection.check_open()
        model = Model(self._parse_name(name), query.strip().rstrip(";"), read_configuration(config, name))
        self._models[model.table] = model
        return self._build_table(model)

    def table(self, name: str) -> Table:
        """Returns the table that was defined under this name; raises ConfigError if there is none."""
        model = self._models.get(self._parse_name(name))
        if model is None:
            known = [f"{table.schema}.{table.name}" for table in sorted(self._models)]
            raise ConfigError(
                f"no table {name!r} is defined{suggest_nearest(name, known)}.",
                actual=", ".join(known) or "none",
                fix="define it by `define_table`",
            )
        return self._build_table(model)

    def name_changes(self, name: str) -> str:
        """Returns the name by which a query with `input="changes"` reads a table's changes, like dbt's `changes(…)`.

        It is quoted for SQL: `f"select * from {warehouse.name_changes('ods.events')}"`.
        """
        return quote_name(format_changes_view(self._parse_name(name)))

    def close(self) -> None:
        """Ends the warehouse's Spark sessions, so its DataFrames can't be read any more.

        Stored tables are not touched.
        """
        self._connection.close_sessions()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Warehouse({self.profile!r}, tables={[str(table) for table in sorted(self._models)]})"

    def _parse_name(self, name: str) -> TableName:
        catalog = self.profile.catalog
        table = parse_table_name(name, TableName(catalog, _NO_SCHEMA, name))
        if table.schema == _NO_SCHEMA or table.catalog != catalog:
            raise ConfigError(
                f"{name!r} is not a table of this warehouse.",
                expected=f"schema.name, or {catalog}.schema.name",
                fix="write the schema, as in dwd.flights",
            )
        return table

    def _build_table(self, model: Model) -> Table:
        return Table(self._connection, model, lambda: tuple(self._models.values()), self._refresh_model)

    def _refresh_model(self, model: Model, request: Request) -> Refreshed:
        reader = self._connection.reader
        if not reader.has_namespace(model.table.schema):
            reader.create_namespace(model.table.schema)
        planner = RefreshPlanner(model, reader, request, pins=PinnedSnapshots())
        with self._connection.lend_session() as session:
            return perform_refresh(planner, planner.plan_refresh(), session, self._list_readers)

    def _list_readers(self, table: TableName) -> Iterable[TableName]:
        return [other for other in self._models if other != table]


_NO_SCHEMA = "(none)"
