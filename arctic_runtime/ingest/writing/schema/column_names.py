"""Checks that a table can have the names of its source's columns."""

from __future__ import annotations

import json
import re

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.source import IngestedTable
from arctic_runtime.model.columns import is_same_name, list_reserved


class UnstorableColumns(ConfigError):
    """Raised if columns of a source have names that no column of the arctic table can have."""


def check_column_names(table: IngestedTable, schema: SourceSchema) -> None:
    """Raises UnstorableColumns if columns have reserved names, or two names that differ in nothing but case.

    `schema` has the names of the arctic table.
    """
    names = [column.name for column in schema.columns]
    reserved = list_reserved(names, has_change_table=bool(schema.key))
    twins = [name for place, name in enumerate(names) if any(is_same_name(name, earlier) for earlier in names[:place])]
    if not reserved and not twins:
        return
    event_names = {column.name: column.event_name for column in schema.columns}
    renamed = {event_names[name]: _suggest_name(name, names) for name in (*reserved, *twins)}
    shown = [f"{name} is reserved" for name in reserved]
    shown += [f"{name} differs from another column in nothing but case" for name in twins]
    raise UnstorableColumns(
        f"{table.table}: it can't have all columns of {table.source_name} under their names.",
        actual="; ".join(shown),
        fix=_advise(table, renamed),
    )


def _suggest_name(name: str, taken: list[str]) -> str:
    suggested = f"{name.strip('_')}_"
    while any(is_same_name(suggested, other) for other in taken):
        suggested += "_"
    return suggested


def _quote(name: str) -> str:
    """Returns a name as YAML writes it."""
    return name if re.fullmatch(r"\w+", name) else json.dumps(name, ensure_ascii=False)


def _advise(table: IngestedTable, renamed: dict[str, str]) -> str:
    pairs = ", ".join(f"{_quote(old)}: {_quote(new)}" for old, new in renamed.items())
    advice = f"give them other names in the table: `columns: {{{pairs}}}` below `meta.arctic` of the table"
    if not table.reports_key:
        return advice
    patterns = ",".join(re.escape(f"{table.source_name}.{name}") for name in renamed)
    return (
        f"{advice}; or leave them out, by the Debezium property `column.exclude.list: {patterns}`; then "
        f"`arctic ingest --resync {table.name}`"
    )
