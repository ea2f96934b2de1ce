"""Random builds of a project with `publish: build`: readers see the models that passed, with all that they read.

`ARCTIC_BUILDS` sets how many builds there are in one test, and `ARCTIC_SEED` from which number they are chosen.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from arctic_runtime.effects import set_failpoint

Row = tuple[Any, ...]
State = Mapping[str, list[Row]]

ORDERS = """{{ config(materialized='arctic', primary_key='id') }}
select id, shop, amount from {{ source('raw', 'orders') }} where amount is null or amount >= 0
"""
TOTALS = """{{ config(materialized='arctic', primary_key='shop', merge='on_read') }}
select shop, count(*) as orders, sum(amount) as amount from {{ ref('orders') }} group by shop
"""
DOUBLED = """{{ config(materialized='table') }}
select id, 2 * amount as amount from {{ ref('orders') }}
"""
SHARES = """{{ config(materialized='arctic', primary_key='id') }}
select o.id, t.amount - o.amount as others from {{ ref('orders') }} o join {{ ref('totals') }} t on o.shop = t.shop
"""
LARGE = """{{ config(materialized='view') }}
select shop, amount from {{ ref('totals') }} where orders > 3
"""
ALONE = """{{ config(materialized='arctic', primary_key=[]) }}
select count(*) as n from {{ source('raw', 'orders') }}
"""
YAML = """
sources:
  - {name: raw, database: lake, schema: "{{ target.schema }}", tables: [{name: orders, identifier: raw_orders}]}
models:
  - {name: orders, columns: [{name: amount, data_tests: [not_null]}]}
