"""Translates expressions of Spark's SQL to DuckDB's, with Spark's types: only what has the same value in both.

The types decide: a function or an operator is translated for the types for which both engines are known to agree, and
NotAnswered is raised for all others. An error of Spark, such as for a division by zero, is an error of DuckDB too.
`tests/spark/query/test_same_answers.py` compares both engines over edge values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from arctic_runtime.ivm.algebra.inferred_types import type_of
from arctic_runtime.ivm.algebra.numbers import (
    find_exact_type,
    get_precision_and_scale,
    infer_addition_type,
    infer_product_type,
    is_integer,
    to_decimal_type,
)
from arctic_runtime.query.duckdb_types import call, cast, column, number, text
from arctic_runtime.query.refusal import BY_SPARK, NotAnswered
from arctic_runtime.query.times import read_date, read_timestamp
from arctic_runtime.sql.spark_sql import WRITTEN
from arctic_runtime.sql.types import Struct, read_type, type_text

VOID = "void"
INEXACT = ("float", "double")
MOMENTS = ("date", "timestamp", "timestamp_ntz")
_COMPARED = ("boolean", "string", "binary", *INEXACT, *MOMENTS)


@dataclass(frozen=True)
class Typed:
    """An expression of DuckDB and the type of its value, as Spark writes it.

    `literal` is the text of a string literal, which Spark converts to another type where it is compared with one.
    """

    sql: exp.Expr
    type: str
    literal: str | None = None

    @property
    def is_exact(self) -> bool:
        """Whether the value is a whole number or a decimal."""
        return get_precision_and_scale(self.type) is not None


def show(node: exp.Expr) -> str:
    """Returns the beginning of an expression of the query, for an error, with the names of its columns."""
    shown = node.copy()
    for part in shown.find_all(exp.Column):
        part.this.set("this", part.name.partition("#")[0])
    return shown.sql(dialect="spark").replace("`", "")[:80]


class Translator:
    """Translates expressions over columns whose types are `types`; `is_utc` says that the session's zone is UTC."""

    def __init__(self, types: Mapping[str, str], is_utc: bool = True) -> None:
        self.types = types
        self.is_utc = is_utc

    def translate(self, node: exp.Expr) -> Typed:
        """Translates an expression; raises NotAnswered for one that may have another value in DuckDB."""
        translate = TRANSLATIONS.get(type(node))
        known = {"this", "expression", "expressions", WRITTEN} | KNOWN_ARGS.get(type(node), frozenset())
        if translate is None or {name for name, value in node.args.items() if value} - known:
            raise NotAnswered(f"`{show(node)}`")
        return translate(self, node)

    def translate_condition(self, node: exp.Expr) -> exp.Expr:
        """Translates a condition, which is a boolean."""
        return self.require(self.translate(node), "boolean", node).sql

    def require(self, value: Typed, of_type: str, node: exp.Expr) -> Typed:
        """Returns `value` if it has the type, or is null; raises NotAnswered otherwise."""
        if value.type == VOID:
            return Typed(cast(value.sql, of_type), of_type)
        if value.type != of_type:
            raise NotAnswered(f"`{show(node)}`, which has the type {value.type} where {of_type} is needed")
        return value

    def require_utc(self, node: exp.Expr) -> None:
        """Raises NotAnswered unless the session's time zone is UTC, for what depends on it."""
        if not self.is_utc:
            raise NotAnswered(f"`{show(node)}`, which depends on the time zone of the session")

    def bring_together(self, values: Sequence[Typed], node: exp.Expr) -> list[Typed]:
        """Converts values to the one type to which Spark converts them; raises NotAnswered if it is not certain."""
        of_types = {value.type for value in values} - {VOID}
        moments = of_types & {*MOMENTS}
        if len(moments) == 1 and of_types - moments == {"string"}:
            moment = moments.pop()
            values = [self._read_moment(value, moment, node) if value.type == "string" else value for value in values]
            of_types = {moment}
        common = self._find_common_type(of_types, node)
        return [self.convert(value, common, node) for value in values]

    def _read_moment(self, value: Typed, moment: str, node: exp.Expr) -> Typed:
        if value.literal is None:
            raise NotAnswered(f"`{show(node)}`, which converts a text to a {moment}; cast it")
        return self.read_literal(value.literal, moment, node)

    def read_literal(self, literal: str, moment: str, node: exp.Expr) -> Typed:
        """Reads a date or a time from a text, in the forms that both engines read in the same way."""
        if moment == "timestamp":
            self.require_utc(node)
        written = read_date(literal) if moment == "date" else read_timestamp(literal, moment == "timestamp")
        if written is None:
            raise NotAnswered(
                f"`{show(node)}`: '{literal}' is no {moment} in the form 2024-01-31 or 2024-01-31 23:59:59"
            )
        return Typed(cast(text(written), moment), moment)

    def _find_common_type(self, of_types: set[str], node: exp.Expr) -> str:
        if not of_types:
            return VOID
        if len(of_types) == 1:
            return next(iter(of_types))
        exact = {of_type for of_type in of_types if get_precision_and_scale(of_type)}
        common = find_exact_type(sorted(exact)) if exact == of_types else None
        if common is None and of_types - exact in ({"double"}, {"float", "double"}):
            common = "double"
        if common is None and of_types == {"date", "timestamp"}:
            self.require_utc(node)
            common = "timestamp"
        if common is None:
            raise NotAnswered(f"`{show(node)}`, which converts {' and '.join(sorted(of_types))}; cast one of them")
        return common

    def convert(self, value: Typed, wanted: str, node: exp.Expr) -> Typed:
        """Converts a value to a type; raises NotAnswered if the engines are not known to convert it alike."""
        own = value.type
        if own == wanted:
            return value
        if own == VOID:
            return value if wanted == VOID else Typed(cast(value.sql, wanted), wanted)
        if value.literal is not None and wanted in MOMENTS:
            return self.read_literal(value.literal, wanted, node)
        if wanted == "string":
            return Typed(self._write_text(value, node), wanted)
        if value.is_exact and get_precision_and_scale(wanted) is not None:
            return self._convert_number(value, wanted, node)
        if wanted == "double" and own.startswith("decimal"):
            # DuckDB divides the digits by a power of ten, which may miss the nearest double by its last bit.
            return Typed(cast(cast(value.sql, "string"), wanted), wanted)
        if wanted == "double" and (own == "float" or value.is_exact):
            return Typed(cast(value.sql, wanted), wanted)
        if own in MOMENTS and wanted in MOMENTS:
            if "timestamp" in (own, wanted):
                self.require_utc(node)
            return Typed(cast(value.sql, wanted), wanted)
        raise NotAnswered(f"`{show(node)}`, which converts {own} to {wanted}")

    def _convert_number(self, value: Typed, wanted: str, node: exp.Expr) -> Typed:
        if is_integer(wanted) and not is_integer(value.type):
            raise NotAnswered(f"`{show(node)}`, which converts {value.type} to {wanted}")
        return Typed(cast(value.sql, wanted), wanted)

    def _write_text(self, value: Typed, node: exp.Expr) -> exp.Expr:
        written = cast(value.sql, "string")
        precision, scale = get_precision_and_scale(value.type) or (0, -1)
        if precision == scale:  # DuckDB writes 0.5 as `.5` if the type has no digit before the point.
            wider = to_decimal_type(precision + 1, scale)
            if wider is None:
                raise NotAnswered(f"`{show(node)}`, which writes a {value.type} as text")
            return cast(cast(value.sql, wider), "string")
        if value.is_exact or value.type == "boolean":
            return written
        if value.type == "date":
            first, last = (cast(text(day), "date") for day in ("0001-01-01", "9999-12-31"))
            is_usual = exp.Between(this=value.sql.copy(), low=first, high=last)
            return guard(is_usual, written, f"{show(node)}: a year outside of 1 to 9999", value.sql)
        raise NotAnswered(f"`{show(node)}`, which writes a {value.type} as text")


