"""Conditions of the tests of single rows, and the two models into which they split a model: its table and quarantine.

A test is known by its macro, since the macro decides which rows it returns. Its arguments are texts that dbt writes
into the query of the test; they are written into the condition in the same way, so that both find the same rows.

Both models have the query of the model with one more condition, which is true for a row in one of the two and false in
the other. So each is maintained like any other model, and a row moves from one to the other when it begins or ceases to
pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from arctic_runtime.model.columns import is_same_name
from arctic_runtime.model.table import Model
from arctic_runtime.sql.spark_sql import ArcticSpark, write_sql
from arctic_runtime.sql.types import quote_field


@dataclass(frozen=True)
class RowCondition:
    """A test of single rows, by its name; `passes` is SQL over the model's columns, true or false and never null."""

    test: str
    passes: str


@dataclass(frozen=True)
class DeclaredTest:
    """A test of a model: its name, the id of its macro, its arguments as users wrote them, and its `where`, if any."""

    name: str
    macro: str
    arguments: Mapping[str, object]
    where: str | None = None


class _UnknownTestError(Exception):
    """Single rows do not decide the test, or it is not known how they do."""


def build_condition(test: DeclaredTest, key: Sequence[str] = ()) -> RowCondition | None:
    """Returns the condition of a test; None if single rows do not decide it, or if it is not known how they do.

    A test for nulls in one of the columns `key`, the primary key, has none, since a row without a key can't be stored.
    """
    known = _KNOWN_TESTS.get(test.macro)
    if known is None or set(test.arguments) - {"model", *known.arguments}:
        return None
    try:
        passes = known.build(test.arguments)
        if test.where is not None:
            passes = _OUTSIDE.format(where=_read_expression(test.where), passes=passes)
    except _UnknownTestError:
        return None
    tests_key = known.build is _pass_not_null and any(
        is_same_name(column, str(test.arguments["column_name"]).strip().strip("`")) for column in key
    )
    return None if tests_key else RowCondition(test.name, passes)


_OUTSIDE = "(NOT coalesce({where}, FALSE) OR {passes})"
_PASSES = "coalesce({passes}, TRUE)"
_NOT_NULL = "({column} IS NOT NULL)"
_IS_AMONG = "coalesce({column} IN ({values}), TRUE)"
_IS_NOT_AMONG = "coalesce({column} NOT IN ({values}), TRUE)"
_COMPARED = "coalesce({column} {operator} {limit}, TRUE)"
_HAS_TEXT = "coalesce({text} <> '', TRUE)"
_TRIMMED = "trim({text})"

Arguments = Mapping[str, object]


def _pass_not_null(arguments: Arguments) -> str:
    return _NOT_NULL.format(column=_read_column(arguments))


def _pass_accepted_values(arguments: Arguments) -> str:
    return _IS_AMONG.format(column=_read_column(arguments), values=_read_values(arguments))


def _pass_not_accepted_values(arguments: Arguments) -> str:
    return _IS_NOT_AMONG.format(column=_read_column(arguments), values=_read_values(arguments))


def _pass_expression(arguments: Arguments) -> str:
    """Returns the condition of an expression, which is the rest of a comparison if the test is that of a column."""
    column, text = arguments.get("column_name"), _read_text(arguments.get("expression"))
    return _PASSES.format(passes=_read_expression(text if column is None else f"{_read_text(column)} {text}"))


def _pass_range(arguments: Arguments) -> str:
    is_inclusive = _read_flag(arguments, "inclusive")
    limits = [
        (arguments.get(name), operator + ("=" if is_inclusive else ""))
        for name, operator in (("min_value", ">"), ("max_value", "<"))
    ]
    column = _read_column(arguments)
    compared = [
        _COMPARED.format(column=column, operator=operator, limit=_read_expression(str(limit)))
        for limit, operator in limits
        if limit is not None
    ]
    return f"({' AND '.join(compared)})" if compared else "TRUE"


def _pass_not_empty(arguments: Arguments) -> str:
    column = _read_column(arguments)
    is_trimmed = _read_flag(arguments, "trim_whitespace")
    return _HAS_TEXT.format(text=_TRIMMED.format(text=column) if is_trimmed else column)


@dataclass(frozen=True)
class _RowTest:
    """A test of single rows: the arguments that it may have, and the function that builds its condition."""

    arguments: frozenset[str]
    build: Callable[[Arguments], str]


_KNOWN_TESTS: Mapping[str, _RowTest] = {
    "macro.dbt.test_not_null": _RowTest(frozenset({"column_name"}), _pass_not_null),
    "macro.dbt.test_accepted_values": _RowTest(frozenset({"column_name", "values", "quote"}), _pass_accepted_values),
    "macro.dbt_utils.test_expression_is_true": _RowTest(frozenset({"column_name", "expression"}), _pass_expression),
    "macro.dbt_utils.test_accepted_range": _RowTest(
        frozenset({"column_name", "min_value", "max_value", "inclusive"}), _pass_range
    ),
    "macro.dbt_utils.test_not_accepted_values": _RowTest(
        frozenset({"column_name", "values", "quote"}), _pass_not_accepted_values
    ),
    "macro.dbt_utils.test_not_empty_string": _RowTest(frozenset({"column_name", "trim_whitespace"}), _pass_not_empty),
}

