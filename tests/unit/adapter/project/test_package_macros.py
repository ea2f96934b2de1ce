"""Macros of packages that this adapter has in a form of its own are looked for before those of the packages."""

from __future__ import annotations

from typing import Any

import pytest

from dbt.adapters.arctic.project.package_macros import complete_search_order, write_json_path

UTILS = "dbt_utils"
FIVETRAN = "fivetran_utils"


@pytest.mark.parametrize(
    ("written", "searched"),
    [
        (None, ["shop", "dbt", FIVETRAN]),
        (["other", FIVETRAN], ["other", "dbt", FIVETRAN]),
        (["dbt", "shop", FIVETRAN], ["dbt", "shop", FIVETRAN]),
        (["other"], ["other", "dbt"]),
    ],
)
def test_the_projects_own_order_stays_first(written: list[str] | None, searched: list[str]) -> None:
    others = {"macro_namespace": UTILS, "search_order": ["spark_utils", UTILS]}
    dispatch: list[Any] = [others, *([{"macro_namespace": FIVETRAN, "search_order": written}] if written else [])]
    complete_search_order(dispatch, "shop")
    complete_search_order(dispatch, "shop")
    assert dispatch == [others, {"macro_namespace": FIVETRAN, "search_order": searched}]


def test_a_json_path_has_names_and_positions() -> None:
    assert write_json_path(["charges", "data", 0, "rate"]) == "$['charges']['data'][0]['rate']"
