"""An incremental model as an audit sees it: its table, its compiled queries, its key, and how dbt writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from arctic_runtime.model.names import TableName

KeySource = Literal["unique_key", "constraint", "tests", "none"]


@dataclass(frozen=True)
class AuditedModel:
    """An incremental model of a dbt project.

    `full_sql` is its query as a full refresh runs it, `incremental_sql` as the next run does; None if there is no such
    query. `key` are the columns that identify a row, by the declaration `key_source`; empty if none are declared.
    `has_unique_key` says that dbt writes by a key. A merge updates only `updated_columns`, None for all, and never
    `kept_columns`. `constants` are texts that dbt writes anew in each run, such as its invocation id. `upstreams` are
    dbt's ids of the nodes that it reads. `error` says why the queries are missing.
    """

    name: str
    table: TableName
    full_sql: str | None = None
    incremental_sql: str | None = None
    key: tuple[str, ...] = ()
    key_source: KeySource = "none"
    strategy: str = "append"
    has_unique_key: bool = False
    updated_columns: tuple[str, ...] | None = None
    kept_columns: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    upstreams: tuple[str, ...] = ()
    error: str = ""

    @property
    def replaces_rows(self) -> bool:
        """Whether a run replaces rows of the table, instead of appending alone."""
        return self.has_unique_key or self.strategy == "insert_overwrite"


@dataclass(frozen=True)
class UpstreamModel:
    """A model upstream of an audited one; `sql` is its query in full, None if it can't be put in place of its table."""

    name: str
    table: TableName
    sql: str | None
    is_view: bool
    upstreams: tuple[str, ...] = ()


@dataclass(frozen=True)
class AuditedProject:
    """The selected incremental models, and by dbt's ids these and all upstream nodes, each after those it reads."""

    models: tuple[AuditedModel, ...]
    others: Mapping[str, UpstreamModel] = field(default_factory=dict)


@dataclass(frozen=True)
class AuditOptions:
    """Options of an audit: the number of examples for each cause, and columns that are not compared.

    An excluded column is a name, or a model's name, a dot and a name; without regard to case.
    """

    examples: int = 3
    excluded_columns: tuple[str, ...] = ()

    def excludes_column(self, model: str, column: str) -> bool:
        names = {name.lower() for name in self.excluded_columns}
        return column.lower() in names or f"{model}.{column}".lower() in names