def guard(condition: exp.Expr, value: exp.Expr, message: str, *nullable: exp.Expr) -> exp.Expr:
    """Builds `value` where the condition is true or one of `nullable` is null, and an error of the query elsewhere."""
    branches = [exp.If(this=exp.Is(this=part.copy(), expression=exp.Null()), true=exp.Null()) for part in nullable]
    failed = call("error", text(f"{message}; {BY_SPARK}"))
    return exp.Case(ifs=[*branches, exp.If(this=condition, true=value)], default=failed)


def _column(translator: Translator, node: exp.Column) -> Typed:
    if node.table or node.name not in translator.types:
        raise NotAnswered(f"`{show(node)}`")
    return Typed(column(node.name), translator.types[node.name])


def _literal(translator: Translator, node: exp.Literal) -> Typed:
    if node.is_string:
        if "\\" in (node.args.get(WRITTEN) or ""):
            raise NotAnswered(f"the text {show(node)} with a backslash")
        return Typed(text(node.name), "string", node.name)
    of_type = type_of(node, translator.types)
    if of_type is not None and of_type not in ("int", "bigint", "double") and not of_type.startswith("decimal"):
        raise NotAnswered(f"the literal {node.name}")
    if of_type in ("int", "bigint"):
        return Typed(cast(number(int(node.name.rstrip("lL"))), of_type), of_type)
    if of_type is None and node.name.isdecimal():
        of_type = to_decimal_type(len(str(int(node.name))), 0)
    if of_type is not None and of_type != "double":
        return Typed(cast(text(node.name), of_type), of_type)
    return Typed(cast(text(repr(_read_double(node.name))), "double"), "double")


