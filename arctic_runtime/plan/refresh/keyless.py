"""Plans the steps that prepare a table without a key before rows are appended to it."""

from __future__ import annotations

from collections.abc import Sequence

from arctic_runtime.model.columns import Column
from arctic_runtime.model.files.layout import TARGET_PROPERTY, format_layout, is_laid_out
from arctic_runtime.model.properties import LAYOUT
from arctic_runtime.model.state import ChangeTableState
from arctic_runtime.model.step import CreateAppended, EvolveSchema, SetLayout
from arctic_runtime.model.table import Model, Transform
from arctic_runtime.plan.refresh.schema import plan_schema

Preparation = CreateAppended | EvolveSchema | SetLayout


def plan_preparation(
    model: Model, table: ChangeTableState | None, fields: Sequence[Transform], stored: tuple[Column, ...]
) -> tuple[Preparation, ...]:
    """Plans the next steps that create the table, or fit its columns and layout to rows with the columns `stored`.

    After the steps, observe the table and call this again, until there are no steps. `fields` are the table's present
    partition fields. Existing files are not rewritten when the layout changes. Raises ConfigError for a type to which a
    column can't be changed, and for any difference that `on_schema_change` forbids.
    """
    if table is None:
        return (CreateAppended(model.table, stored),)
    change = plan_schema(model, table.columns, stored)
    evolution = () if change.is_empty else (EvolveSchema(model.table, change, is_change_table=False),)
    return (*evolution, *_plan_layout(model, table, fields))


def _plan_layout(model: Model, table: ChangeTableState, fields: Sequence[Transform]) -> tuple[SetLayout, ...]:
    config = model.config
    if LAYOUT in table.properties and is_laid_out(config, table.properties):
        return ()
    wanted = {_normalize_transform(transform): transform for transform in config.partition_by}
    known = {_normalize_transform(transform): transform for transform in fields}
    return (
        SetLayout(
            table=model.table,
            drop=tuple(transform for own, transform in known.items() if own not in wanted),
            add=tuple(transform for own, transform in wanted.items() if own not in known),
            sort_key=config.sort_key,
            properties=((TARGET_PROPERTY, str(config.target_file_bytes)), *config.tblproperties.items()),
            text=format_layout(config),
        ),
    )


def _normalize_transform(transform: Transform) -> str:
    """Returns the text of a transform in lower case, because Iceberg ignores case."""
    return str(transform).lower()
