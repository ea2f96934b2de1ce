"""Lists relations and properties by SQL statements, for catalogs that only Spark can read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtDatabaseError

from arctic_runtime.catalog.database_catalog import RelationKind

FetchRows = Callable[[str], list[tuple[Any, ...]]]
"""Function that runs a statement and returns its rows; raises DbtDatabaseError."""

logger = AdapterLogger("Arctic")

_NOT_FOUND = ("SCHEMA_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "NoSuchNamespace", "NoSuchTable", "does not exist")
_KINDS: tuple[tuple[str, RelationKind], ...] = (("TABLES", "table"), ("VIEWS", "view"))


def is_missing(error: DbtDatabaseError) -> bool:
    """Whether a statement failed because its schema or table does not exist."""
    return any(sign in str(error) for sign in _NOT_FOUND)


def list_relation_kinds(fetch_rows: FetchRows, schema: str) -> dict[str, RelationKind]:
    """Maps the tables and views of a schema, whose name is quoted, to their kinds; empty if there is no such schema."""
    kinds: dict[str, RelationKind] = {}
    for noun, kind in _KINDS:
        try:
            rows = fetch_rows(f"SHOW {noun} IN " + schema)
        except DbtDatabaseError as error:
            if is_missing(error):
                continue
            raise
        kinds.update({name: kind for _, name, is_temporary in rows if not is_temporary})
    return kinds


def list_properties(fetch_rows: FetchRows, relation: str) -> dict[str, str]:
    """Returns the properties of a relation, whose name is quoted; empty if Spark can't read them."""
    try:
        return dict(fetch_rows("SHOW TBLPROPERTIES " + relation))
    except DbtDatabaseError as error:
        logger.debug(str(error))
        return {}
