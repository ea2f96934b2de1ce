"""Decodes change events from JSON to typed rows, by Spark, according to a format and a table's schema.

Every value is taken from the JSON as text and cast on its own. So a value that does not fit its type is noticed, and
makes the event a dead letter, rather than silently becoming null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructField, StructType

from arctic_runtime.ingest.formats.event_format import EventFormat, Path, SourceColumn, SourceSchema
from arctic_runtime.ingest.transports.transport import ARRIVAL, FAULT, MESSAGE, ORIGIN, PAYLOAD
from arctic_runtime.ingest.writing.decode_values import EncodedValue, decode_value
from arctic_runtime.model.columns import OWN_PREFIX, is_same_name
from arctic_runtime.spark.engine.statement import (
    Sql,
    alias_as,
    fill_statement,
    join_parts,
    quote_name,
    quote_number,
    quote_text,
)

CHANGE, TIME, REASON, ABSENT, PART, OLD_KEY, ORDER, LOG_POSITION = (
    f"{OWN_PREFIX}{own}" for own in ("change", "time", "reason", "absent", "part", "old_key", "order", "log_place")
)
"""Columns of decoded events in addition to those of the table.

CHANGE is a `Change`, null in dead letters. TIME is the timestamp of the change. REASON says why an event is a dead
letter, null for others. ABSENT has the names of columns whose value the source did not send, null if it sent all. PART
is the index of a row in its event, from 0. OLD_KEY is a struct of the primary key before the change, null if the source
does not send it or if it is unchanged. ORDER is a struct by which the events of a primary key are ordered; ARRIVAL
decides between equal ones; null if the format has no order. LOG_POSITION is the position of the change in the source's
log, null if an event does not contain it.
"""

_EVENT, _CORRUPT, _ROW, _WAS, _PAIR = (f"{OWN_PREFIX}{own}" for own in ("event", "corrupt", "row", "was", "pair"))


def decode_changes(events: DataFrame, form: EventFormat, schema: SourceSchema) -> DataFrame:
    """Decodes events of a table to typed columns, and adds the columns CHANGE to LOG_POSITION.

    PAYLOAD, ORIGIN and ARRIVAL are kept; PAYLOAD becomes MESSAGE if there is one. The row of an event is the row after
    the change, or for a delete the deleted row, of which only the primary key is certain. Dead letters have a REASON,
    and nulls in place of what could not be read. Events that concern no rows are left out.
    """
    return decode_events(events, form, schema).where(is_change())


def is_change() -> Expression:
    """Builds the condition that a decoded event is not `ignored`.

    Such an event changes rows, is a row of a snapshot, or is a dead letter.
    """
    return ~F.col(CHANGE).eqNullSafe("ignored")


def is_read() -> Expression:
    """Builds the condition that a decoded event is a row of a snapshot."""
    return F.col(CHANGE).eqNullSafe("read")


def decode_events(events: DataFrame, form: EventFormat, schema: SourceSchema) -> DataFrame:
    """Decodes events like `decode_changes`, but does not leave out events that change no rows.

    The result should be cached and then filtered: Spark evaluates a filter before the columns of a row, and would parse
    the JSON of each event twice.
    """
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    event = F.from_json(_select_payload_text(events), _build_json_schema(form, schema), options)
    rows = _explode_rows(events.select("*", _rename_nested_fields(event, form, schema).alias(_EVENT)), form)
    rows = _rename_top_fields(rows, form, schema)
    named = {column.name: EncodedValue(_image_field(_ROW, column.name), column) for column in schema.columns}
    change = _change_expression(form)
    typed = [alias_as(_decode_present_value(value, form), value.column.name) for value in named.values()]
    return rows.selectExpr(
        alias_as(quote_name(MESSAGE if MESSAGE in events.columns else PAYLOAD), PAYLOAD),
        *[quote_name(own) for own in (ORIGIN, ARRIVAL, PART)],
        *typed,
        alias_as(change, CHANGE),
        alias_as(_time_expression(form), TIME),
        alias_as(_reason_expression(form, schema, change), REASON),
        alias_as(_list_absent_columns(form, named), ABSENT),
        alias_as(_select_old_key(form, schema), OLD_KEY),
        alias_as(_order_expression(form), ORDER),
        alias_as(
            Sql("CAST(NULL AS string)") if form.log_position is None else _read_field(form.log_position),
            LOG_POSITION,
        ),
    )


def _select_payload_text(events: DataFrame) -> Expression:
    """Returns the expression for PAYLOAD as text.

    Null if its bytes are not valid UTF-8, which makes the event a dead letter.
    """
    is_binary = isinstance(events.schema[PAYLOAD].dataType, BinaryType)
    if not is_binary:
        return F.col(PAYLOAD)
    whole = F.col(PAYLOAD).cast("string")
    return F.when(F.is_valid_utf8(whole), whole)


def _build_json_schema(form: EventFormat, schema: SourceSchema) -> StructType:
    """Builds the Spark type of an event's JSON, in which all values are text."""
    return _build_event_type(form, [column.event_name for column in schema.columns])


