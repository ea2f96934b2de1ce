"""The registry of aggregate functions: complete, and in accord with the parser, with the state, and with DuckDB."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from typing import Any, get_args, get_type_hints

import pytest
from sqlglot import exp
from sqlglot.errors import SqlglotError

from arctic_runtime.ivm.algebra.aggregate_functions import (
    AGGREGATE_FUNCTIONS,
    AggregateFunction,
    find_aggregate_function,
    get_first_argument,
)
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY
from arctic_runtime.ivm.frontend.functions import (
    check_functions,
    get_value_over_no_rows,
    is_aggregate,
    parse_query,
    read_sql,
)
from arctic_runtime.ivm.frontend.reads import AGGREGATES, WINDOW_FUNCTIONS
from arctic_runtime.ivm.strategies.aggregates import StateColumns, build_extreme, express_by_state
from arctic_runtime.sql.spark_sql import Parser
from tests.unit.ivm import duck

BY_NAME = {function.name: function for function in AGGREGATE_FUNCTIONS}
ARGUMENTS = ("a", "a, b", "a, b, c")
OF_ONE_ARGUMENT = {"ARRAY_AGG", "COLLECT_LIST", "FIRST", "LAST", "MAX", "MIN"}
"""Functions that the parser also reads with arguments that Spark refuses."""

KEPT = [function for function in AGGREGATE_FUNCTIONS if function.state is not None]


def for_each(functions: Iterable[AggregateFunction]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("function", [pytest.param(function, id=function.name) for function in functions])


def parse_call(text: str) -> exp.Expr:
    return parse_query(f"select {text}").expressions[0]


def parse_calls(name: str) -> Iterator[tuple[str, exp.Expr]]:
    """Calls of a function, with the text of their arguments, as far as the parser reads them."""
    for arguments in ARGUMENTS[: 1 if name in OF_ONE_ARGUMENT else None]:
        try:
            (query,) = read_sql(f"select {name}({arguments})")
        except (NotMaintained, SqlglotError):
            continue
        assert isinstance(query, exp.Select)
        yield arguments, query.selects[0]


def is_accepted(call: exp.Expr) -> bool:
    try:
        check_functions(call)
    except NotMaintained:
        return False
    return is_aggregate(call)


def test_each_aggregate_that_the_frontend_accepts_has_an_entry() -> None:
    names = AGGREGATES | set(Parser.FUNCTIONS)
    calls = {name: call for name in names - WINDOW_FUNCTIONS for _, call in parse_calls(name) if is_accepted(call)}
    assert len(calls) > 60
    assert [name for name, call in calls.items() if find_aggregate_function(call) is None] == []


def test_no_two_entries_have_one_name() -> None:
    assert len(BY_NAME) == len(AGGREGATE_FUNCTIONS)


def test_names_of_one_class_have_the_same_facts() -> None:
    for function in AGGREGATE_FUNCTIONS:
        if function.expression is not None:
            other = find_aggregate_function(function.expression())
            assert other is not None
            assert {**vars(other), "name": function.name} == vars(function)


@pytest.mark.parametrize("field", [field.name for field in fields(AggregateFunction)])
def test_an_entry_without_a_field_is_refused(field: str) -> None:
    facts = {name: value for name, value in vars(BY_NAME["SUM"]).items() if name != field}
    with pytest.raises(TypeError, match=field):
        AggregateFunction(**facts)


def test_no_field_has_a_default() -> None:
    assert all(field.default is field.default_factory is MISSING for field in fields(AggregateFunction))


@for_each(AGGREGATE_FUNCTIONS)
def test_each_fact_has_a_known_value(function: AggregateFunction) -> None:
    hints = get_type_hints(AggregateFunction)
    for name in ("over_no_rows", "answers"):
        assert getattr(function, name) in get_args(hints[name])
    for name in ("one_answer_if", "state"):
        assert getattr(function, name) in {None, *(value for part in get_args(hints[name]) for value in get_args(part))}
    for name in ("is_never_null", "ignores_row_order", "is_masking"):
        assert isinstance(getattr(function, name), bool)
    assert function.name == function.name.upper()


@for_each(AGGREGATE_FUNCTIONS)
def test_facts_do_not_contradict_each_other(function: AggregateFunction) -> None:
    assert not function.is_never_null or function.over_no_rows == "zero"
    assert function.one_answer_if is None or function.answers != "one"
    assert function.answers == "many" or not (function.one_answer_if or "").startswith("unique_")
    assert function.state is None or (function.over_no_rows != "unknown" and function.answers != "many")
    assert not function.is_masking or (function.infer_type is not None and function.infer_type("string") == "bigint")


@for_each(AGGREGATE_FUNCTIONS)
def test_a_call_is_parsed_as_the_entry_says_and_keeps_its_arguments(function: AggregateFunction) -> None:
    for arguments, call in parse_calls(function.name):
        if isinstance(call, exp.Any):
            continue
        assert type(call) is (function.expression or exp.Anonymous)
        assert call.sql(dialect="spark").partition("(")[2] == f"{arguments})"
        argument = get_first_argument(call)
        assert argument is not None
        assert argument.name == "a"


def test_what_is_no_aggregate_function_has_no_entry() -> None:
    for text in ("upper(a)", "something(a)", "row_number() over (order by a)", "a + 1", "sum(a) over ()"):
        assert find_aggregate_function(parse_call(text)) is None


@for_each(AGGREGATE_FUNCTIONS)
def test_state_is_used_exactly_if_the_entry_names_it(function: AggregateFunction) -> None:
    calls = [call for arguments, call in parse_calls(function.name) if arguments == "a"]
    values = [
        express_by_state(call, StateColumns("n", {"a": "decimal(20,2)"}, frozenset(), is_one=True)) for call in calls
    ]
    assert (function.state is not None) == any(value is not None for value in values)


SUM_TYPES = {
    "int": "bigint",
    "decimal(12,2)": "decimal(22,2)",
    "decimal(38,2)": "decimal(38,2)",
    "float": "double",
    "double": "double",
    "string": None,
    None: None,
}


@pytest.mark.parametrize(("of_type", "expected"), SUM_TYPES.items())
def test_a_sum_is_wider_than_its_argument(of_type: str | None, expected: str | None) -> None:
    infer_type = BY_NAME["SUM"].infer_type
    assert infer_type is not None
    assert infer_type(of_type) == expected


CON = duck.connect()


def list_duckdb_functions() -> list[AggregateFunction]:
    """The functions that DuckDB has under Spark's name; those of windows alone and of sketches are left out."""
    query = "select function_name from duckdb_functions() where function_type = 'aggregate'"
    names = {name.upper() for (name,) in CON.execute(query).fetchall()} - {"APPROX_TOP_K", "FIRST_VALUE", "LAST_VALUE"}
    return [function for function in AGGREGATE_FUNCTIONS if function.name in names]


