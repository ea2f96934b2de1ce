"""Relations in dbt, whose catalog, schema and name are always quoted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dbt.adapters.base.relation import BaseRelation, EventTimeFilter, Policy
from dbt.adapters.contracts.relation import ComponentName
from dbt.adapters.spark.relation import SparkRelation

from arctic_runtime.spark.engine.statement import quote_text
from dbt.adapters.arctic.relations.identifiers import check_identifier, quote_identifier

_LABELS = {
    ComponentName.Database: "catalog",
    ComponentName.Schema: "schema",
    ComponentName.Identifier: "table or view",
}


def write_event_window(column: str, start: datetime | None, end: datetime | None) -> str:
    """Returns the SQL condition for rows whose `column` is at or after `start` and before `end`; "" without bounds.

    The bounds are texts in UTC, so the column's type determines how they are compared: as an instant, a date or a time
    without a zone in UTC, whatever the session's time zone is. Columns of texts are compared as texts.
    """
    ends = ((" >= ", start), (" < ", end))
    return " and ".join(_quote_once(column) + sign + quote_text(str(at)) for sign, at in ends if at is not None)


def _quote_once(column: str) -> str:
    """Quotes the name of a configured column; unchanged if it has backticks already or is a path to a field."""
    return column if "`" in column or "." in column else quote_identifier(column)


@dataclass
class ArcticQuotePolicy(Policy):
    """Quotes all parts of a name, since any text may be a name."""

    database: bool = True
    schema: bool = True
    identifier: bool = True


@dataclass
class ArcticIncludePolicy(Policy):
    """Writes all parts of a name, including the catalog."""

    database: bool = True
    schema: bool = True
    identifier: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class ArcticRelation(SparkRelation):
    """A table or view of an Iceberg catalog, `catalog`.`schema`.`name`, or a temporary view without a schema.

    Rendering a name that a catalog can't store raises CompilationError.
    """

    quote_policy: Policy = field(default_factory=ArcticQuotePolicy)
    include_policy: Policy = field(default_factory=ArcticIncludePolicy)
    is_iceberg: bool | None = True
    branch: str | None = None

    def __post_init__(self) -> None:
        """Skips dbt-spark's check that catalog and schema are equal, since they differ here."""

    @classmethod
    def create(cls, *args: Any, **kwargs: Any) -> ArcticRelation:
        """Creates a relation with a quoted name, whatever the project's `quoting` is, as the catalog keeps the case."""
        return super().create(
            *args, **{**kwargs, "quote_policy": {"database": True, "schema": True, "identifier": True}}
        )

    def render(self) -> str:
        """Returns the quoted name; with a branch, the name by which statements read and write the branch."""
        rendered: str = BaseRelation.render(self)
        return rendered if self.branch is None else rendered + "." + quote_identifier(f"branch_{self.branch}")

    def _render_iterator(self) -> Iterator[tuple[ComponentName | None, str | None]]:
        for component, part in super()._render_iterator():
            if part is not None and component is not None and self.quote_policy.get_part(component):
                check_identifier(self.path.get_part(component) or "", _LABELS[component])
            yield component, part

    def quoted(self, identifier: str) -> str:
        return quote_identifier(identifier)

    def _render_event_time_filtered(self, event_time_filter: EventTimeFilter) -> str:
        return write_event_window(event_time_filter.field_name, event_time_filter.start, event_time_filter.end)

    @property
    def is_temporary(self) -> bool:
        """Whether this is a temporary view of the session, which has no schema and is not in the catalog."""
        return self.schema is None or not self.include_policy.schema

    @staticmethod
    def add_ephemeral_prefix(name: str) -> str:
        """Returns the name of an ephemeral model's subquery, quoted only if necessary."""
        prefixed = BaseRelation.add_ephemeral_prefix(name)
        return prefixed if re.fullmatch(r"[A-Za-z0-9_]+", prefixed) else quote_identifier(prefixed)