def _read_double(written: str) -> float:
    try:
        return float(written.rstrip("dD"))
    except ValueError:
        raise NotAnswered(f"the literal {written}") from None


def _negative(translator: Translator, node: exp.Neg) -> Typed:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        of_type = type_of(node, translator.types)
        if of_type in ("int", "bigint"):
            return Typed(cast(number(-int(node.this.name.rstrip("lL"))), of_type), of_type)
    value = translator.translate(node.this)
    if not value.is_exact and value.type not in INEXACT:
        raise NotAnswered(f"`{show(node)}` of {value.type}")
    return Typed(cast(exp.Paren(this=exp.Neg(this=exp.Paren(this=value.sql))), value.type), value.type)


def _paren(translator: Translator, node: exp.Paren) -> Typed:
    value = translator.translate(node.this)
    return Typed(exp.Paren(this=value.sql), value.type, value.literal)


def _add(translator: Translator, node: exp.Add | exp.Sub) -> Typed:
    left, right = (translator.translate(side) for side in (node.this, node.expression))
    if left.type == "date" and right.type == "int":
        return Typed(cast(type(node)(this=left.sql, expression=right.sql), "date"), "date")
    return _arithmetic(translator, node, left, right)


def _arithmetic(translator: Translator, node: exp.Binary, left: Typed, right: Typed) -> Typed:
    if left.is_exact and right.is_exact:
        of_type = _infer_exact_type(translator, node)
        # DuckDB computes decimals of up to 18 digits in 64 bits, without room for more unless the types say so.
        wanted = (of_type, of_type)
        if isinstance(node, exp.Mul) and not is_integer(of_type):
            wanted = _list_factor_types(node, left, right)
        left, right = (translator.convert(side, kind, node) for side, kind in zip((left, right), wanted, strict=True))
    else:
        left, right = translator.bring_together((left, right), node)
        of_type = left.type
        if of_type not in INEXACT:
            raise NotAnswered(f"`{show(node)}` of {of_type}")
    return Typed(cast(exp.Paren(this=type(node)(this=left.sql, expression=right.sql)), of_type), of_type)


def _infer_exact_type(translator: Translator, node: exp.Binary) -> str:
    of_type = _infer(node, translator)
    if of_type is None:
        raise NotAnswered(f"`{show(node)}`, whose decimals may need more than 38 digits")
    return of_type


def _infer(node: exp.Binary, translator: Translator) -> str | None:
    """Infers the type of a sum, difference or product; a literal in it counts with its own digits, as in Spark."""
    sides = [side.unnest() for side in (node.this, node.expression)]
    of_types = [translator.translate(side).type for side in sides]
    if all(map(is_integer, of_types)):
        return find_exact_type(of_types)
    digits = [_count_digits(side, of_type) for side, of_type in zip(sides, of_types, strict=True)]
    infer = infer_product_type if isinstance(node, exp.Mul) else infer_addition_type
    return infer(digits[0], digits[1])


_SHORT_DIGITS = 18


def _list_factor_types(node: exp.Mul, left: Typed, right: Typed) -> tuple[str, str]:
    """Returns the types of decimals by which DuckDB multiplies in 128 bits, if the product may need these."""
    one, scale = _count_digits(node.this.unnest(), left.type)
    other, other_scale = _count_digits(node.expression.unnest(), right.type)
    if max(one, other) <= _SHORT_DIGITS < one + other:
        one = _SHORT_DIGITS + 1
    return f"decimal({one},{scale})", f"decimal({other},{other_scale})"


