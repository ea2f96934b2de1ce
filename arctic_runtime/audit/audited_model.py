"""An incremental model as an audit sees it: its table, its compiled queries, its key, and how dbt writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from arctic_runtime.model.names import TableName

KeySource = Literal["unique_key", "constraint", "tests", "none"]


@dataclass(frozen=True)
class AuditedModel:
    """An incremental model of a dbt project, with its queries, its key and the way in which dbt writes its table."""

    name: str
    table: TableName
    full_sql: str | None = None
    """The query as a full refresh runs it; None if there is no such query."""

    incremental_sql: str | None = None
    """The query as the next incremental run executes it; None if there is no such query."""

    key: tuple[str, ...] = ()
    """Columns that identify a row; empty if none are declared."""

    key_source: KeySource = "none"
    """Declaration from which `key` was taken."""

    strategy: str = "append"
    """dbt's `incremental_strategy`, the way in which a run writes its rows into the table."""

    has_unique_key: bool = False
    """True if the strategy replaces rows by dbt's `unique_key`."""

    updated_columns: tuple[str, ...] | None = None
    """Columns that a merge updates in existing rows; None for all."""

    kept_columns: tuple[str, ...] = ()
    """Columns that a merge never updates in existing rows."""

    constants: tuple[str, ...] = ()
    """Texts in the compiled queries that differ in each run, such as dbt's invocation id."""

    upstreams: tuple[str, ...] = ()
    """dbt's ids of the nodes that the model reads."""

    error: str = ""
    """Reason for which the queries are missing; empty if they are not."""

    @property
    def replaces_rows(self) -> bool:
        """Whether a run may replace rows of the table; otherwise it only appends rows."""
        return self.has_unique_key or self.strategy == "insert_overwrite"


@dataclass(frozen=True)
class UpstreamModel:
    """A model upstream of an audited one; in a query, its own query `sql` can replace its table.

    `sql` is the query of a full refresh; None if the query can't replace the table. `upstreams` has dbt's ids of the
    nodes that the model reads.
    """

    name: str
    table: TableName
    sql: str | None
    is_view: bool
    upstreams: tuple[str, ...] = ()


@dataclass(frozen=True)
class AuditedProject:
    """The models of an audit: the selected incremental ones, and all nodes that their queries may read.

    `others` has the selected models and all nodes upstream of them, by dbt's ids; each node comes after those it reads.
    """

    models: tuple[AuditedModel, ...]
    others: Mapping[str, UpstreamModel] = field(default_factory=dict)


@dataclass(frozen=True)
class AuditOptions:
    """Options of an audit: the number of example rows for each kind and cause, and the columns that are not compared.

    An excluded column is given as `column`, for all models, or as `model.column`. Case does not matter.
    """

    examples: int = 3
    excluded_columns: tuple[str, ...] = ()

    def excludes_column(self, model: str, column: str) -> bool:
        names = {name.lower() for name in self.excluded_columns}
        return column.lower() in names or f"{model}.{column}".lower() in names
