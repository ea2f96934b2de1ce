"""The text of a model's last query and of the views that it read, which the change table's properties hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from arctic_runtime.model.properties import QUERY_TEXT

_MOST_CHARACTERS = 100_000
"""Longer texts are not stored, since each commit writes the properties anew."""


@dataclass(frozen=True)
class QueryText:
    """The text of a query, and the texts of the views that it reads, by their names."""

    sql: str
    views: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> str:
        """Returns the texts as JSON for a table property; empty if they are too long to be stored."""
        text = json.dumps({"sql": self.sql, "views": dict(sorted(self.views.items()))}, separators=(",", ":"))
        return text if len(text) <= _MOST_CHARACTERS else ""


def read_query_text(properties: Mapping[str, str]) -> QueryText | None:
    """Reads the text that a change table's properties hold; None if there is none, or if it can't be read."""
    try:
        parts = json.loads(properties.get(QUERY_TEXT, ""))
        return QueryText(str(parts["sql"]), {str(name): str(sql) for name, sql in parts["views"].items()})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