def _count_digits(side: exp.Expr, of_type: str) -> tuple[int, int]:
    literal = side.this if isinstance(side, exp.Neg) else side
    if is_integer(of_type) and isinstance(literal, exp.Literal):
        return len(str(int(literal.name.rstrip("lL")))), 0
    counted = get_precision_and_scale(of_type)
    assert counted is not None
    return counted


def _multiply(translator: Translator, node: exp.Mul) -> Typed:
    return _arithmetic(translator, node, translator.translate(node.this), translator.translate(node.expression))


def _divide(translator: Translator, node: exp.Div) -> Typed:
    """Translates `/`, which divides whole numbers as doubles; the engines divide decimals otherwise."""
    sides = [translator.translate(side) for side in (node.this, node.expression)]
    if any(side.type.startswith("decimal") for side in sides) and not any(side.type == "double" for side in sides):
        raise NotAnswered(f"`{show(node)}`, a division of decimals; cast one of them to double")
    if any(side.type == "float" for side in sides) or not all(side.is_exact or side.type == "double" for side in sides):
        raise NotAnswered(f"`{show(node)}` of {sides[0].type} and {sides[1].type}")
    left, right = (translator.convert(side, "double", node) for side in sides)
    return Typed(_over_nonzero(left, right, exp.Div(this=left.sql, expression=right.sql, safe=True), node), "double")


def _divide_whole(translator: Translator, node: exp.Expr) -> Typed:
    """Translates `div`, whose result is a bigint, and `%`, for whole numbers."""
    left, right = (translator.translate(side) for side in (node.this, node.expression))
    if not (is_integer(left.type) and is_integer(right.type)):
        raise NotAnswered(f"`{show(node)}` of {left.type} and {right.type}")
    is_modulo = isinstance(node, exp.Mod)
    of_type = str(find_exact_type([left.type, right.type])) if is_modulo else "bigint"
    left, right = (translator.convert(side, of_type, node) for side in (left, right))
    divided = call("mod" if is_modulo else "divide", left.sql, right.sql)
    return Typed(_over_nonzero(left, right, divided, node), of_type)


def _over_nonzero(left: Typed, right: Typed, divided: exp.Expr, node: exp.Expr) -> exp.Expr:
    is_nonzero = exp.NEQ(this=exp.Paren(this=right.sql.copy()), expression=number(0))
    return guard(is_nonzero, divided, f"{show(node)}: division by zero", left.sql, right.sql)


def _compare(translator: Translator, node: exp.Binary) -> Typed:
    sides = [translator.translate(side) for side in (node.this, node.expression)]
    left, right = translator.bring_together(sides, node)
    check_comparable(left.type, node)
    return Typed(type(node)(this=exp.Paren(this=left.sql), expression=exp.Paren(this=right.sql)), "boolean")


def check_comparable(of_type: str, node: exp.Expr) -> None:
    """Raises NotAnswered for a type whose values the engines are not known to compare and to order alike."""
    if of_type not in (*_COMPARED, VOID) and get_precision_and_scale(of_type) is None:
        raise NotAnswered(f"`{show(node)}`, which compares values of the type {of_type}")


def _connect(translator: Translator, node: exp.And | exp.Or) -> Typed:
    """Translates a chain of AND or OR, which may be long, without a recursion for each part."""
    parts: list[exp.Expr] = []
    rest: exp.Expr = node
    while type(rest) is type(node):
        parts.append(translator.translate_condition(rest.expression))
        rest = rest.this
    connected = translator.translate_condition(rest)
    for part in reversed(parts):
        connected = type(node)(this=exp.Paren(this=connected), expression=exp.Paren(this=part))
    return Typed(connected, "boolean")


def _negate(translator: Translator, node: exp.Not) -> Typed:
    return Typed(exp.Not(this=exp.Paren(this=translator.translate_condition(node.this))), "boolean")


def _is(translator: Translator, node: exp.Is) -> Typed:
    value = translator.translate(node.this)
    if isinstance(node.expression, exp.Boolean):
        value = translator.require(value, "boolean", node)
    elif not isinstance(node.expression, exp.Null):
        raise NotAnswered(f"`{show(node)}`")
    return Typed(exp.Is(this=exp.Paren(this=value.sql), expression=node.expression.copy()), "boolean")


def _in(translator: Translator, node: exp.In) -> Typed:
    values = [translator.translate(part) for part in (node.this, *node.expressions)]
    value, *options = translator.bring_together(values, node)
    check_comparable(value.type, node)
    return Typed(exp.In(this=exp.Paren(this=value.sql), expressions=[option.sql for option in options]), "boolean")


