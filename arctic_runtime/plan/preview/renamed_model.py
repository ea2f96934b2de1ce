"""Moves a model to the tables of another environment, so that it can be planned as if it ran there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from arctic_runtime.model.names import TableName, rename_tables
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
        sql=rename_tables(model.sql, tables),
    )
