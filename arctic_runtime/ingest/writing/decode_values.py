"""Decodes single values of change events, by Spark: from their text in JSON to the type of their column.

A value that does not fit the type becomes null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from arctic_runtime.ingest.formats.event_format import Encoding, SourceColumn
from arctic_runtime.spark.engine.statement import Sql, fill_statement, join_parts, quote_number, quote_text, type_name

_SPECIAL_DECIMALS: Mapping[str, str] = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
"""Decimals that are not numbers: Debezium's text, and PostgreSQL's."""


def format_decimal(value: Sql) -> Sql:
    """Converts Debezium's text of a decimal to PostgreSQL's: the digits, or `NaN`, `Infinity` or `-Infinity`."""
    cases = [
        fill_statement("WHEN {own} THEN {shown} ", own=quote_text(own), shown=quote_text(shown))
        for own, shown in _SPECIAL_DECIMALS.items()
    ]
    return fill_statement("CASE {value} {cases}ELSE {value} END", value=value, cases=join_parts(cases, ""))


def format_interval(value: Sql) -> Sql:
    """Rounds the text of an ISO 8601 interval to microseconds, as PostgreSQL keeps it; null for any other text.

    This is needed since Debezium writes the seconds from a binary fraction, cut off after nine digits.
    """
    seconds = fill_statement("try_cast(regexp_extract({value}, '^P.*M(.*)S$', 1) AS decimal(38,6))", value=value)
    return fill_statement(
        "concat(regexp_extract({value}, '^(P.*M).*S$', 1), rtrim('.', rtrim('0', CAST({seconds} AS string))), 'S')",
        value=value,
        seconds=seconds,
    )


_DECIMAL_DIGITS = 38


@dataclass(frozen=True)
class EncodedValue:
    """A value of an event: the SQL for its JSON text, its column, and the time zone for timestamps without zone."""

    text: Sql
    column: SourceColumn
    zone: str = "UTC"


def decode_value(value: EncodedValue) -> Sql:
    """Builds the expression that converts a value to its column's type; null if the value does not fit."""
    decoded = _DECODERS[value.column.encoding](value)
    width = value.column.padded_to
    if width is None:
        return decoded
    return fill_statement(
        "CASE WHEN length({of}) < {width} THEN rpad({of}, {width}, X'00') ELSE {of} END",
        of=decoded,
        width=quote_number(width),
    )


def _decode_by_cast(value: EncodedValue) -> Sql:
    return fill_statement("try_cast({text} AS {kind})", text=value.text, kind=type_name(value.column.type))


def _decode_plain(value: EncodedValue) -> Sql:
    """Decodes by a cast; null for a decimal with more digits after the point than the type has.

    A cast would round such a decimal.
    """
    kind = value.column.type
    if kind == "string":
        return value.text
    if not kind.startswith("decimal"):
        return _decode_by_cast(value)
    digits, scale = (int(part) for part in kind[len("decimal(") : -1].split(","))
    widest = f"decimal({_DECIMAL_DIGITS},{_DECIMAL_DIGITS - (digits - scale)})"
    return fill_statement(
        "CASE WHEN {cast} = try_cast({text} AS {widest}) THEN {cast} END",
        cast=_decode_by_cast(value),
        text=value.text,
        widest=type_name(widest),
    )


_EPOCH = Sql("TIMESTAMP_NTZ '1970-01-01 00:00:00'")
_MOST_MICROS = 9_000_000_000_000_000_000


def _cast_count(value: EncodedValue) -> Sql:
    return fill_statement("try_cast({text} AS bigint)", text=value.text)


