"""Selects records of Debezium's schema history: the definitions of tables over time, one JSON object per line.

A record has the binary log position at which its DDL statement ended, and the tables that the statement changed. A new
engine applies, in order, the records up to the position at which the engine begins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from arctic_runtime.ingest.transports.debezium.position import Source
from arctic_runtime.ingest.transports.debezium.servers.binlog_order import read_log_position

_Record = dict[str, Any]


def select_until(history: str, offset: Source) -> str:
    """Selects the records whose statements ended at or before `offset`, an offset of the binary log."""
    return _select_records(
        history, lambda record: read_log_position({**record["position"], "row": 0}) <= read_log_position(offset)
    )


def select_tables(history: str, tables: Collection[str]) -> str:
    """Selects the records that define `tables`, named with their database (`shop.orders`)."""
    return _select_records(
        history, lambda record: any(_get_defined_table(change) in tables for change in record.get("tableChanges") or ())
    )


def _select_records(history: str, is_kept: Callable[[_Record], bool]) -> str:
    # JSON may have other ends of lines inside of its texts, such as that of a column's comment.
    return "".join(f"{line}\n" for line in history.split("\n") if line and is_kept(json.loads(line)))


def _get_defined_table(change: _Record) -> str | None:
    """Returns the table that a change in a record defines, as `shop.orders`; None for a drop.

    The change names the table as `"shop"."orders"`.
    """
    return None if change["type"] == "DROP" else str(change["id"])[1:-1].replace('"."', ".")
