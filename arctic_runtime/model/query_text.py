"""The query of a table's last run, as a text that the change table's properties hold, and the contract of its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from arctic_runtime.model.columns import Column
from arctic_runtime.model.properties import QUERY_TEXT
from arctic_runtime.model.table import Model

_MOST_CHARACTERS = 100_000
"""Longer texts are not stored, since each commit writes the properties anew."""


@dataclass(frozen=True)
class StoredContract:
    """What a model promises of its rows, beside its key, and how its columns may change."""

    on_schema_change: str
    not_null: tuple[str, ...]
    columns: tuple[Column, ...]
    checks: tuple[str, ...]
    keep_deleted: bool

    @classmethod
    def from_model(cls, model: Model) -> StoredContract:
        config = model.config
        return cls(config.on_schema_change, model.not_null, model.contract, model.checks, config.keep_deleted)

    def has_rules_of(self, other: StoredContract) -> bool:
        """Whether rows that fulfil one contract fulfil the other, whatever columns they have."""
        return (self.not_null, self.checks, self.keep_deleted) == (other.not_null, other.checks, other.keep_deleted)


@dataclass(frozen=True)
class QueryText:
    """The text of a query, the texts of the views that it reads, by their names, and the contract of its rows."""

    sql: str
    contract: StoredContract
    views: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_model(cls, model: Model, views: Mapping[str, str]) -> QueryText:
        return cls(model.sql, StoredContract.from_model(model), dict(views))

    def encode(self) -> str:
        """Returns the texts as JSON for a table property; empty if they are too long to be stored."""
        contract = self.contract
        parts = {
            "sql": self.sql,
            "views": dict(sorted(self.views.items())),
            "on_schema_change": contract.on_schema_change,
            "not_null": contract.not_null,
            "contract": [(column.name, column.type) for column in contract.columns],
            "checks": contract.checks,
            "keep_deleted": contract.keep_deleted,
        }
        text = json.dumps(parts, separators=(",", ":"))
        return text if len(text) <= _MOST_CHARACTERS else ""


def read_query_text(properties: Mapping[str, str]) -> QueryText | None:
    """Reads the text that a change table's properties hold; None if there is none, or if it can't be read."""
    try:
        parts = json.loads(properties.get(QUERY_TEXT, ""))
        contract = StoredContract(
            str(parts["on_schema_change"]),
            tuple(map(str, parts["not_null"])),
            tuple(Column(str(name), str(kind)) for name, kind in parts["contract"]),
            tuple(map(str, parts["checks"])),
            bool(parts["keep_deleted"]),
        )
        views = {str(name): str(sql) for name, sql in parts["views"].items()}
        return QueryText(str(parts["sql"]), contract, views)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