def _decode_epoch(value: EncodedValue, micros: int) -> Sql:
    """Decodes a count since 1970 to a timestamp; the unit of the count is `micros` microseconds."""
    count, most = _cast_count(value), quote_number(_MOST_MICROS // micros)
    made = _build_timestamp(
        fill_statement("{count} * {micros}", count=count, micros=quote_number(micros)), value.column.type
    )
    return fill_statement(
        "CASE WHEN {count} BETWEEN -{most} AND {most} THEN {made} END", count=count, most=most, made=made
    )


def _decode_epoch_nanos(value: EncodedValue) -> Sql:
    """Decodes a count of nanoseconds since 1970 to a timestamp; null unless it is a whole number of microseconds."""
    count = _cast_count(value)
    made = _build_timestamp(fill_statement("{count} DIV 1000", count=count), value.column.type)
    return fill_statement("CASE WHEN {count} % 1000 = 0 THEN {made} END", count=count, made=made)


def _build_timestamp(micros: Sql, kind: str) -> Sql:
    """Builds a timestamp of the type `kind` from microseconds since 1970, independently of the session's time zone."""
    if kind == "timestamp":
        return fill_statement("timestamp_micros({micros})", micros=micros)
    return fill_statement("timestampadd(MICROSECOND, {micros}, {epoch})", micros=micros, epoch=_EPOCH)


_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The first day of the year 1 and the last day of the year 9999, in days since 1970."""


def _decode_epoch_days(value: EncodedValue) -> Sql:
    """Decodes a count of days since 1970 to a date of the years 1 to 9999; null for other years.

    For dates before the year 1 and infinite dates, Debezium writes wrong counts.
    """
    return fill_statement(
        "CASE WHEN {days} BETWEEN {first} AND {last} THEN date_from_unix_date(CAST({days} AS int)) END",
        days=_cast_count(value),
        first=quote_number(_FIRST_DAY),
        last=quote_number(_LAST_DAY),
    )


def _decode_time_of_day(value: EncodedValue, in_second: int) -> Sql:
    """Decodes a count since midnight to `HH:MM:SS.ffffff`; `in_second` is the number of count units per second.

    Negative times have a sign in front. A count that is not a whole number of microseconds gives null.
    """
    count = _cast_count(value)
    scale = 1_000_000 // in_second if in_second <= 1_000_000 else 1
    micros = (
        fill_statement("abs({count}) * {scale}", count=count, scale=quote_number(scale))
        if in_second <= 1_000_000
        else fill_statement("CASE WHEN {count} % 1000 = 0 THEN abs({count}) DIV 1000 END", count=count)
    )
    return fill_statement(
        "concat(CASE WHEN {count} < 0 THEN '-' ELSE '' END, {hours}, ':', "
        "lpad(CAST(({micros}) DIV 60000000 % 60 AS string), 2, '0'), ':', "
        "lpad(CAST(({micros}) DIV 1000000 % 60 AS string), 2, '0'), '.', "
        "lpad(CAST(({micros}) % 1000000 AS string), 6, '0'))",
        count=count,
        micros=micros,
        hours=fill_statement(
            "lpad(CAST(({micros}) DIV 3600000000 AS string), "
            "greatest(2, length(CAST(({micros}) DIV 3600000000 AS string))), '0')",
            micros=micros,
        ),
    )


def _decode_base64(value: EncodedValue) -> Sql:
    return fill_statement("try_to_binary({text}, 'base64')", text=value.text)


def _decode_base64_decimal(value: EncodedValue) -> Sql:
    """Decodes a decimal from the base64 text of its unscaled two's complement, of up to sixteen bytes."""
    kind = value.column.type
    scale = int(kind[len("decimal(") : -1].split(",")[1])
    return fill_statement(
        "try_cast({unscaled} * CAST({unit} AS decimal(38,{scale})) AS {kind})",
        unscaled=_decode_unscaled(value.text),
        unit=quote_text(_format_power_of_ten(-scale)),
        scale=quote_number(scale),
        kind=type_name(kind),
    )


def _format_power_of_ten(exponent: int) -> str:
    return "1" if exponent == 0 else "0." + "0" * (-exponent - 1) + "1"


def _decode_unscaled(base64: Sql) -> Sql:
    """Decodes the base64 text of a big-endian two's complement to decimal(38,0); null if it has more than 38 digits."""
    digits = fill_statement("hex(try_to_binary({base64}, 'base64'))", base64=base64)
    sign = fill_statement("CASE WHEN substr({digits}, 1, 1) >= '8' THEN 'F' ELSE '0' END", digits=digits)
    whole = fill_statement("lpad({digits}, 32, {sign})", digits=digits, sign=sign)
    high = fill_statement("CAST(conv(substr({whole}, 1, 16), 16, -10) AS decimal(38,0))", whole=whole)
    low = fill_statement("CAST(conv(substr({whole}, 17, 16), 16, 10) AS decimal(38,0))", whole=whole)
    return fill_statement(
        "CASE WHEN length({digits}) BETWEEN 2 AND 32 THEN "
        "try_add(try_multiply({high}, CAST(18446744073709551616 AS decimal(38,0))), {low}) END",
        digits=digits,
        high=high,
        low=low,
    )


def _decode_variable_decimal(value: EncodedValue) -> Sql:
    """Decodes a decimal that contains its own scale to a text of its digits."""
    scale = fill_statement("try_cast(get_json_object({text}, '$.scale') AS int)", text=value.text)
    unscaled = _decode_unscaled(fill_statement("get_json_object({text}, '$.value')", text=value.text))
    digits = fill_statement(
        "lpad(CAST(abs({unscaled}) AS string), greatest({scale} + 1, length(CAST(abs({unscaled}) AS string))), '0')",
        unscaled=unscaled,
        scale=scale,
    )
    return fill_statement(
        "CASE WHEN {scale} <= 0 THEN concat(CAST({unscaled} AS string), {zeros}) "
        "ELSE concat({sign}, left({digits}, length({digits}) - {scale}), '.', right({digits}, {scale})) END",
        scale=scale,
        unscaled=unscaled,
        digits=digits,
        zeros=fill_statement(
            "CASE WHEN {unscaled} = 0 THEN '' ELSE repeat('0', -{scale}) END", unscaled=unscaled, scale=scale
        ),
        sign=fill_statement("CASE WHEN {unscaled} < 0 THEN '-' ELSE '' END", unscaled=unscaled),
    )


_JAVA_ARRAY = r"^\[L[A-Za-z.]+;@[0-9a-f]+$"
"""Pattern of Java's default text of an object, which Debezium writes for a nested array of texts."""


def _decode_array(value: EncodedValue) -> Sql:
    """Decodes an array, element by element; null for the whole array if an element does not fit."""
    column = value.column
    element = SourceColumn(column.name, column.type[len("array<") : -1], column.element)
    texts = fill_statement("from_json({text}, 'array<string>')", text=value.text)
    decoded = decode_value(EncodedValue(Sql("x"), element, value.zone))
    if element.type == "string":
        decoded = fill_statement(
            "CASE WHEN NOT x RLIKE {java} THEN {decoded} END", java=quote_text(_JAVA_ARRAY), decoded=decoded
        )
    return fill_statement(
        "CASE WHEN NOT exists({texts}, x -> x IS NOT NULL AND ({decoded}) IS NULL) "
        "THEN transform({texts}, x -> {decoded}) END",
        texts=texts,
        decoded=decoded,
    )


def _decode_zoneless_timestamp(value: EncodedValue) -> Sql:
    return fill_statement(
        "try_cast(concat({text}, {zone}) AS timestamp)", text=value.text, zone=quote_text(f" {value.zone}")
    )


def _decode_date_text(value: EncodedValue) -> Sql:
    return fill_statement("try_cast(rtrim('Z', {text}) AS date)", text=value.text)


def _decode_latin1(value: EncodedValue) -> Sql:
    """Decodes a text to bytes: each character is one byte, by its number in ISO 8859-1.

    Null if a character is not in ISO 8859-1.
    """
    return fill_statement(
        "CASE WHEN {text} RLIKE {bytes} THEN encode({text}, 'ISO-8859-1') END",
        text=value.text,
        bytes=Sql("'^[\\\\x00-\\\\xff]*$'"),
    )


def _decode_enum_index(value: EncodedValue) -> Sql:
    labels = join_parts(map(quote_text, value.column.labels))
    return fill_statement(
        "CASE WHEN {count} = 0 THEN '' ELSE get(array({labels}), CAST({count} AS int) - 1) END",
        count=_cast_count(value),
        labels=labels,
    )


def _decode_set_bits(value: EncodedValue) -> Sql:
    """Decodes the bits of a set to its labels with commas between them; null if a bit has no label."""
    count, labels = _cast_count(value), value.column.labels
    shown = [
        fill_statement(
            "CASE WHEN getbit({count}, {place}) = 1 THEN {label} END",
            count=count,
            place=quote_number(i),
            label=quote_text(label),
        )
        for i, label in enumerate(labels)
    ]
    return fill_statement(
        "CASE WHEN {count} BETWEEN 0 AND {most} THEN concat_ws(',', {shown}) END",
        count=count,
        most=quote_number(2 ** min(len(labels), 63) - 1),
        shown=join_parts(shown),
    )


def _decode_set_array(value: EncodedValue) -> Sql:
    return fill_statement("array_join(from_json({text}, 'array<string>'), ',')", text=value.text)


def _decode_zero_one(value: EncodedValue) -> Sql:
    return fill_statement("CASE {text} WHEN '0' THEN false WHEN '1' THEN true END", text=value.text)


_DECODERS: Mapping[Encoding, Callable[[EncodedValue], Sql]] = {
    "plain": _decode_plain,
    "json": lambda value: value.text,
    "epoch_days": _decode_epoch_days,
    "epoch_millis": lambda value: _decode_epoch(value, 1_000),
    "epoch_micros": lambda value: _decode_epoch(value, 1),
    "epoch_nanos": _decode_epoch_nanos,
    "zoned_timestamp": _decode_by_cast,
    "local_timestamp": _decode_by_cast,
    "zoneless_timestamp": _decode_zoneless_timestamp,
    "date_text": _decode_date_text,
    "millis_of_day": lambda value: _decode_time_of_day(value, 1_000),
    "micros_of_day": lambda value: _decode_time_of_day(value, 1_000_000),
    "interval": lambda value: format_interval(value.text),
    "decimal_text": lambda value: format_decimal(value.text),
    "nanos_of_day": lambda value: _decode_time_of_day(value, 1_000_000_000),
    "base64": _decode_base64,
    "latin1": _decode_latin1,
    "base64_decimal": _decode_base64_decimal,
    "variable_decimal": _decode_variable_decimal,
    "array": _decode_array,
    "zero_one": _decode_zero_one,
    "enum_index": _decode_enum_index,
    "set_bits": _decode_set_bits,
    "set_array": _decode_set_array,
}
