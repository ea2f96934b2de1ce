"""Checks a query's columns against the configuration, and plans the changes of the table's columns to fit the query."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp
from sqlglot.errors import SqlglotError

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import (
    HISTORY_COLUMNS,
    METADATA,
    OWN_PREFIX,
    RESERVED,
    SEQUENCE,
    Column,
    SchemaChange,
    find_column,
    is_same_name,
)
from arctic_runtime.model.sources.ingestion import advise_reset
from arctic_runtime.model.table import Model
from arctic_runtime.sql.types import (
    Primitive,
    has_map,
    list_field_names,
    list_parts,
    list_primitives,
    map_primitives,
    read_type,
    type_text,
)

_WIDENINGS = {("int", "bigint"), ("float", "double"), ("tinyint", "int"), ("smallint", "int")}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_NARROW = {"tinyint": "int", "smallint": "int"}
_TEXT = re.compile(r"(?:var)?char\(\d+\)")
_SPELLINGS = (
    (re.compile(r"decimal"), r"decimal(10,0)"),
    (re.compile(r"decimal\((\d+)\)"), r"decimal(\1,0)"),
    (re.compile(r"decimal\((\d+), (\d+)\)"), r"decimal(\1,\2)"),
    (re.compile(r"timestamp_ltz"), r"timestamp"),
)
"""Pairs of a pattern for a type as sqlglot writes it, and the same type as Spark writes it."""

NOT_BUCKETS = ("boolean", "float", "double", "struct", "array", "map", "variant", "void", "interval")
NOT_KEYS = ("struct", "array", "map", "variant", "void", "interval")
NOT_STORED = ("void", "interval", "variant")


class TypeConflict(ConfigError):
    """Raised if the type of a column of the table can't be changed to the column's type in the query."""


def to_stored_type(spark_type: str) -> str:
    """Returns the type in which Iceberg stores values of a Spark type, such as int for tinyint."""
    return type_text(map_primitives(read_type(spark_type), _to_stored_primitive))


def _to_stored_primitive(primitive: str) -> str:
    return "string" if _TEXT.fullmatch(primitive) else _NARROW.get(primitive, primitive)


def check_query(model: Model, query: tuple[Column, ...], stored: tuple[Column, ...]) -> None:
    """Raises ConfigError if the query's columns don't fit the model's configuration or contract, or can't be stored.

    `query` are all columns of the query, `stored` those that the table stores.
    """
    _check_names(model, query)
    _check_contract(model, stored)
    config = model.config
    for key, names in (
        ("primary_key", config.primary_key),
        ("sort_key", config.sort_key),
        ("track", config.track),
        ("partition_by", tuple(transform.column for transform in config.partition_by)),
        ("contract", model.not_null),
    ):
        for name in names:
            require_column(model, stored, key, name)
    for name in (*config.exclude_columns, *filter(None, (config.sequence_by,))):
        require_column(model, query, "exclude_columns" if name in config.exclude_columns else "sequence_by", name)
    for name in config.primary_key:
        _check_type(model, stored, name, NOT_KEYS, "can't be part of a primary key")
    if config.valid_time:
        require_column(model, query, "valid_time", config.valid_time)
    if config.hash_key:
        _check_type(model, stored, config.hash_key, NOT_BUCKETS, "can't be a bucket key")
    for column in stored:
        _check_type(model, stored, column.name, NOT_STORED, "can't be stored in an Iceberg table; cast it")
        _check_nested(model, column)


def plan_schema(model: Model, table: tuple[Column, ...], stored: tuple[Column, ...]) -> SchemaChange:
    """Plans the change of the table's columns, `table`, to the query's columns `stored`, as `on_schema_change` allows.

    Raises ConfigError for a type that Iceberg can't widen, and with `on_schema_change: fail` for any difference.
    """
    renamed = tuple(_list_pending_renames(model, table, stored))
    names = dict(renamed)
    known = tuple(Column(names.get(column.name, column.name), column.type) for column in table)
    new = tuple(column for column in stored if find_column(known, column.name) is None)
    gone = tuple(column.name for column in known if find_column(stored, column.name) is None)
    widened = tuple(_list_widened_columns(model, known, stored))
    return replace(_POLICIES[model.config.on_schema_change](model, new, gone, widened), rename=renamed)


def _list_pending_renames(
    model: Model, table: tuple[Column, ...], stored: tuple[Column, ...]
) -> Iterator[tuple[str, str]]:
    """Yields the entries of `renamed_columns` that the table does not have yet, as pairs of old and new name.

    Entries may remain in the configuration after the columns were renamed.
    """
    for new, old in model.config.renamed_columns.items():
        current, wanted = find_column(table, old), find_column(stored, new)
        if current and wanted and find_column(table, new) is None and find_column(stored, old) is None:
            yield current.name, wanted.name


def _append_columns(
    model: Model, new: tuple[Column, ...], gone: tuple[str, ...], widened: tuple[Column, ...]
) -> SchemaChange:
    return SchemaChange(add=new, widen=widened)


def _sync_columns(
    model: Model, new: tuple[Column, ...], gone: tuple[str, ...], widened: tuple[Column, ...]
) -> SchemaChange:
    return SchemaChange(add=new, widen=widened, drop=gone)


def _ignore_columns(
    model: Model, new: tuple[Column, ...], gone: tuple[str, ...], widened: tuple[Column, ...]
) -> SchemaChange:
    return SchemaChange(widen=widened)


def _refuse_columns(
    model: Model, new: tuple[Column, ...], gone: tuple[str, ...], widened: tuple[Column, ...]
) -> SchemaChange:
    if (new or gone) and model.ingested_from is not None:
        raise ConfigError(
            f"{model.table}: {model.ingested_from} has other columns, and `schema_changes` is `freeze`.\n"
            f"  new in the source: {[column.name for column in new]}\n"
            f"  no longer in the source: {list(gone)}",
            fix="set `schema_changes` of the table to safe or evolve, which follow the source",
        )
    if new or gone:
        raise ConfigError(
            f"{model.table}: query and table have different columns, and `on_schema_change` is `fail`.\n"
            f"  new in the query: {[column.name for column in new]}\n"
            f"  no longer in the query: {list(gone)}",
            fix="change the query, or set on_schema_change to append_new_columns or sync_all_columns",
        )
    return SchemaChange(widen=widened)


_POLICIES = {
    "append_new_columns": _append_columns,
    "sync_all_columns": _sync_columns,
    "ignore": _ignore_columns,
    "fail": _refuse_columns,
}


def _list_widened_columns(model: Model, table: tuple[Column, ...], stored: tuple[Column, ...]) -> list[Column]:
    widened = []
    for column in stored:
        current = find_column(table, column.name)
        if current is None or current.type == column.type or _fits_into(column.type, current.type):
            continue
        if not _fits_into(current.type, column.type):
            raise TypeConflict(
                f"{model.table}: the type of column `{current.name}` changed in a way that the table can't follow.\n"
                f"  in the table: {current.type}\n"
                f"  in {_name_origin(model)}: {column.type}",
                fix=_build_type_advice(model, current.name),
            )
        if any(is_same_name(transform.column, current.name) for transform in model.config.partition_by):
            raise TypeConflict(
                f"{model.table}: column `{current.name}` is in partition_by, so its type can't change.\n"
                f"  in the table: {current.type}\n"
                f"  in {_name_origin(model)}: {column.type}",
                fix=_build_type_advice(model, current.name),
            )
        widened.append(Column(current.name, column.type))
    return widened


def plan_sequence(model: Model, current: str, wanted: str) -> SchemaChange:
    """Plans the change of the column `_seq` from type `current`, so that it can store values of type `wanted`.

    The change is empty if they fit already. Raises TypeConflict if the type can't be widened, such as from a number to
    a timestamp.
    """
    if model.config.input != "changes" or _fits_into(wanted, current):
        return SchemaChange()
    if _fits_into(current, wanted):
        return SchemaChange(widen=(Column(SEQUENCE, wanted),))
    by = model.config.sequence_by
    raise TypeConflict(
        f"{model.table}: the order of events has another type than in the change table.\n"
        f"  in the table: `{SEQUENCE}` is a {current}\n"
        f"  in the model: {f'`sequence_by: {by}` is a {wanted}' if by else f'no `sequence_by`, so a {wanted}'}",
        fix=(
            "order by a column of the old type, cast it in the query, or delete the tables with "
            f"`arctic reset {model.table.name} --yes`"
        ),
    )


def _name_origin(model: Model) -> str:
    """Returns the name, for errors, of the place from which the table gets its rows."""
    return model.ingested_from or "the query"


def _build_type_advice(model: Model, column: str) -> str:
    """Returns advice for a column whose type can't change.

    Key and partition columns can't be renamed, so for these only a cast or a new table helps. An ingested table has no
    query.
    """
    if model.ingested_from is not None:
        return f"give the column its old type in the source, or make the table anew: {advise_reset(model.table)}"
    fixed = (*model.config.primary_key, *(transform.column for transform in model.config.partition_by))
    rename = "" if any(is_same_name(column, part) for part in fixed) else ", give the column another name"
    return f"cast it in the query{rename}, or delete the tables with `arctic reset {model.table.name} --yes`"


def _fits_into(narrow: str, wide: str) -> bool:
    if narrow == wide or (narrow, wide) in _WIDENINGS:
        return True
    left, right = _DECIMAL.fullmatch(narrow), _DECIMAL.fullmatch(wide)
    return bool(left and right and left[2] == right[2] and int(left[1]) <= int(right[1]))


def _check_names(model: Model, query: tuple[Column, ...]) -> None:
    seen: set[str] = set()
    for column in query:
        lowered = column.name.lower()
        if lowered in seen:
            raise ConfigError(f"{model.table}: the query has two columns named `{column.name}`; give one an alias")
        if not column.name or "\x00" in column.name:
            raise ConfigError(f"{model.table}: {column.name!r} is not a valid column name; give the column an alias")
        seen.add(lowered)
    hidden = sorted(name for name in seen if name in METADATA or name.startswith(OWN_PREFIX))
    if hidden:
        raise ConfigError(
            f"{model.table}: the query uses column names that are reserved for Iceberg and dbt-arctic: "
            f"{', '.join(hidden)}.",
            fix="give these columns other names",
        )
    taken = sorted(seen & set(RESERVED))
    if taken and model.config.input == "state":
        raise ConfigError(
            f"{model.table}: these column names are reserved for change rows: {', '.join(RESERVED)}.",
            actual=", ".join(taken),
            fix="give these columns other names",
        )
    added = sorted(seen & set(HISTORY_COLUMNS))
    if added and model.config.has_history:
        raise ConfigError(
            f"{model.table}: `history: {model.config.history}` reserves the columns {', '.join(HISTORY_COLUMNS)}.",
            actual=", ".join(added),
            fix="give these columns other names",
        )


def require_column(model: Model, columns: tuple[Column, ...], key: str, name: str) -> None:
    """Raises ConfigError if `columns` lack the column `name`, which the configuration key `key` names."""
    if find_column(columns, name) is None:
        raise ConfigError(
            f"{model.table}: `{key}` names column `{name}`, which the query does not have.",
            actual=", ".join(column.name for column in columns),
            fix=f"select it, or correct `{key}`",
        )


def _check_type(model: Model, columns: tuple[Column, ...], name: str, refused: tuple[str, ...], reason: str) -> None:
    column = find_column(columns, name)
    if column and column.type.startswith(refused):
        raise ConfigError(
            f"{model.table}: column `{name}` is of type {column.type} and {reason}.",
            fix="cast it in the query, or name another column",
        )


def _check_contract(model: Model, stored: tuple[Column, ...]) -> None:
    if not model.contract:
        return
    wanted = {column.name.lower(): _normalize_type(column.type) for column in model.contract}
    query_types = {column.name.lower(): column.type.lower() for column in stored}
    differ = [
        f"  {name}: the contract says {wanted.get(name, 'no such column')}, "
        f"the query {query_types.get(name, 'has none')} "
        f"({_describe_mismatch(name in wanted, name in query_types)})\n"
        for name in dict.fromkeys([*wanted, *query_types])
        if wanted.get(name) != query_types.get(name)
    ]
    if differ:
        raise ConfigError(
            f"{model.table}: This model has an enforced contract that failed.\n{''.join(differ)}",
            fix="make the names and data types of the contract and of the query agree",
        )


def _describe_mismatch(is_wanted: bool, is_selected: bool) -> str:
    """Returns dbt's words for a column that only the contract or only the query has, or that has two types.

    `is_wanted` is True if the contract has the column, `is_selected` if the query has it.
    """
    if is_wanted and is_selected:
        return "data type mismatch"
    return "missing in definition" if is_wanted else "missing in contract"


def _normalize_type(declared: str) -> str:
    """Returns a type of a contract, such as `integer`, `LONG` or `varchar(20)`, as Spark stores it, in lower case."""
    try:
        written = exp.DataType.build(declared, dialect="spark").sql(dialect="spark").lower()
        return to_stored_type(type_text(map_primitives(read_type(written), _translate_primitive)))
    except (SqlglotError, ValueError):
        return declared.lower()


def _translate_primitive(primitive: str) -> str:
    matches = ((pattern.fullmatch(primitive), spark) for pattern, spark in _SPELLINGS)
    return next((match.expand(spark) for match, spark in matches if match), primitive)


def _check_nested(model: Model, column: Column) -> None:
    kind = read_type(column.type)
    if any("collate" in leaf.text for leaf in list_primitives(kind)):
        raise ConfigError(
            f"{model.table}: column `{column.name}` has a collation, which an Iceberg table does not keep.",
            actual=column.type,
            fix=(
                f"write `{column.name} collate utf8_binary` in the query, and the collation where the column is "
                "compared"
            ),
        )
    for field in list_field_names(kind):
        if not field or "\x00" in field or "${" in field:
            raise ConfigError(
                f"{model.table}: column `{column.name}` has a field named {field!r}, which can't be written in SQL.",
                actual=column.type,
                fix="rename the field in the query",
            )
    if not isinstance(kind, Primitive) and any(has_map(part) for part in list_parts(kind)):
        raise ConfigError(
            f"{model.table}: column `{column.name}` has a map inside another type, which can't be compared.",
            actual=column.type,
            fix="turn the map into an array with map_entries()",
        )