def _build_event_type(form: EventFormat, names: Sequence[str]) -> StructType:
    """Builds the Spark type of a parsed event, with the fields `names` in its rows."""
    row = StructType([StructField(name, StringType()) for name in names])
    image: DataType = ArrayType(row) if form.rows_are_lists else row
    paths = (form.operation, form.time, *form.order, form.log_position, form.proof)
    leaves: dict[Path, DataType] = {path: StringType() for path in paths if path}
    leaves[form.row] = image
    if form.before is not None:
        leaves[form.before] = image
    return _nest_fields(leaves).add(_CORRUPT, StringType())


def _rename_nested_fields(event: Expression, form: EventFormat, schema: SourceSchema) -> Expression:
    """Gives the fields of rows inside of an event the columns' names in the table, by their places."""
    if not form.row or not _has_renames(schema):
        return event
    return event.cast(_build_event_type(form, [column.name for column in schema.columns]))


def _rename_top_fields(rows: DataFrame, form: EventFormat, schema: SourceSchema) -> DataFrame:
    """Gives the fields of _ROW the columns' names in the table, if an event is a row itself.

    The row's fields are then the first ones of the event. The others get names that no column has.
    """
    if form.row or not _has_renames(schema):
        return rows
    fields = _build_json_schema(form, schema).fields
    names = [column.name for column in schema.columns]
    names += [f"{OWN_PREFIX}{place}" for place in range(len(names), len(fields))]
    kind = StructType([StructField(name, own.dataType) for name, own in zip(names, fields, strict=True)])
    return rows.withColumn(_ROW, F.col(_ROW).cast(kind))


def _has_renames(schema: SourceSchema) -> bool:
    return any(column.name != column.event_name for column in schema.columns)


def _nest_fields(leaves: Mapping[Path, DataType]) -> StructType:
    """Builds a struct type that has, at each path in `leaves`, a field of the path's type.

    If the empty path is in `leaves`, its type has to be a struct, whose fields are put at the top level.
    """
    fields: dict[str, DataType] = {}
    top = leaves.get(())
    if isinstance(top, StructType):
        fields |= {field.name: field.dataType for field in top.fields}
    for first in dict.fromkeys(path[0] for path in leaves if path):
        below = {path[1:]: kind for path, kind in leaves.items() if path and path[0] == first}
        fields[first] = below[()] if set(below) == {()} else _nest_fields(below)
    return StructType([StructField(own, kind) for own, kind in fields.items()])


def _explode_rows(parsed: DataFrame, form: EventFormat) -> DataFrame:
    """Splits parsed events into one row for each table row that an event changed.

    _ROW is the row after the change, _WAS the row before it, and PART the row's index in its event; _ROW and _WAS are
    null for events without rows.
    """
    row, was = (
        _read_field(form.row),
        _read_field(form.before) if form.before is not None else Sql("NULL"),
    )
    if not form.rows_are_lists:
        return parsed.selectExpr("*", alias_as(row, _ROW), alias_as(was, _WAS), alias_as(Sql("0"), PART))
    pair = fill_statement(
        "named_struct('row', x, 'was', get({was}, i))" if form.before else "named_struct('row', x)", was=was
    )
    pairs = fill_statement("posexplode_outer(transform({row}, (x, i) -> {pair}))", row=row, pair=pair)
    exploded = parsed.selectExpr(
        "*", fill_statement("{pairs} AS ({part}, {both})", pairs=pairs, part=quote_name(PART), both=quote_name(_PAIR))
    )
    before = quote_name(_PAIR, "was") if form.before else Sql("NULL")
    return exploded.selectExpr("*", alias_as(quote_name(_PAIR, "row"), _ROW), alias_as(before, _WAS))


def _read_field(path: Path) -> Sql:
    """Returns the SQL of the field at a path of the parsed event; the whole event for the empty path."""
    return quote_name(_EVENT, *path)


def _image_field(image: str, own: str) -> Sql:
    return quote_name(image, own)


