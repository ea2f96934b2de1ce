"""Functions of Spark that have the same value in DuckDB, or an error for values for which they might differ.

`FUNCTIONS` are functions of one row by name, `AGGREGATES` those over rows. A call of any other function is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from arctic_runtime.ivm.algebra.numbers import get_precision_and_scale, infer_sum_type
from arctic_runtime.query.duckdb_types import call, cast, number, text
from arctic_runtime.query.expressions import (
    INEXACT,
    KNOWN_ARGS,
    MOMENTS,
    TRANSLATIONS,
    VOID,
    Translator,
    Typed,
    check_comparable,
    guard,
    show,
)
from arctic_runtime.query.refusal import NotAnswered

Translate = Callable[[Translator, Sequence[exp.Expr], exp.Expr], Typed]


def _translate_anonymous(translator: Translator, node: exp.Anonymous) -> Typed:
    name = node.name.upper()
    if name in AGGREGATES:
        return _translate_aggregate(translator, node)
    translate = FUNCTIONS.get(name)
    if translate is None:
        raise NotAnswered(f"the function {name.lower()} in `{show(node)}`")
    return translate(translator, node.expressions, node)


def _texts(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> list[Typed]:
    return [translator.require(translator.translate(part), "string", node) for part in arguments]


def _check_count(arguments: Sequence[exp.Expr], node: exp.Expr, *counts: int) -> None:
    if len(arguments) not in counts:
        raise NotAnswered(f"`{show(node)}` with {len(arguments)} argument(s)")


def _of_texts(name: str, count: int, of_type: str = "string") -> Translate:
    """Builds the translation of a function of texts that DuckDB has under the name `name`."""

    def translate(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
        _check_count(arguments, node, count)
        values = [value.sql for value in _texts(translator, arguments, node)]
        made = call(name, *values)
        return Typed(cast(made, of_type) if of_type == "int" else made, of_type)

    return translate


def _of_ascii(name: str) -> Translate:
    """Builds the translation of `upper` or `lower`, whose Unicode tables differ: other letters are an error."""

    def translate(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
        _check_count(arguments, node, 1)
        (value,) = _texts(translator, arguments, node)
        is_ascii = exp.EQ(this=call("strlen", value.sql.copy()), expression=call("length", value.sql.copy()))
        return Typed(
            guard(is_ascii, call(name, value.sql), f"{show(node)}: a letter outside of ASCII", value.sql), "string"
        )

    return translate


def _of_date(name: str) -> Translate:
    """Builds the translation of a function that returns a part of a date."""

    def translate(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
        _check_count(arguments, node, 1)
        value = _moment(translator, arguments[0], node)
        return Typed(cast(call(name, value.sql), "int"), "int")

    return translate


def _moment(translator: Translator, argument: exp.Expr, node: exp.Expr) -> Typed:
    value = translator.translate(argument)
    if value.type not in MOMENTS:
        raise NotAnswered(f"`{show(node)}` of {value.type}")
    if value.type == "timestamp":
        translator.require_utc(node)
    return value


def _shift_date(operator: type[exp.Add | exp.Sub]) -> Translate:
    def translate(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
        _check_count(arguments, node, 2)
        day = translator.convert(translator.translate(arguments[0]), "date", node)
        days = translator.require(translator.translate(arguments[1]), "int", node)
        return Typed(cast(exp.Paren(this=operator(this=day.sql, expression=days.sql)), "date"), "date")

    return translate


def _count_days(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    _check_count(arguments, node, 2)
    end, start = (translator.convert(translator.translate(part), "date", node) for part in arguments)
    return Typed(cast(exp.Paren(this=exp.Sub(this=end.sql, expression=start.sql)), "int"), "int")


_UNITS = {"year": "year", "quarter": "quarter", "month": "month", "mon": "month", "mm": "month", "week": "week"}
_DATE_UNITS = {**_UNITS, "yyyy": "year", "yy": "year"}
_TIME_UNITS = {**_UNITS, **{unit: unit for unit in ("day", "hour", "minute", "second")}}


def _truncate_date(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    _check_count(arguments, node, 2)
    day = translator.convert(translator.translate(arguments[0]), "date", node)
    unit = _read_unit(translator, arguments[1], _DATE_UNITS, node)
    return Typed(cast(call("date_trunc", unit, day.sql), "date"), "date")


def _truncate_time(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    _check_count(arguments, node, 2)
    unit = _read_unit(translator, arguments[0], _TIME_UNITS, node)
    moment = translator.convert(_moment(translator, arguments[1], node), "timestamp", node)
    return Typed(call("date_trunc", unit, moment.sql), moment.type)


def _read_unit(translator: Translator, argument: exp.Expr, units: Mapping[str, str], node: exp.Expr) -> exp.Literal:
    written = translator.translate(argument).literal
    if written is None or written.lower() not in units:
        raise NotAnswered(f"`{show(node)}`, whose unit is none of {', '.join(sorted(units))}")
    return text(units[written.lower()])


def _last_day(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    _check_count(arguments, node, 1)
    day = translator.convert(translator.translate(arguments[0]), "date", node)
    return Typed(call("last_day", day.sql), "date")


def _substring(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    """Translates `substring` with a literal position from 1 and a literal length; other positions count otherwise."""
    _check_count(arguments, node, 2, 3)
    value = translator.require(translator.translate(arguments[0]), "string", node)
    places = [_read_literal_count(part, node) for part in arguments[1:]]
    if places[0] < 1:
        raise NotAnswered(f"`{show(node)}`, whose position is not from 1 on")
    return Typed(call("substring", value.sql, *map(number, places)), "string")


def _read_literal_count(part: exp.Expr, node: exp.Expr) -> int:
    bare = part.unnest()
    if not isinstance(bare, exp.Literal) or not bare.is_int or int(bare.name) >= 2**31:
        raise NotAnswered(f"`{show(node)}`, whose numbers are no literals from 0 on")
    return int(bare.name)


def _replace(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    _check_count(arguments, node, 3)
    values = _texts(translator, arguments, node)
    if not values[1].literal:
        raise NotAnswered(f"`{show(node)}`, whose searched text is no literal, or empty")
    return Typed(call("replace", *(value.sql for value in values)), "string")


def _find_text(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    _check_count(arguments, node, 2)
    values = _texts(translator, arguments, node)
    if not values[1].literal:
        raise NotAnswered(f"`{show(node)}`, whose searched text is no literal, or empty")
    return Typed(cast(call("instr", *(value.sql for value in values)), "int"), "int")


def _concatenate(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    if not arguments:
        raise NotAnswered(f"`{show(node)}`")
    first, *others = _texts(translator, arguments, node)
    made: exp.Expr = exp.Paren(this=first.sql)
    for other in others:
        made = exp.DPipe(this=made, expression=exp.Paren(this=other.sql))
    return Typed(exp.Paren(this=made), "string")


def _trim(side: str) -> Callable[[Translator, exp.Expr, exp.Expr], Typed]:
    def translate(translator: Translator, argument: exp.Expr, node: exp.Expr) -> Typed:
        value = translator.require(translator.translate(argument), "string", node)
        return Typed(call(f"{side}trim", value.sql, text(" ")), "string")

    return translate


def _translate_trim(translator: Translator, node: exp.Trim) -> Typed:
    """Translates `trim`, which takes off spaces alone, and no other white space."""
    side = {"LEADING": "l", "TRAILING": "r", "BOTH": "", "": ""}.get(str(node.args.get("position") or "").upper())
    if node.expression or side is None:
        raise NotAnswered(f"`{show(node)}`")
    return _trim(side)(translator, node.this, node)


def _trim_one(side: str) -> Translate:
    def translate(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
        _check_count(arguments, node, 1)
        return _trim(side)(translator, arguments[0], node)

    return translate


def _coalesce(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    _check_count(arguments, node, 2)
    return translator.translate(exp.Coalesce(this=arguments[0], expressions=[arguments[1]]))


def _null_if(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    _check_count(arguments, node, 2)
    is_equal = exp.EQ(this=arguments[0].copy(), expression=arguments[1])
    return translator.translate(exp.Case(ifs=[exp.If(this=is_equal, true=exp.Null())], default=arguments[0]))


def _if(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    _check_count(arguments, node, 2, 3)
    condition, chosen, *others = arguments
    return translator.translate(
        exp.Case(ifs=[exp.If(this=condition, true=chosen)], default=others[0] if others else None)
    )


def _translate_if(translator: Translator, node: exp.If) -> Typed:
    default = node.args.get("false")
    return translator.translate(exp.Case(ifs=[exp.If(this=node.this, true=node.args["true"])], default=default))


def _is_null(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    _check_count(arguments, node, 1)
    return translator.translate(exp.Is(this=arguments[0], expression=exp.Null()))


def _is_not_null(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    return Typed(exp.Not(this=exp.Paren(this=_is_null(translator, arguments, node).sql)), "boolean")


def _choose_extreme(name: str) -> Translate:
    """Builds the translation of `greatest` or `least`, which skip nulls in both engines."""

    def translate(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
        values = translator.bring_together([translator.translate(part) for part in arguments], node)
        if len(values) < 2 or values[0].type in (VOID, *INEXACT):
            raise NotAnswered(f"`{show(node)}` of {values[0].type if values else 'nothing'}")
        check_comparable(values[0].type, node)
        return Typed(call(name, *(value.sql for value in values)), values[0].type)

    return translate


def _absolute(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    _check_count(arguments, node, 1)
    value = translator.translate(arguments[0])
    if not value.is_exact and value.type not in INEXACT:
        raise NotAnswered(f"`{show(node)}` of {value.type}")
    return Typed(cast(call("abs", value.sql), value.type), value.type)


def _round(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    """Translates `round` of decimals, half up; the engines round doubles otherwise."""
    _check_count(arguments, node, 1, 2)
    value = translator.translate(arguments[0])
    places = _read_literal_count(arguments[1], node) if len(arguments) > 1 else 0
    precision, scale = get_precision_and_scale(value.type) or (0, 0)
    if not value.type.startswith("decimal") or places > scale:
        raise NotAnswered(f"`{show(node)}` of {value.type}")
    of_type = f"decimal({min(precision - scale + 1 + places, 38)},{places})"
    return Typed(cast(value.sql, of_type), of_type)


def _positive(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    _check_count(arguments, node, 1)
    return translator.translate(arguments[0])


def _operate(operator: type[exp.Binary]) -> Translate:
    def translate(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
        _check_count(arguments, node, 2)
        return translator.translate(operator(this=arguments[0], expression=arguments[1]))

    return translate


def _from_micros(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    _check_count(arguments, node, 1)
    micros = translator.convert(translator.translate(arguments[0]), "bigint", node)
    return Typed(cast(call("make_timestamptz", micros.sql), "timestamp"), "timestamp")


FUNCTIONS: Mapping[str, Translate] = {
    "ABS": _absolute,
    **dict.fromkeys(("LENGTH", "CHAR_LENGTH", "CHARACTER_LENGTH"), _of_texts("length", 1, "int")),
    **dict.fromkeys(("UPPER", "UCASE"), _of_ascii("upper")),
    **dict.fromkeys(("LOWER", "LCASE"), _of_ascii("lower")),
    "CONCAT": _concatenate,
    "STARTSWITH": _of_texts("starts_with", 2, "boolean"),
    "ENDSWITH": _of_texts("ends_with", 2, "boolean"),
    "CONTAINS": _of_texts("contains", 2, "boolean"),
    "REPLACE": _replace,
    "INSTR": _find_text,
    "LTRIM": _trim_one("l"),
    "RTRIM": _trim_one("r"),
    "YEAR": _of_date("year"),
    "QUARTER": _of_date("quarter"),
    "MONTH": _of_date("month"),
    **dict.fromkeys(("DAY", "DAYOFMONTH"), _of_date("day")),
    "HOUR": _of_date("hour"),
    "MINUTE": _of_date("minute"),
    "SECOND": _of_date("second"),
    "DATE_ADD": _shift_date(exp.Add),
    "DATE_SUB": _shift_date(exp.Sub),
    "DATEDIFF": _count_days,
    "LAST_DAY": _last_day,
    "TRUNC": _truncate_date,
    "DATE_TRUNC": _truncate_time,
    "SUBSTR": _substring,
    "SUBSTRING": _substring,
    **dict.fromkeys(("NVL", "IFNULL"), _coalesce),
    "NULLIF": _null_if,
    "IF": _if,
    "ISNULL": _is_null,
    "ISNOTNULL": _is_not_null,
    "GREATEST": _choose_extreme("greatest"),
    "LEAST": _choose_extreme("least"),
    "ROUND": _round,
    "POSITIVE": _positive,
    "MOD": _operate(exp.Mod),
    "TIMESTAMP_MICROS": _from_micros,
}


def _sum(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    """Translates `sum`; sums of doubles differ in their last digits, as they do between two runs of Spark."""
    value = translator.translate(arguments[0])
    if value.type in INEXACT:
        return Typed(call("sum", translator.convert(value, "double", node).sql), "double")
    of_type = infer_sum_type(value.type)
    if of_type is None:
        raise NotAnswered(f"`{show(node)}` of {value.type}")
    return Typed(call("sum", value.sql), of_type)


def _average(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    value = translator.translate(arguments[0])
    if value.type.startswith("decimal") or not (value.is_exact or value.type in INEXACT):
        raise NotAnswered(f"`{show(node)}` of {value.type}; write avg(cast(… as double))")
    return Typed(call("avg", translator.convert(value, "double", node).sql), "double")


def _extreme(name: str) -> Translate:
    def translate(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
        _check_count(arguments, node, 1)
        value = translator.translate(arguments[0])
        check_comparable(value.type, node)
        if value.type == VOID:
            raise NotAnswered(f"`{show(node)}` of nulls")
        return Typed(call(name, value.sql), value.type)

    return translate


def _all_or_any(name: str) -> Translate:
    def translate(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
        _check_count(arguments, node, 1)
        return Typed(call(name, translator.translate_condition(arguments[0])), "boolean")

    return translate


def _count_if(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    _check_count(arguments, node, 1)
    condition = translator.translate_condition(arguments[0])
    return Typed(call("count", exp.Case(ifs=[exp.If(this=condition, true=number(1))])), "bigint")


def _count(translator: Translator, arguments: Sequence[exp.Expr], node: exp.Expr) -> Typed:
    (counted,) = arguments if len(arguments) == 1 else (None,)
    if isinstance(counted, exp.Star):
        return Typed(call("count", exp.Star()), "bigint")
    if isinstance(counted, exp.Distinct):
        if len(counted.expressions) != 1 or counted.args.get("on"):
            raise NotAnswered(f"`{show(node)}`")
        value = translator.translate(counted.expressions[0])
        check_groupable(value.type, node)
        return Typed(call("count", exp.Distinct(expressions=[value.sql])), "bigint")
    if counted is None:
        raise NotAnswered(f"`{show(node)}`")
    return Typed(call("count", translator.translate(counted).sql), "bigint")


def check_groupable(of_type: str, node: exp.Expr | None = None) -> None:
    """Raises NotAnswered for a type by whose values the engines are not known to group alike, as 0.0 and -0.0."""
    exact = get_precision_and_scale(of_type) is not None
    if not exact and of_type not in ("boolean", "string", "binary", *MOMENTS):
        where = "" if node is None else f"`{show(node)}`, "
        raise NotAnswered(f"{where}which groups or compares rows by values of the type {of_type}")


AGGREGATES: Mapping[str, Translate] = {
    "SUM": _sum,
    "AVG": _average,
    "MEAN": _average,
    "MIN": _extreme("min"),
    "MAX": _extreme("max"),
    "COUNT": _count,
    "COUNT_IF": _count_if,
    **dict.fromkeys(("BOOL_AND", "EVERY"), _all_or_any("bool_and")),
    **dict.fromkeys(("BOOL_OR", "SOME"), _all_or_any("bool_or")),
}


_CLASSES: Mapping[type[exp.Expr], str] = {
    exp.Sum: "SUM",
    exp.Avg: "AVG",
    exp.Min: "MIN",
    exp.Max: "MAX",
    exp.Count: "COUNT",
    exp.CountIf: "COUNT_IF",
    exp.LogicalAnd: "BOOL_AND",
    exp.LogicalOr: "BOOL_OR",
}
"""Names of the aggregates for which the parser has a class."""

_RANKS: Mapping[type[exp.Expr], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
}
_NEIGHBOURS: Mapping[type[exp.Expr], str] = {exp.Lag: "lag", exp.Lead: "lead"}


def _translate_aggregate(translator: Translator, node: exp.Expr) -> Typed:
    """Translates an aggregate; its value is cast to Spark's type, as DuckDB's sums are wider."""
    value = _translate_call(translator, node)
    return Typed(cast(value.sql, value.type), value.type)


def _translate_call(translator: Translator, node: exp.Expr) -> Typed:
    if isinstance(node, exp.Filter):
        value = _translate_call(translator, node.this)
        condition = translator.translate_condition(node.expression.this)
        return Typed(exp.Filter(this=value.sql, expression=exp.Where(this=condition)), value.type)
    name = node.name.upper() if isinstance(node, exp.Anonymous) else _CLASSES.get(type(node), "")
    if name not in AGGREGATES:
        raise NotAnswered(f"`{show(node)}`")
    arguments = node.expressions if isinstance(node, exp.Anonymous) else [node.this, *node.expressions]
    return AGGREGATES[name](translator, arguments, node)


def _translate_window(translator: Translator, node: exp.Window) -> Typed:
    """Translates a window function, whose rows need an order for which no value is a double."""
    value = _translate_window_call(translator, node.this)
    if value.type in INEXACT and not isinstance(node.this, exp.Lag | exp.Lead):
        raise NotAnswered(f"`{show(node)}`, whose sums of {value.type} depend on the order of rows")
    order, spec = node.args.get("order"), node.args.get("spec")
    partition = [_group_value(translator, part) for part in node.args.get("partition_by") or []]
    window = exp.Window(
        this=value.sql,
        partition_by=partition,
        order=None if order is None else translate_order(translator, order),
        spec=None if spec is None else _check_frame(spec, node),
        over="OVER",
    )
    return Typed(cast(window, value.type), value.type)


def _translate_window_call(translator: Translator, node: exp.Expr) -> Typed:
    if type(node) in _RANKS:
        return Typed(call(_RANKS[type(node)]), "int")
    if type(node) not in _NEIGHBOURS:
        return _translate_call(translator, node)
    if node.args.get("default") is not None or node.expressions:
        raise NotAnswered(f"`{show(node)}` with a default")
    value = translator.translate(node.this)
    offset = node.args.get("offset")
    places = [] if offset is None else [number(_read_literal_count(offset, node))]
    return Typed(call(_NEIGHBOURS[type(node)], value.sql, *places), value.type)


def _group_value(translator: Translator, part: exp.Expr) -> exp.Expr:
    value = translator.translate(part)
    check_groupable(value.type, part)
    return value.sql


def _check_frame(spec: exp.WindowSpec, node: exp.Window) -> exp.WindowSpec:
    if spec.args.get("kind") != "ROWS" or spec.args.get("exclude"):
        raise NotAnswered(f"`{show(node)}`, whose frame is no range of ROWS")
    for bound in (spec.args.get("start"), spec.args.get("end")):
        if isinstance(bound, exp.Expr) and not (isinstance(bound, exp.Literal) and bound.is_int):
            raise NotAnswered(f"`{show(node)}`, whose frame has a bound that is no literal")
    return spec.copy()


_ORDER = ("desc", "nulls_first")


def translate_order(translator: Translator, order: exp.Order) -> exp.Order:
    """Translates ORDER BY; where it does not say where nulls go, they go where Spark puts them."""
    return exp.Order(expressions=[_translate_ordered(translator, part) for part in order.expressions])


def _translate_ordered(translator: Translator, part: exp.Expr) -> exp.Ordered:
    if not isinstance(part, exp.Ordered) or {name for name, value in part.args.items() if value} - {"this", *_ORDER}:
        raise NotAnswered(f"the order `{show(part)}`")
    value = translator.translate(part.this)
    check_comparable(value.type, part)
    is_descending = bool(part.args.get("desc"))
    key = value.sql
    if value.type in INEXACT:
        # DuckDB returns 0.0 for -0.0 if it orders rows by the column itself.
        key = exp.Add(this=exp.Paren(this=key), expression=cast(text("0"), value.type))
    return exp.Ordered(this=key, desc=is_descending, nulls_first=bool(part.args.get("nulls_first")))


def _translate_substring(translator: Translator, node: exp.Substring) -> Typed:
    parts = (node.this, node.args.get("start"), node.args.get("length"))
    return _substring(translator, [part for part in parts if part is not None], node)


_PARTS_OF_DATES = {"year", "quarter", "month", "day", "hour", "minute"}


def _translate_extract(translator: Translator, node: exp.Extract) -> Typed:
    part = node.name.lower()
    if part not in _PARTS_OF_DATES:
        raise NotAnswered(f"`{show(node)}`")
    return FUNCTIONS[part.upper()](translator, [node.expression], node)


KNOWN_ARGS.update(
    {
        exp.Count: frozenset({"big_int"}),
        exp.Window: frozenset({"partition_by", "order", "spec", "over"}),
        exp.Trim: frozenset({"position"}),
        exp.If: frozenset({"true", "false"}),
        exp.Substring: frozenset({"start", "length"}),
    }
)
TRANSLATIONS.update(
    {
        exp.Anonymous: _translate_anonymous,
        **dict.fromkeys((*_CLASSES, exp.Filter), _translate_aggregate),
        exp.Window: _translate_window,
        exp.Trim: _translate_trim,
        exp.If: _translate_if,
        exp.Substring: _translate_substring,
        exp.Extract: _translate_extract,
    }
)