"""
TESTED = {
    "totals_small": "select * from {{ ref('totals') }} where amount > 180",
    "doubled_even": "select * from {{ ref('doubled') }} where amount = 26",
    "shares_few": "{{ config(severity='warn') }} select * from {{ ref('shares') }}",
}
PARENTS: Mapping[str, tuple[str, ...]] = {
    "orders": (),
    "totals": ("orders",),
    "doubled": ("orders",),
    "shares": ("orders", "totals"),
    "large": ("totals",),
    "alone": (),
}
"""Models in the order of the graph, and what they read of each other."""

SELECTIONS = ("*", "*", "*", "orders+", "totals+", "doubled", "shares alone", "orders totals")


def compute_model(name: str, raw: Iterable[Row], state: State) -> list[Row]:
    """Computes the rows of a model, in order, from those of its parents."""
    if name == "orders":
        rows: Iterable[Row] = (row for row in raw if row[2] is None or row[2] >= 0)
    elif name == "totals":
        counts = Counter(shop for _, shop, _ in state["orders"])
        amounts: dict[int, int | None] = {}
        for _, shop, amount in state["orders"]:
            known = amounts.setdefault(shop, None)
            amounts[shop] = known if amount is None else (known or 0) + amount
        rows = ((shop, counts[shop], amounts[shop]) for shop in counts)
    elif name == "doubled":
        rows = ((key, None if amount is None else 2 * amount) for key, _, amount in state["orders"])
    elif name == "shares":
        totals = {shop: amount for shop, _, amount in state["totals"]}
        rows = (
            (key, None if amount is None or totals[shop] is None else totals[shop] - amount)
            for key, shop, amount in state["orders"]
            if shop in totals
        )
    elif name == "large":
        rows = ((shop, amount) for shop, orders, amount in state["totals"] if orders > 3)
    else:
        rows = ((len(list(raw)),),)
    return sort_rows(rows)


def sort_rows(rows: Iterable[Iterable[Any]]) -> list[Row]:
    return sorted(map(tuple, rows), key=repr)


def passes_tests(name: str, rows: list[Row]) -> bool:
    if name == "orders":
        return all(amount is not None for _, _, amount in rows)
    if name == "totals":
        return all(amount is None or amount <= 180 for _, _, amount in rows)
    return name != "doubled" or all(amount != 26 for _, amount in rows)


def compute_build(raw: list[Row], before: State, selected: set[str]) -> dict[str, list[Row]]:
    """Computes what readers see after a build of the selected models."""
    branch, held = dict(before), set[str]()
    for name, parents in PARENTS.items():
        if name in selected:
            if held.intersection(parents) or any(parent not in branch for parent in parents):
                held.add(name)
                continue
            branch[name] = compute_model(name, raw, branch)
            if not passes_tests(name, branch[name]):
                held.add(name)
        elif name == "large" and name in branch:
            branch[name] = compute_model(name, raw, branch)
    published = {name: rows for name, rows in branch.items() if name not in held}
    after = {**before, **published}
    if "large" in after:
        after["large"] = compute_model("large", raw, after)
    return after


def choose_models(selection: str) -> set[str]:
    """Returns the models of one of the selections, as dbt does."""
    chosen: set[str] = set()
    for word in selection.split():
        chosen |= set(PARENTS) if word == "*" else {word.rstrip("+")}
        if word.endswith("+"):
            for name, parents in PARENTS.items():
                if chosen.intersection(parents):
                    chosen.add(name)
    return chosen


class TestRandomBuilds:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        texts = {"orders": ORDERS, "totals": TOTALS, "doubled": DOUBLED, "shares": SHARES, "large": LARGE}
        return {**{f"{name}.sql": text for name, text in (texts | {"alone": ALONE}).items()}, "schema.yml": YAML}

    @pytest.fixture(scope="class")
    def tests(self) -> dict[str, str]:
        return {f"{name}.sql": text for name, text in TESTED.items()}

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, profile_target: dict[str, Any]) -> dict[str, Any]:
        return {**profile_target, "publish": "build"}

    @pytest.mark.slow
    def test_readers_see_what_passed_with_all_that_it_reads(self, project: Any) -> None:
        builds, seed = int(os.environ.get("ARCTIC_BUILDS", "30")), int(os.environ.get("ARCTIC_SEED", "1"))
        chance = random.Random(seed)
        raw: dict[int, Row] = {}
        shown: dict[str, list[Row]] = {}
        self.load(project, raw)
        for number in range(builds):
            self.change(chance, raw)
            self.load(project, raw)
            selection = chance.choice(SELECTIONS) if number else "*"
            arguments = ["build", *([] if selection == "*" else ["--select", selection])]
            lost = chance.randrange(120) if chance.random() < 0.3 else None
            wanted = compute_build(list(raw.values()), shown, choose_models(selection))
            history = f"seed {seed}, build {number}, {selection}, lost {lost}"
            if lost is not None:
                with set_failpoint(lose_effect(lost)):
                    self.run_build(arguments)
                seen = self.read(project)
                assert_whole(shown, seen, list(raw.values()), history)
                wanted = compute_build(list(raw.values()), seen, set(PARENTS))
                arguments = ["build"]
            self.run_build(arguments)
            shown = self.read(project)
            assert shown == wanted, history

    def run_build(self, arguments: list[str]) -> None:
        """Runs dbt, whose models and tests may fail; its other errors are those of a build that is not published."""
        try:
            run_dbt(arguments, expect_pass=True)
        except AssertionError:
            return
        except Exception as error:
            if "lost" not in str(error) and "run the build again" not in str(error):
                raise

    def change(self, chance: random.Random, raw: dict[int, Row]) -> None:
        for _ in range(chance.randrange(6)):
            key = chance.randrange(24)
            amount = None if chance.random() < 0.04 else chance.choice((-1, *range(30)))
            raw[key] = (key, key % 4, amount)
        for key in [key for key, row in raw.items() if row[2] is None or chance.random() < 0.08]:
            if chance.random() < 0.6:
                del raw[key]

    def load(self, project: Any, raw: dict[int, Row]) -> None:
        table = f"lake.{project.test_schema}.raw_orders"
        project.run_sql(f"create table if not exists {table} (id int, shop int, amount int) using iceberg")
        rows = ", ".join(
            f"({key}, {shop}, {'null' if amount is None else amount})" for key, shop, amount in raw.values()
        )
        source = f"values {rows}" if rows else f"select * from {table} where false"
        project.run_sql(f"insert overwrite {table} {source}")

    def read(self, project: Any) -> dict[str, list[Row]]:
        with project.adapter.connection_named("__reader"):
            there = {row.name for row in project.adapter.list_relations(project.database, project.test_schema)}
        names = [name for name in PARENTS if name in there]
        return {
            name: sort_rows(project.run_sql(f"select * from lake.{project.test_schema}.{name}", fetch="all"))
            for name in names
        }


def assert_whole(before: State, seen: State, raw: list[Row], history: str) -> None:
    """Each model is as it was, or is what its query gives of the parents that readers see."""
    for name, rows in seen.items():
        assert rows in (before.get(name), compute_model(name, raw, seen)), f"{history}: {name}"


def lose_effect(number: int) -> Callable[[str, Callable[[], Any]], Any]:
    """Builds a failpoint that fails in the place of one effect, counted from 0."""
    count = [0]

    def lose(name: str, action: Callable[[], Any]) -> Any:
        count[0] += 1
        if count[0] == number + 1:
            raise OSError(f"lost: {name}")
        return action()

    return lose
