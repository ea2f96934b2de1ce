"""Queries that return rows of one relation, and the columns of it that they return."""

from __future__ import annotations

import pytest

from dbt.adapters.arctic.project.keys.passed_rows import find_passed_rows

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
