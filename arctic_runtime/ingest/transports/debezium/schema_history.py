"""The definitions of tables over time, as Debezium's file of them has them: one JSON object on each line.

A record has the place in the binary log where its statement ended, and the tables that the statement changed. A new
engine takes on the records up to the place where it begins, each over those before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from arctic_runtime.ingest.transports.debezium.position import Source
from arctic_runtime.ingest.transports.debezium.servers.binlog_order import get_log_position

_Record = dict[str, Any]


def select_until(history: str, offset: Source) -> str:
    """The records of statements that ended before a place of the log, or there."""
    return _select_records(
        history, lambda record: get_log_position({**record["position"], "row": 0}) <= get_log_position(offset)
    )


def select_tables(history: str, tables: Collection[str]) -> str:
    """The records that define tables, given with their database (`shop.orders`)."""
    return _select_records(
        history, lambda record: any(_get_defined_table(change) in tables for change in record.get("tableChanges") or ())
    )


def _select_records(history: str, is_kept: Callable[[_Record], bool]) -> str:
    return "".join(f"{line}\n" for line in history.splitlines() if line and is_kept(json.loads(line)))


def _get_defined_table(change: _Record) -> str | None:
    """The table that a change defines; its id is quoted, such as `"shop"."orders"`."""
    return None if change["type"] == "DROP" else str(change["id"])[1:-1].replace('"."', ".")