def _between(translator: Translator, node: exp.Between) -> Typed:
    low = exp.GTE(this=node.this, expression=node.args["low"])
    high = exp.LTE(this=node.this, expression=node.args["high"])
    return _connect(translator, exp.And(this=low, expression=high))


def _like(translator: Translator, node: exp.Like) -> Typed:
    value = translator.require(translator.translate(node.this), "string", node)
    pattern = translator.translate(node.expression)
    if pattern.literal is None or "\\" in pattern.literal:
        raise NotAnswered(f"`{show(node)}`, whose pattern is no literal or has a backslash")
    matches = exp.Like(this=exp.Paren(this=value.sql), expression=pattern.sql)
    return Typed(exp.Not(this=exp.Paren(this=matches)) if node.args.get("negate") else matches, "boolean")


def _case(translator: Translator, node: exp.Case) -> Typed:
    branches = node.args["ifs"]
    conditions = [part.this if node.this is None else exp.EQ(this=node.this, expression=part.this) for part in branches]
    default = node.args.get("default") or exp.Null()
    values = translator.bring_together(
        [*(translator.translate(part.args["true"]) for part in branches), translator.translate(default)], node
    )
    ifs = [
        exp.If(this=translator.translate_condition(condition), true=value.sql)
        for condition, value in zip(conditions, values[:-1], strict=True)
    ]
    return Typed(exp.Case(ifs=ifs, default=values[-1].sql), values[0].type)


def _coalesce(translator: Translator, node: exp.Coalesce) -> Typed:
    parts = (node.this, *node.expressions)
    values = translator.bring_together([translator.translate(part) for part in parts], node)
    return Typed(call("coalesce", *(value.sql for value in values)), values[0].type)


def _cast(translator: Translator, node: exp.Cast) -> Typed:
    """Translates CAST, for which the parser has the class of TRY_CAST, marked as not safe."""
    value = translator.translate(node.this)
    wanted = type_of(node, translator.types)
    return translator.convert(value, str(wanted), node)


def _dot(translator: Translator, node: exp.Dot) -> Typed:
    value = translator.translate(node.this)
    kind = read_type(value.type)
    if not isinstance(kind, Struct) or not isinstance(node.expression, exp.Identifier):
        raise NotAnswered(f"`{show(node)}`")
    fields = [(name, part) for name, part in kind.fields if name.lower() == node.expression.name.lower()]
    if len(fields) != 1:
        raise NotAnswered(f"`{show(node)}`, which is no single field")
    name, part = fields[0]
    return Typed(call("struct_extract", value.sql, text(name)), type_text(part))


def _concatenate(translator: Translator, node: exp.DPipe) -> Typed:
    sides = [translator.require(translator.translate(side), "string", node) for side in (node.this, node.expression)]
    return Typed(exp.DPipe(this=exp.Paren(this=sides[0].sql), expression=exp.Paren(this=sides[1].sql)), "string")


KNOWN_ARGS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Like: frozenset({"negate"}),
    exp.Between: frozenset({"low", "high"}),
    exp.Case: frozenset({"ifs", "default"}),
    **dict.fromkeys((exp.Cast, exp.TryCast), frozenset({"to"})),
    exp.Literal: frozenset({"is_string"}),
    **dict.fromkeys((exp.Div, exp.IntDiv), frozenset({"typed", "safe"})),
}
"""Arguments of expressions that their translations read; an expression with any other argument is refused."""

TRANSLATIONS: dict[type[exp.Expr], Callable[[Translator, Any], Typed]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Null: lambda _, __: Typed(exp.Null(), VOID),
    exp.Boolean: lambda _, node: Typed(node.copy(), "boolean"),
    exp.Paren: _paren,
    exp.Neg: _negative,
    exp.Add: _add,
    exp.Sub: _add,
    exp.Mul: _multiply,
    exp.Div: _divide,
    exp.IntDiv: _divide_whole,
    exp.Mod: _divide_whole,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE), _compare),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _compare),
    exp.And: _connect,
    exp.Or: _connect,
    exp.Not: _negate,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.Case: _case,
    exp.Coalesce: _coalesce,
    **dict.fromkeys((exp.Cast, exp.TryCast), _cast),
    exp.Dot: _dot,
    exp.DPipe: _concatenate,
}
"""The translation of each kind of expression; `functions` adds calls of functions."""