IN_DUCKDB = list_duckdb_functions()

PAIRS = [name for name in BY_NAME if name.startswith(("CORR", "COVAR_", "REGR_")) or name.endswith("_BY")]
OTHER_CALLS = {
    **{name: f"{name}(x, i)" for name in PAIRS},
    **{name: f"{name}(i)" for name in ("BIT_AND", "BIT_OR", "BIT_XOR")},
    **{name: f"{name}(b)" for name in ("BOOL_AND", "BOOL_OR")},
    "COUNT_IF": "count(nullif(b, false))",
}
"""Calls with other arguments than one number. The `count_if` of Spark is a count; that of DuckDB is a sum."""

ROWS = (
    "(0.1, 3, true)",
    "(0.7, 5, false)",
    "(0.2, 2, true)",
    "(null, null, null)",
    "(12345.6, 4, true)",
    "(0.1, 3, true)",
)
NULLS = ("(null, null, null)",) * 2


def write_source(rows: Iterable[str], of_type: str) -> str:
    """A query of some rows in their order; `of_type` is the type of the number `x`."""
    values = ", ".join(["(0, 0, null)", *rows])
    return f"select x::{of_type} as x, i::int as i, b::boolean as b from (values {values}) as v (x, i, b) offset 1"


def aggregate(function: AggregateFunction, rows: Iterable[str], of_type: str = "double") -> Any:
    """The value over rows in DuckDB."""
    call = OTHER_CALLS.get(function.name, f"{function.name}(x)")
    (row,) = CON.execute(f"select {call} from ({write_source(rows, of_type)})").fetchall()
    return row[0]


