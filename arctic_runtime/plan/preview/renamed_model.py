"""Moves a model to the tables of another environment, so that it can be planned as if it ran there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from arctic_runtime.model.names import TableName, format_changes_view
from arctic_runtime.model.table import Model


def move_model(model: Model, tables: Mapping[TableName, TableName]) -> Model:
    """Returns the model with the tables of another environment in the places of its own; `tables` maps own ones.

    Its own table and those that its query reads are replaced; a table that is not in `tables` stays.
    """
    tested = model.tested_table
    return replace(
        model,
        table=tables.get(model.table, model.table),
        tested_table=None if tested is None else tables.get(tested, tested),
        sql=_rename_tables(model.sql, tables),
    )


def _rename_tables(sql: str, tables: Mapping[TableName, TableName]) -> str:
    """Replaces the names of tables, and of the views of their changes, in a compiled query."""
    names = {
        write(own): write(other)
        for own, other in tables.items()
        if own != other
        for write in (_quote_table, _quote_changes)
    }
    if not names:
        return sql
    longest_first = sorted(names, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda match: names[match[0]], sql)


def _quote_table(name: TableName) -> str:
    return ".".join(_quote(part) for part in name.parts)


def _quote_changes(name: TableName) -> str:
    return _quote(format_changes_view(name))


def _quote(text: str) -> str:
    return f"`{text.replace('`', '``')}`"