KNOWN_TESTS = tuple(_KNOWN_TESTS)
"""Ids of the macros of tests that single rows decide."""


def _read_column(arguments: Arguments) -> str:
    return _read_expression(_read_text(arguments.get("column_name")))


def _read_values(arguments: Arguments) -> str:
    """Returns the values of a list, each in quotes as dbt writes them, or as an expression with `quote: false`."""
    values = arguments.get("values")
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise _UnknownTestError
    if not _read_flag(arguments, "quote"):
        return ", ".join(_read_expression(str(value)) for value in values)
    return ", ".join(_read_literal(f"'{value}'") for value in values)


def _read_flag(arguments: Arguments, name: str) -> bool:
    """Returns a flag of a test, which is true if it is not given."""
    value = arguments.get(name, True)
    if not isinstance(value, bool):
        raise _UnknownTestError
    return value


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise _UnknownTestError
    return value


def _read_literal(text: str) -> str:
    if not isinstance(_parse_expression(text), exp.Literal):
        raise _UnknownTestError
    return text


def _read_expression(text: str) -> str:
    """Returns a text of SQL in parentheses; raises _UnknownTestError if it is not one expression, or has Jinja."""
    _parse_expression(text)
    return f"({text.strip()}\n)" if "--" in text else f"({text.strip()})"


def _parse_expression(text: str) -> exp.Expr:
    """Parses one expression; raises _UnknownTestError for any other text.

    The text is parsed in parentheses, as it is written, so that it can't end these and go on.
    """
    if any(mark in text for mark in ("{{", "{%", "{#")):
        raise _UnknownTestError
    try:
        statements = sqlglot.parse(f"SELECT (\n{text}\n)", dialect=ArcticSpark)
    except (SqlglotError, RecursionError) as error:
        raise _UnknownTestError from error
    query = statements[0] if len(statements) == 1 else None
    parts = {name for name, value in query.args.items() if value} if isinstance(query, exp.Select) else set()
    if query is None or parts != {"expressions"} or len(query.expressions) != 1:
        raise _UnknownTestError
    (parsed,) = query.expressions
    if not isinstance(parsed, exp.Paren):
        raise _UnknownTestError
    inner: exp.Expr = parsed.this
    return inner


FAILED_TESTS = "_failed_tests"
"""Column of a quarantine with the names of the tests that a row fails, sorted, as an array of texts."""

_SPLIT = "SELECT {columns} FROM (\n{query}\n) AS {name} WHERE {condition}"
_FAILED = "*, array_compact(array({names})) AS {column}"
_NAME = "CASE WHEN NOT {passes} THEN {test} END"
_NO_NAME = "CAST(NULL AS STRING)"


def split_model(model: Model, conditions: Sequence[RowCondition]) -> Model:
    """Returns the model of the rows that pass all tests, whose `quarantine` is the model of the other rows.

    A model without `on_failed_row: quarantine` is returned as it is.
    """
    if model.config.on_failed_row != "quarantine":
        return model
    tests = sorted(conditions, key=lambda condition: condition.test)
    # In another order than that of the names, so that a new name of a test does not change the query of the table.
    passes = " AND ".join(sorted({test.passes for test in tests})) or "TRUE"
    names = ", ".join(_NAME.format(passes=test.passes, test=write_sql(exp.Literal.string(test.test))) for test in tests)
    failed = _FAILED.format(names=names or _NO_NAME, column=quote_field(FAILED_TESTS))
    # What a contract promises is about the rows that pass.
    quarantine = replace(
        model,
        table=model.table.quarantine,
        sql=_split_query(model, failed, f"NOT ({passes})"),
        config=replace(model.config, on_failed_row="hold", current_view=False, changes_view=False),
        not_null=(),
        checks=(),
        contract=(),
        comment=None,
        may_replace=False,
        tested_table=model.table,
    )
    return replace(model, sql=_split_query(model, "*", passes), quarantine=quarantine)


def list_parts(models: Iterable[Model]) -> tuple[Model, ...]:
    """Returns the models with their quarantines."""
    return tuple(part for model in models for part in model.parts)


def _split_query(model: Model, columns: str, condition: str) -> str:
    """Returns the query with another select list and a condition; "" for a model without its query.

    Its rows have the name of the table, by which tests may qualify columns.
    """
    if not model.sql:
        return ""
    return _SPLIT.format(columns=columns, query=model.sql, name=quote_field(model.table.name), condition=condition)
