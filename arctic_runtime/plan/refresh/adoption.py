"""Adopted tables: tables of other writers whose rows the change table of a model continues, its baseline."""

from __future__ import annotations

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.baseline import PlainTable
from arctic_runtime.model.columns import find_column
from arctic_runtime.model.state import ChangeTableState, TableState
from arctic_runtime.model.table import Model


def is_being_adopted(model: Model, state: TableState) -> bool:
    """Whether the table of the model's name has the rows that the change table continues, but is not its base yet."""
    changes, other = state.changes, state.conflicting
    baseline = changes.baseline if changes else None
    return baseline is not None and other is not None and other.is_plain and other.name == model.base == baseline.table


def check_baseline(model: Model, changes: ChangeTableState) -> None:
    """Raises ConfigError if the model's configuration would drop the table that has the rows of its baseline."""
    baseline = changes.baseline
    if baseline is None or baseline.table == model.base:
        return
    raise ConfigError(
        f"{model.table}: a table that was adopted can't be merged on read.",
        expected="`merge: on_write`, since the table itself has the rows from before its adoption",
        actual=f"`merge: {model.config.merge}`",
        fix=(
            f"set `merge: on_write`; or undo the adoption with `arctic adopt {model.table.name} --undo`, and have the "
            "next run build the table"
        ),
    )


def check_adoptable(model: Model, state: TableState, table: PlainTable | None) -> PlainTable:
    """Returns `table`, the table of the model's name; raises ConfigError if the model can't adopt it."""
    config, name = model.config, model.table.name
    if state.changes is not None:
        raise ConfigError(
            f"{model.table} is an arctic table already.",
            actual=f"a change table {model.table.changes}",
            fix="run the model",
        )
    if table is None or state.conflicting is None or not state.conflicting.is_plain:
        raise ConfigError(
            f"{model.table}: there is nothing to adopt.",
            expected="an Iceberg table of that name with a snapshot, which no arctic model has made",
            actual="none" if state.conflicting is None else f"the {state.conflicting.kind} {state.conflicting.name}",
            fix="run the model, which creates its table",
        )
    refused = {
        "`input: changes`": config.input == "changes" or model.is_appended,
        f"`history: {config.history}`": config.has_history,
        f"`merge: {config.merge}`": config.merge != "on_write",
        f"`keep: {config.keep}`": config.keep != "net",
    }
    if has := [text for text, is_refused in refused.items() if is_refused]:
        raise ConfigError(
            f"{model.table} can't be adopted with {', '.join(has)}.",
            expected="a model of `input: state` without history, with `merge: on_write`",
            fix="change the configuration; or run the model without an adoption, which builds the table anew",
        )
    if missing := [part for part in config.primary_key if find_column(table.columns, part) is None]:
        raise ConfigError(
            f"{model.table} can't be adopted: the table has no column {', '.join(missing)} of the primary key.",
            expected=f"the columns {', '.join(config.primary_key)}",
            actual=", ".join(column.name for column in table.columns),
            fix="correct `primary_key`; or run the model without an adoption, which builds the table anew",
        )
    if unknown := [column.name for column in table.columns if column.type == "unsupported"]:
        raise ConfigError(
            f"{model.table} can't be adopted: Spark can't read its column {', '.join(unknown)}.",
            fix=f"drop the column, or run `dbt run -s {name}` without an adoption, which builds the table anew",
        )
    if table.format_version > config.format_version:
        raise ConfigError(
            f"{model.table} can't be adopted with `format_version: {config.format_version}`.",
            expected=f"`format_version: {table.format_version}`, as the table has it",
            fix=f"set `format_version: {table.format_version}`",
        )
    return table