def test_duckdb_has_most_functions() -> None:
    assert len(IN_DUCKDB) > 40


@for_each(function for function in IN_DUCKDB if function.over_no_rows != "unknown")
def test_the_value_over_no_rows_and_over_nulls_is_that_of_duckdb(function: AggregateFunction) -> None:
    expected = {"zero": 0, "null": None}[function.over_no_rows]
    assert aggregate(function, ()) == expected
    assert aggregate(function, NULLS) == expected


@for_each(function for function in IN_DUCKDB if function.is_never_null)
def test_a_value_that_is_never_null_is_not_null_in_duckdb(function: AggregateFunction) -> None:
    assert None not in (aggregate(function, ()), aggregate(function, NULLS), aggregate(function, ROWS))


@for_each(AGGREGATE_FUNCTIONS)
def test_the_frontend_takes_the_value_over_no_rows_from_the_entry(function: AggregateFunction) -> None:
    expected = {"zero": exp.Literal.number(0), "null": exp.Null(), "unknown": None}[function.over_no_rows]
    calls = [call for _, call in parse_calls(function.name)]
    assert [get_value_over_no_rows(call) for call in calls] == [expected] * len(calls)


@for_each(KEPT)
def test_nulls_change_no_value_that_is_computed_from_state(function: AggregateFunction) -> None:
    assert aggregate(function, ROWS) == aggregate(function, [row for row in ROWS if row not in NULLS])


@for_each(IN_DUCKDB)
def test_the_order_of_rows_changes_as_little_as_the_entry_says(function: AggregateFunction) -> None:
    orders = [ROWS[place:] + ROWS[:place] for place in range(len(ROWS))]
    orders += [order[::-1] for order in orders]
    is_one = function.answers == "one" or function.one_answer_if == "type_with_one_zero"
    if is_one or function.one_answer_if in ("exact_argument", "exactly_averaged_type"):
        assert len({aggregate(function, order, "double" if is_one else "decimal(20, 2)") for order in orders}) == 1
    if function.answers == "near" or function.ignores_row_order:
        first, *others = (aggregate(function, order) for order in orders)
        assert all(math.isclose(value, first, rel_tol=1e-9) for value in others)


@for_each(function for function in IN_DUCKDB if function.infer_type is not None and function.name != "SUM")
@pytest.mark.parametrize("of_type", ["date", "varchar", "decimal(12,2)", "double"])
def test_a_type_that_is_inferred_is_that_of_duckdb(function: AggregateFunction, of_type: str) -> None:
    assert function.infer_type is not None
    call = OTHER_CALLS.get(function.name, f"{function.name}(x)")
    query = f"select typeof({call}) from (select null::{of_type} as x, true as b)"
    assert CON.execute(query).fetchall() == [(str(function.infer_type(of_type)).upper(),)]


@for_each(KEPT)
@pytest.mark.parametrize("rows", [ROWS, NULLS, ()], ids=["values", "nulls", "none"])
def test_a_value_computed_from_state_is_that_of_duckdb(function: AggregateFunction, rows: tuple[str, ...]) -> None:
    argument = "b" if function.name == "COUNT_IF" else "x"
    kept = StateColumns("n", {"x": "decimal(20,2)", "b": "boolean"}, frozenset(), is_one=True)
    value = express_by_state(parse_call(f"{function.name}({argument})"), kept)
    assert value is not None
    sums = [exp.alias_(exp.func("coalesce", exp.Sum(this=added), 0), name) for name, added in kept.made.values()]
    extremes = [exp.alias_(build_extreme(extreme, part), extreme.name) for extreme, part in kept.extremes.values()]
    selected = [part.sql(dialect="duckdb") for part in (exp.alias_(exp.Count(this=exp.Star()), "n"), *sums, *extremes)]
    source = f"select *, 1 as {MULTIPLICITY} from ({write_source(rows, 'decimal(20, 2)')})"
    query = f"select ({value.sql(dialect='duckdb')})::double from (select {', '.join(selected)} from ({source}))"
    expected = aggregate(function, rows, "decimal(20, 2)")
    assert CON.execute(query).fetchone() == (None if expected is None else pytest.approx(float(expected)),)
