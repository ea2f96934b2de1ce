"""The condition of a test is true for exactly the rows that the test does not return."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dbt.include.global_project
import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.model.columns import Column
from arctic_runtime.plan.row_conditions import KNOWN_TESTS, DeclaredTest, build_condition
from tests.unit.ivm.duck import connect, load, rows

MACROS = Path(dbt.include.global_project.__file__).parent / "macros" / "generic_test_sql"
COLUMNS = (Column("id", "int"), Column("n", "int"), Column("s", "string"))

OTHER_TESTS = {
    "expression_is_true": "select * from {{ model }} where not({{ column_name or '' }} {{ expression }})",
    "accepted_range": (
        "select * from {{ model }} where 1 = 2 {% if min_value is not none %} or not {{ column_name }} "
        ">{{ '=' if inclusive }} {{ min_value }}{% endif %}{% if max_value is not none %} or not {{ column_name }} "
        "<{{ '=' if inclusive }} {{ max_value }}{% endif %}"
    ),
    "not_accepted_values": (
        "select value_field from (select distinct {{ column_name }} as value_field from {{ model }}) v "
        'where value_field in ({% for v in values %}{{ "\'" ~ v ~ "\'" if quote else v }}'
        "{{ ', ' if not loop.last }}{% endfor %})"
    ),
    "not_empty_string": (
        "select * from (select {{ 'trim(' ~ column_name ~ ')' if trim_whitespace else column_name }} as c "
        "from {{ model }}) t where c = ''"
    ),
}
"""Queries of tests that return the rows which fail, by the name of the test; those of dbt itself are read from dbt."""
DEFAULTS = {"quote": True, "inclusive": True, "trim_whitespace": True, "min_value": None, "max_value": None}


def write_test(name: str, arguments: dict[str, Any], where: str | None = None) -> str:
    """The query of a test, as dbt writes it."""
    model = "t" if where is None else f"(select * from t where {where}) dbt_subquery"
    values = {"column_name": None, **DEFAULTS, **arguments, "model": model}
    file = MACROS / f"{name}.sql"
    if name in OTHER_TESTS:
        return jinja2.Template(OTHER_TESTS[name]).render(values)
    environment = jinja2.Environment(extensions=["jinja2.ext.do"])
    module: Any = environment.from_string(file.read_text(), {"should_store_failures": lambda: False}).module
    macro = getattr(module, f"default__test_{name}")
    return str(macro(**{key: value for key, value in values.items() if key in macro.arguments}))


def declare(name: str, arguments: dict[str, Any], where: str | None = None) -> DeclaredTest:
    macro = next(known for known in KNOWN_TESTS if known.endswith(f".test_{name}"))
    model = "{{ get_where_subquery(ref('t')) }}"
    return DeclaredTest(name, macro, {**arguments, "model": model}, where)


TESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("not_null", {"column_name": "n"}),
    ("not_null", {"column_name": "`s`"}),
    ("accepted_values", {"column_name": "s", "values": ["a", " ", 1]}),
    ("accepted_values", {"column_name": "n", "values": [1, 2], "quote": False}),
    ("expression_is_true", {"expression": "n > 1 or s = 'a'"}),
    ("expression_is_true", {"expression": "n > 1 -- large\n or s = 'a'\n"}),
    ("expression_is_true", {"expression": "in (1, 2) and s is not null", "column_name": "n"}),
    ("expression_is_true", {"expression": "s between 'a' and 'b'"}),
    ("accepted_range", {"column_name": "n", "min_value": 1}),
    ("accepted_range", {"column_name": "n", "max_value": "id", "inclusive": False}),
    ("accepted_range", {"column_name": "n", "min_value": 1, "max_value": 2}),
    ("accepted_range", {"column_name": "n"}),
    ("not_accepted_values", {"column_name": "s", "values": ["a", ""]}),
    ("not_accepted_values", {"column_name": "n", "values": [1], "quote": False}),
    ("not_empty_string", {"column_name": "s"}),
    ("not_empty_string", {"column_name": "s", "trim_whitespace": False}),
)


@pytest.mark.parametrize(("name", "arguments"), TESTS)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_conditions_agree_with_tests(name: str, arguments: dict[str, Any], data: st.DataObject) -> None:
    """For each row alone, the test returns something if and only if the condition is false."""
    where = data.draw(st.sampled_from([None, "n <> 2", "s is null or n = 1"]))
    condition = build_condition(declare(name, arguments, where))
    assert condition is not None
    row = (data.draw(st.integers(0, 3)), *data.draw(st.tuples(_numbers, _texts)))
    with connect() as con:
        load(con, "t", COLUMNS, [row])
        failed = rows(con, write_test(name, arguments, where))
        ((passes,),) = rows(con, f"select {condition.passes} from t")
        assert passes is (not failed), (row, condition.passes)


_numbers = st.none() | st.integers(0, 3)
_texts = st.none() | st.sampled_from(["a", "b", "", " ", "1"])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("accepted_values", {"column_name": "s", "values": ["{{ var('x') }}"]}),
        ("accepted_values", {"column_name": "s", "values": "a"}),
        ("accepted_values", {"column_name": "s", "values": []}),
        ("accepted_values", {"column_name": "s", "values": ["O'Brien"]}),
        ("accepted_values", {"column_name": "s", "values": ["a') or ('b"]}),
        ("accepted_values", {"column_name": "s", "values": ["a"], "quote": "{{ true }}"}),
        ("accepted_values", {"column_name": "s", "values": ["a"], "other": 1}),
        ("expression_is_true", {"expression": "n in (select n from {{ ref('other') }})"}),
        ("expression_is_true", {"expression": "n > 1) or (n < 1"}),
        ("expression_is_true", {"expression": "n > 1), (n < 1"}),
        ("expression_is_true", {"expression": "1) from t where (true"}),
        ("expression_is_true", {"expression": "1; drop table t"}),
        ("expression_is_true", {"expression": "n > 1 /* never closed"}),
        ("expression_is_true", {"expression": ""}),
        ("expression_is_true", {"expression": None}),
        ("expression_is_true", {"expression": "(" * 2000}),
        ("not_null", {}),
        ("not_null", {"column_name": ["a"]}),
    ],
)
def test_other_arguments(name: str, arguments: dict[str, Any]) -> None:
    assert build_condition(declare(name, arguments)) is None


def test_other_tests() -> None:
    """A test whose macro is not known, or is one of the project with the name of a known one, decides nothing."""
    for macro in ("macro.dbt.test_unique", "macro.dbt.test_relationships", "macro.shop.test_not_null"):
        assert build_condition(DeclaredTest("t", macro, {"column_name": "n"})) is None


def test_a_where_of_jinja() -> None:
    assert build_condition(declare("not_null", {"column_name": "n"}, "s > '{{ var(1) }}'")) is None


@pytest.mark.parametrize(("column", "is_condition"), [("id", False), ("`ID`", False), ("n", True), ("id + 1", True)])
def test_nulls_of_the_key(column: str, is_condition: bool) -> None:
    """A row without a key can be stored nowhere: it fails the run, as in every model."""
    made = build_condition(declare("not_null", {"column_name": column}), ("id",))
    assert (made is not None) is is_condition
