"""Splits a model by the tests of its rows: into the rows that pass, and a model of the rows that fail, its quarantine.

Both have the query of the model with one more condition, which is true for a row in one of the two and false in the
other. So each is maintained like any other model, and a row moves from one to the other when it begins or ceases to
pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from arctic_runtime.model.row_condition import RowCondition
from arctic_runtime.model.table import Model
from arctic_runtime.sql.spark_sql import write_sql
from arctic_runtime.sql.types import quote_field

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
    names = ", ".join(_NAME.format(passes=test.passes, test=_quote_text(test.test)) for test in tests)
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


def _quote_text(text: str) -> str:
    return write_sql(exp.Literal.string(text))