def _change_expression(form: EventFormat) -> Sql:
    """Builds the expression for the `Change` of an event; null for an operation that the format does not know."""
    if form.operation is None:
        return quote_text("update")
    operation = _read_field(form.operation)
    cases = [
        fill_statement("WHEN {code} THEN {change} ", code=quote_text(code), change=quote_text(change))
        for code, change in form.changes.items()
    ]
    return fill_statement("CASE {operation} {cases}END", operation=operation, cases=join_parts(cases, ""))


_UNITS: Mapping[str, int] = {"seconds": 1_000_000, "millis": 1_000, "micros": 1}


def _time_expression(form: EventFormat) -> Sql:
    if form.time is None:
        return Sql("CAST(NULL AS timestamp)")
    if form.time_unit == "text":
        return fill_statement("try_cast({value} AS timestamp)", value=_read_field(form.time))
    return fill_statement(
        "timestamp_micros(try_cast({value} AS bigint) * {unit})",
        value=_read_field(form.time),
        unit=quote_number(_UNITS[form.time_unit]),
    )


def _select_image_text(column: SourceColumn, form: EventFormat, change: Sql) -> Sql:
    """Builds the expression for the JSON text of a column in the row after a change, or in the deleted row."""
    after, was = _image_field(_ROW, column.name), _image_field(_WAS, column.name)
    if form.before is None or form.is_row_of_delete:
        return after
    return fill_statement(
        "CASE WHEN {change} = 'delete' THEN {was} ELSE {after} END", change=change, was=was, after=after
    )


def _is_absent(value: Sql, form: EventFormat) -> Sql:
    return fill_statement("{value} IN ({marks})", value=value, marks=join_parts(map(quote_text, form.unavailable)))


def can_be_absent(column: SourceColumn, form: EventFormat) -> bool:
    """Whether events may lack the value of a column, because the change did not touch it.

    True if the format has a placeholder for such values, and the type is one that a source stores out of line: text,
    bytes, array or decimal.
    """
    return bool(form.unavailable) and column.type.startswith(("string", "binary", "array", "decimal"))


def _decode_present_value(value: EncodedValue, form: EventFormat) -> Sql:
    """Builds the expression for a column's typed value; null if the value was not sent or does not fit the type."""
    column, shown = value.column, _select_image_text(value.column, form, _change_expression(form))
    decoded = decode_value(EncodedValue(shown, column, form.zone or "UTC"))
    if not can_be_absent(column, form):
        return decoded
    return fill_statement(
        "CASE WHEN NOT coalesce({absent}, false) THEN {decoded} END", absent=_is_absent(shown, form), decoded=decoded
    )


def _order_expression(form: EventFormat) -> Sql:
    """Builds the expression for ORDER: a struct of the values that order events; numbers are compared as numbers.

    Null if the format has no order.
    """
    if not form.order:
        return Sql("CAST(NULL AS int)")
    parts = [
        fill_statement(
            "try_cast({value} AS decimal(38,9)) AS {n}, {value} AS {t}",
            value=_read_field(path),
            n=quote_name(f"n{i}"),
            t=quote_name(f"t{i}"),
        )
        for i, path in enumerate(form.order)
    ]
    return fill_statement("struct({parts})", parts=join_parts(parts))


def _reason_expression(form: EventFormat, schema: SourceSchema, change: Sql) -> Sql:
    """Builds the expression for the first reason why an event can't be applied; null if it can.

    `change` is the expression for the event's `Change`.
    """
    cases = [
        *_build_decoding_fault_cases(form),
        fill_statement("WHEN {event} IS NULL THEN 'no UTF-8 text'", event=quote_name(_EVENT)),
        fill_statement(
            "WHEN {corrupt} IS NOT NULL THEN 'not the JSON of an event'", corrupt=quote_name(_EVENT, _CORRUPT)
        ),
        *_build_operation_cases(form, change),
    ]
    cases += _build_unknown_key_cases(form, schema, change)
    says_rows = fill_statement("{change} IN ('insert', 'read', 'update', 'delete')", change=change)
    for column in schema.columns:
        shown = _select_image_text(column, form, change)
        absent = (
            fill_statement("NOT {absent} AND ", absent=_is_absent(shown, form))
            if can_be_absent(column, form)
            else Sql("")
        )
        misfit = fill_statement(
            "WHEN {says} AND {shown} IS NOT NULL AND {absent}({decoded}) IS NULL THEN {reason}",
            says=says_rows,
            shown=shown,
            absent=absent,
            decoded=decode_value(EncodedValue(shown, column, form.zone or "UTC")),
            reason=quote_text(f"column {column.name}: the value does not fit {column.type}{_describe_range(column)}"),
        )
        if not _always_fits(column):
            cases.append(misfit)
        if any(is_same_name(column.name, part) for part in schema.key):
            cases.append(
                fill_statement(
                    "WHEN {says} AND {shown} IS NULL THEN {reason}",
                    says=says_rows,
                    shown=shown,
                    reason=quote_text(f"primary key column {column.name} has no value"),
                )
            )
    return fill_statement("CASE {cases} END", cases=join_parts(cases, " "))


