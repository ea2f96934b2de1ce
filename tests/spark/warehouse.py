"""A warehouse as tests use it: sources are written, models run, tables and their histories read back."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName, format_changes_view
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.spark.engine.statement import quote_name as quoted
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.refresh.verify import verify_model
from arctic_runtime.spark.tables.rows.frames import COMMIT_ORDER
from arctic_runtime.spark.tables.table_session import TableSession
from tests.thresholds import changed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from arctic_runtime.spark.engine.session import SparkEnvironment

Rows = list[tuple[Any, ...]]
MODEL_PARTS = ("not_null", "checks", "contract", "comment", "column_comments")


def refuse() -> SparkSession:
    """A session factory for runs that must not ask Spark for anything."""
    raise AssertionError("Spark was asked")


@dataclass(frozen=True)
class Warehouse:
    """One namespace of a warehouse, and everything that looks at it."""

    environment: SparkEnvironment
    reader: CatalogReader
    spark: SparkSession
    namespace: str

    def table(self, name: str) -> TableName:
        return TableName(self.environment.profile.catalog, self.namespace, name)

    def sql_name(self, name: str) -> str:
        return quoted(*self.table(name).parts)

    def under(self, **thresholds: Mapping[str, Any]) -> Warehouse:
        """The same namespace with other thresholds, by group: `lake.under(pruning={"in_list_values": 0})`."""
        profile = self.reader.profile
        other = replace(profile, thresholds=changed(profile.thresholds, **thresholds))
        return replace(self, reader=CatalogReader(other))

    # Sources

    def load(self, name: str, rows: Iterable[Sequence[Any]], columns: str) -> None:
        """Makes a format version 2 table hold exactly these rows; `columns` is Spark's DDL of their types."""
        rows = [tuple(row) for row in rows]
        arrow = self._arrow(rows, columns)
        identifier = (self.namespace, name)
        if self.reader.catalog.table_exists(identifier):
            self.reader.load_table(*identifier).overwrite(arrow)
        else:
            made = self.reader.catalog.create_table(identifier, arrow.schema, properties={"format-version": "2"})
            made.append(arrow)

    def append_v2(self, name: str, rows: Iterable[Sequence[Any]], columns: str) -> None:
        """Appends to a format version 2 table, made where it is not there."""
        arrow = self._arrow([tuple(row) for row in rows], columns)
        identifier = (self.namespace, name)
        if not self.reader.catalog.table_exists(identifier):
            self.reader.catalog.create_table(identifier, arrow.schema, properties={"format-version": "2"})
        self.reader.load_table(*identifier).append(arrow)

    def append(self, name: str, rows: Iterable[Sequence[Any]], columns: str) -> None:
        """Appends to a format version 3 table in one commit, in this order; makes it where it is not there."""
        frame = self.frame(rows, columns).coalesce(1)
        writer = frame.writeTo(self.sql_name(name))
        if self.reader.catalog.table_exists((self.namespace, name)):
            writer.append()
        else:
            writer.create()

    def frame(self, rows: Iterable[Sequence[Any]], columns: str) -> DataFrame:
        return self.spark.createDataFrame([tuple(row) for row in rows], columns)

    def _arrow(self, rows: Rows, columns: str) -> pa.Table:
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        schema = to_arrow_schema(StructType.fromDDL(columns))
        values = zip(*rows, strict=True) if rows else [()] * len(schema)
        arrays = [pa.array(list(part), type=field.type) for part, field in zip(values, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    # Models

    def model(self, name: str, sql: str, **config: Any) -> Model:
        """A model of `sql`, in which `{source}` stands for that table and `{changes(source)}` for its changes.

        Its nodes may be smaller than a user's.
        """
        declared = {part: config.pop(part) for part in MODEL_PARTS if part in config}
        node_bytes = config.pop("node_bytes", ModelConfig.node_bytes)
        checked = replace(read_configuration(config, name), node_bytes=node_bytes)
        return Model(self.table(name), sql.format_map(_Names(self)), checked, **declared)

    def changes(self, source: str) -> str:
        """What `changes(ref('source'))` is in a model's SQL."""
        return f"`{format_changes_view(self.table(source))}`"

    def run(
        self, model: Model, session: Callable[[], SparkSession] | None = None, may_fail: bool = False, **request: bool
    ) -> Outcome:
        """Runs a model; an increment that failed would hide behind the rows of a full computation, unless it `may`."""
        outcome = self.refresh_of(model, session, **request).run_refresh()
        assert may_fail or outcome.reason != "INCREMENT_FAILED", outcome.because
        return outcome

    def refresh_of(self, model: Model, session: Callable[[], SparkSession] | None = None, **request: bool) -> Refresh:
        return Refresh.from_model(model, self.reader, session or (lambda: self.spark), Request(**request))

    def session_of(
        self, model: Model, session: Callable[[], SparkSession] | None = None, now: datetime.datetime | None = None
    ) -> TableSession:
        return TableSession(model, self.reader, session or (lambda: self.spark), now)

    # What is there

    def rows(self, model: Model) -> Rows:
        """The table as everybody reads it, sorted."""
        return sorted_rows(self.spark.table(quoted(*model.table.parts)))

    def state(self, model: Model) -> TableState:
        return self.session_of(model).observe_state()

    def head(self, model: Model) -> int:
        changes = self.state(model).changes
        assert changes is not None
        assert changes.head is not None
        return changes.head.snapshot

    def log(self, model: Model) -> list[dict[str, Any]]:
        """All change rows in the order of their commits, then by key; without `_ts`."""
        table = self.spark.table(quoted(*model.table.changes.parts))
        frame = table.select("*", COMMIT_ORDER).drop("_ts")
        rows = [row.asDict(recursive=True) for row in frame.collect()]
        key = model.config.primary_key
        ordered = sorted(rows, key=lambda row: (row[COMMIT_ORDER], str([row[part] for part in key])))
        return [{name: value for name, value in row.items() if name != COMMIT_ORDER} for row in ordered]

    def actions(self, outcome: Outcome) -> tuple[int, int, int]:
        """Inserted, updated, deleted."""
        return (outcome.rows["insert"], outcome.rows["update"], outcome.rows["delete"])

    def broken(self, model: Model) -> list[str]:
        """The promises that the table breaks, each with an example."""
        findings = verify_model(self.refresh_of(model))
        return [f"{finding.check}: {finding.examples}" for finding in findings if finding.broken]

    def left_out(self, model: Model) -> list[str]:
        return [f"{check.check}: {check.left_out}" for check in verify_model(self.refresh_of(model)) if check.left_out]

    def branches(self, model: Model) -> set[str]:
        """Branches of the change table and the base, main aside."""
        state = self.state(model)
        parts = [part for part in (state.changes, state.base) if part is not None]
        return {name for part in parts for name in part.branches} - {"main"}


class _Names(Mapping[str, str]):
    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse

    def __getitem__(self, key: str) -> str:
        if key.startswith("changes(") and key.endswith(")"):
            return self.warehouse.changes(key[8:-1])
        return self.warehouse.sql_name(key)

    def __iter__(self) -> Any:
        raise TypeError("names are asked for one by one")

    def __len__(self) -> int:
        raise TypeError("names are asked for one by one")


def sorted_rows(frame: DataFrame) -> Rows:
    """Rows as plain tuples, in an order that nulls and nested values don't disturb."""
    return sorted((tuple(row.asDict(recursive=True).values()) for row in frame.collect()), key=repr)
