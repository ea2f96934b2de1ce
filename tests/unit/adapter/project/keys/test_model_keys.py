"""Keys of models from constraints and tests, and guesses."""

from __future__ import annotations

import pytest

from dbt.adapters.arctic.project.keys.model_keys import Declaration, DeclaredModel, find_keys, guess_key

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