def _build_decoding_fault_cases(form: EventFormat) -> list[Sql]:
    """Builds the CASE branch whose value is the fault of a message that could not be decoded; none for JSON formats."""
    if form.proof is None:
        return []
    return [fill_statement("WHEN {proof} IS NULL THEN {fault}", proof=_read_field(form.proof), fault=quote_name(FAULT))]


def _build_unknown_key_cases(form: EventFormat, schema: SourceSchema, change: Sql) -> list[Sql]:
    """Builds the CASE branch whose value is the reason why an update without its old row can't be applied.

    Such an update may have changed the primary key. Returns no branch if the key is the source's own, since the source
    then sends changes of the key.
    """
    key = next(
        (column for column in schema.columns if any(is_same_name(column.name, part) for part in schema.key)), None
    )
    if key is None or not schema.is_key_chosen or form.before is None or form.is_before_partial:
        return []
    reason = quote_text(
        "the row before the update was not sent, so its primary key may have been another one: let the source send "
        "whole rows, in PostgreSQL by `replica identity full`"
    )
    was = _image_field(_WAS, key.name)
    return [fill_statement("WHEN {change} = 'update' AND {was} IS NULL THEN {r}", change=change, was=was, r=reason)]


def _build_operation_cases(form: EventFormat, change: Sql) -> list[Sql]:
    """Builds the CASE branches for events with no operation or an unknown one; empty if the format has no operations.

    `change` is the expression for the event's `Change`.
    """
    if form.operation is None:
        return []
    operation = _read_field(form.operation)
    return [
        fill_statement("WHEN {operation} IS NULL THEN 'no operation'", operation=operation),
        fill_statement(
            "WHEN {change} IS NULL THEN concat('unknown operation ', {operation})", change=change, operation=operation
        ),
    ]


_WITH_ZERO_DATES = ("epoch_days", "epoch_millis", "epoch_micros", "zoned_timestamp")
"""Encodings of values that Debezium reads from MySQL and MariaDB, where zero dates may be among them."""


def _describe_range(column: SourceColumn) -> str:
    """Describes the values that fit a column, as the end of a sentence; empty if the type says it."""
    years = ", of the years 1 to 9999" if column.encoding == "epoch_days" else ""
    return f"{years}; a zero date (0000-00-00) does not" if column.encoding in _WITH_ZERO_DATES else years


def _always_fits(column: SourceColumn) -> bool:
    return column.type == "string" and column.encoding in ("plain", "json", "decimal_text")


def _list_absent_columns(form: EventFormat, values: Mapping[str, EncodedValue]) -> Sql:
    """Builds the expression for ABSENT: the names of columns whose value was not sent; null if all were sent."""
    change = _change_expression(form)
    marks = [
        fill_statement(
            "CASE WHEN {absent} THEN {own} END",
            absent=_is_absent(_select_image_text(value.column, form, change), form),
            own=quote_text(own),
        )
        for own, value in values.items()
        if can_be_absent(value.column, form)
    ]
    if not marks:
        return Sql("CAST(NULL AS array<string>)")
    names = fill_statement("array_compact(array({marks}))", marks=join_parts(marks))
    return fill_statement("CASE WHEN size({names}) > 0 THEN {names} END", names=names)


def _select_old_key(form: EventFormat, schema: SourceSchema) -> Sql:
    """Builds the expression for OLD_KEY, the primary key before an update; null if it is unchanged or was not sent."""
    key = [column for column in schema.columns if any(is_same_name(column.name, part) for part in schema.key)]
    if form.before is None or not key:
        return Sql("NULL")
    was, differs = [], []
    for column in key:
        before, after = _image_field(_WAS, column.name), _image_field(_ROW, column.name)
        known = fill_statement("coalesce({before}, {after})", before=before, after=after)
        was.append(alias_as(decode_value(EncodedValue(known, column)), column.name))
        differs.append(fill_statement("{before} <> {after}", before=before, after=after))
    return fill_statement(
        "CASE WHEN {change} = 'update' AND ({differs}) THEN struct({was}) END",
        change=_change_expression(form),
        differs=join_parts(differs, " OR "),
        was=join_parts(was),
    )
