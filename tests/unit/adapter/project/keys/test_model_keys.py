"""Keys of models from constraints and tests, and guesses."""

from __future__ import annotations

import pytest

from dbt.adapters.arctic.project.keys.model_keys import (
    Declaration,
    DeclaredModel,
    find_keys,
    find_passed_rows,
    guess_key,
)

UNIQUE_ID = Declaration("unique", ("id",), "unique")
ID_NOT_NULL = Declaration("not_null", ("id",), "not_null")
COMBINATION = Declaration("unique", ("day", "shop"), "unique_combination_of_columns")
DAY_NOT_NULL = Declaration("not_null", ("day",), "not_null")
SHOP_NOT_NULL = Declaration("not_null", ("shop",), "not_null")


def keys(*declarations: Declaration, columns: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    return [key.columns for key in find_keys(DeclaredModel("m", columns, declarations))]


def guess(name: str, *columns: str, words: str = "", declarations: tuple[Declaration, ...] = ()) -> tuple[str, ...]:
    key = guess_key(DeclaredModel(name, columns, declarations, frozenset(words.split())))
    return () if key is None else key.columns


@pytest.mark.parametrize(
    "declarations",
    [
        (UNIQUE_ID,),
        (ID_NOT_NULL,),
        (UNIQUE_ID, DAY_NOT_NULL),
        (Declaration("primary_key", (), "primary_key", kind="constraint"),),
        (),
    ],
)
def test_a_column_that_may_be_null_or_repeat_is_no_key(declarations: tuple[Declaration, ...]) -> None:
    assert keys(*declarations) == []


def test_a_unique_column_that_is_never_null_is_a_key_in_any_case_of_letters() -> None:
    assert keys(UNIQUE_ID, Declaration("not_null", ("ID",), "not_null")) == [("id",)]


def test_a_declared_primary_key_comes_first_and_says_why() -> None:
    declared = Declaration("primary_key", ("shop", "day"), "primary_key", kind="constraint")
    found = find_keys(DeclaredModel("m", (), (UNIQUE_ID, ID_NOT_NULL, declared)))
    assert [key.columns for key in found] == [("shop", "day"), ("id",)]
    assert [key.reason for key in found] == ["constraint `primary_key`", "test `unique` and not null"]


def test_a_primary_key_by_a_constraint_comes_before_one_by_a_test() -> None:
    by_test = Declaration("primary_key", ("a",), "primary_key")
    assert keys(by_test, Declaration("primary_key", ("a", "b"), "primary_key", kind="constraint")) == [
        ("a", "b"),
        ("a",),
    ]


def test_a_combination_is_a_key_and_comes_after_one_that_is_never_null() -> None:
    other = Declaration("unique", ("a", "b"), "unique_combination_of_columns")
    assert keys(other, COMBINATION, columns=("a", "b", "day", "shop")) == [("a", "b"), ("day", "shop")]
    assert keys(other, COMBINATION, DAY_NOT_NULL, SHOP_NOT_NULL, columns=("a", "b", "day", "shop")) == [
        ("day", "shop"),
        ("a", "b"),
    ]


def test_among_equals_the_narrowest_and_then_the_first_in_the_model_wins_in_any_order_of_tests() -> None:
    wide = Declaration("unique", ("id", "day", "shop"), "unique_combination_of_columns")
    late = Declaration("unique", ("shop", "id"), "unique_combination_of_columns")
    declarations = (wide, late, COMBINATION)
    for order in (declarations, declarations[::-1]):
        assert keys(*order, columns=("day", "shop", "id")) == [("day", "shop"), ("shop", "id"), ("id", "day", "shop")]
        assert keys(*order, columns=("id", "shop", "day"))[0] == ("shop", "id")


def test_a_key_that_is_declared_twice_is_listed_once() -> None:
    assert keys(UNIQUE_ID, ID_NOT_NULL, UNIQUE_ID) == [("id",)]


@pytest.mark.parametrize(
    ("model", "columns", "key"),
    [
        ("orders", ("order_id", "id"), ("order_id",)),
        ("stg_shop__orders", ("id", "Order_ID"), ("Order_ID",)),
        ("dim_companies", ("name", "company_key"), ("company_key",)),
        ("fct_addresses", ("address_id",), ("address_id",)),
        ("orders", ("name", "id"), ("id",)),
        ("stg_", ("stg__id",), ("stg__id",)),
        ("orders", ("name",), ()),
        ("orders", (), ()),
    ],
)
def test_a_key_is_guessed_by_usual_names(model: str, columns: tuple[str, ...], key: tuple[str, ...]) -> None:
    assert guess(model, *columns) == key


def test_the_words_of_the_query_count_only_if_no_column_is_listed() -> None:
    assert guess("orders", words="select order_id from x") == ("order_id",)
    assert guess("orders", "name", words="select order_id from x") == ()


def test_a_unique_column_is_the_first_guess() -> None:
    assert guess("orders", "order_id", declarations=(Declaration("unique", ("code",), "unique"),)) == ("code",)


NESTED = """
with b as (select * from {{ ref('a') }}), c as (with b as (select * from b where v > 1) select * from b)
select * from c
"""


@pytest.mark.parametrize(
    ("code", "key"),
    [
        ("select * from {{ ref('a') }}", ("Id", "day")),
        ('{{ config(tags={"x": (1)}) }} {# {% if #} select * from {{- ref("a") -}}', ("Id", "day")),
        ("with x as (select * from {{ ref('a') }}) select * from X", ("Id", "day")),
        (
            "with x as (select ID as k, day, v from {{ ref('a') }} where v > 1) select x.*, 1 as one from x",
            ("k", "day"),
        ),
        ("select k, s.d from (select id as k, day as d from {{ ref('a') }} order by 1 limit 5) s", ("k", "d")),
        ("select distinct id, day from {{ ref('a') }}", ("id", "day")),
        ("select *, row_number() over (order by v) as n from {{ ref('a') }} qualify n = 1", ("Id", "day")),
        (NESTED, ("Id", "day")),
        ("select id, v from {{ ref('a') }}", None),
        ("select id, cast(day as string) as day from {{ ref('a') }}", None),
        ("select id, nested.day from {{ ref('a') }} as t", None),
    ],
)
def test_a_key_of_the_relation_has_the_names_of_the_result(code: str, key: tuple[str, ...] | None) -> None:
    rows = find_passed_rows(code)
    assert rows is not None
    assert (rows.package, rows.name) == ("", "a")
    assert rows.rename(("Id", "day")) == key


def test_a_package_is_a_part_of_the_name() -> None:
    rows = find_passed_rows("select * from {{ ref('shop', 'a') }}")
    assert rows is not None
    assert (rows.package, rows.name) == ("shop", "a")


@pytest.mark.parametrize(
    "code",
    [
        "select * from {{ ref('a') }} join {{ ref('b') }} using (id)",
        "select * from {{ ref('a') }}, {{ ref('b') }}",
        "select * from {{ ref('a') }} union all select * from {{ ref('a') }}",
        "select id from {{ ref('a') }} group by id",
        "select id, explode(v) as v from {{ ref('a') }}",
        "select id from {{ ref('a') }} lateral view explode(v) as w",
        "select * from {{ ref('a') }} tablesample (10 percent)",
        "select * from {{ ref('a') }} version as of 3",
        "select * except (id) from {{ ref('a') }}",
        "select a.* except (id) from {{ ref('a') }} as a",
        "select * from {{ ref('a') }} as a(x, y)",
        "select * from (select id, v from {{ ref('a') }}) as a(v, id)",
        "with x(v, id) as (select id, v from {{ ref('a') }}) select * from x",
        "select * from {{ ref('a', v=2) }}",
        "select * from {{ source('shop', 'a') }}",
        "select * from {{ ref('a') }} {% if x %} where 1 = 0 {% endif %}",
        "select * from {{ ref(name) }}",
        "select * from unknown",
        "select 1 as id",
        "select select",
        "",
    ],
)
def test_a_query_that_may_repeat_rows_or_is_not_understood_passes_none(code: str) -> None:
    assert find_passed_rows(code) is None
