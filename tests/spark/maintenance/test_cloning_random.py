"""A clone and its origin in any order of operations: each has the rows of its own runs, and neither knows the other."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from arctic_runtime.operations.inspect import read_history
from arctic_runtime.plan.cloning.clone_plan import CloneRequest
from arctic_runtime.spark.maintenance.cloning import clone_model
from arctic_runtime.spark.maintenance.compaction import compact_table
from tests.spark.maintenance.test_expiry import expiring
from tests.spark.table_operations import KEYS, Rows, TableOperations
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

ROWS = st.dictionaries(KEYS, st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=6)
MERGES = st.sampled_from(["on_write", "on_read"])
COLUMNS = "id int, g string, v int"

_numbers = itertools.count()


class ClonedOperations(TableOperations):
    """A clone, with a model below that was cloned with it; their origins go on, are compacted and expire beside."""

    home: ClassVar[Warehouse]

    @initialize(first=ROWS, second=ROWS, merge=MERGES, own_merge=MERGES)
    def clone(
        self,
        first: Rows,
        second: Rows,
        merge: Literal["on_write", "on_read"],
        own_merge: Literal["on_write", "on_read"],
    ) -> None:
        self.number, self.nodes, self.count = next(_numbers), 1, 0
        self.merge, self.own_merge = merge, own_merge
        for rows in (first, second):
            self.load(self.home, rows)
            self.home.run(self.origin)
        self.home.run(self.origin_below)
        self.theirs = dict(second)
        self.make(replaces=False)

    def make(self, replaces: bool) -> None:
        """Makes the model and the one below it clones of their origins as they are."""
        self.count += 1
        names = {model.table: origin.table for model, origin in self.pairs}
        for model, origin in self.pairs:
            request = CloneRequest(origin.table, round(1000 * time.time()), f"{self.number} {self.count}", "me", names)
            clone_model(self.lake.session_of(model), request, replaces)
        self.table, self.source = dict(self.theirs), dict(self.theirs)
        self.load(self.lake, self.source)
        # The newest commit of the origin may be that of a compaction, which is no version.
        self.versions: dict[str, Rows] = {read_history(self.lake.reader, self.model)[0].version: dict(self.table)}

    @property
    def pairs(self) -> tuple[tuple[Model, Model], ...]:
        return (self.model, self.origin), (self.down, self.origin_below)

    @property
    def origin(self) -> Model:
        return self.build(self.home, self.merge, 1)

    @property
    def model(self) -> Model:  # type: ignore[override]
        return self.build(self.lake, self.own_merge, self.nodes)

    @property
    def origin_below(self) -> Model:
        return self.build_below(self.home)

    @property
    def down(self) -> Model:  # type: ignore[override]
        return self.build_below(self.lake)

    def build(self, lake: Warehouse, merge: str, nodes: int) -> Model:
        retention = {"changes": "1d", "versions": "1d"}
        sql = f"select id, g, v from {{source{self.number}}}"
        return lake.model(f"m{self.number}", sql, primary_key="id", merge=merge, nodes=nodes, retention=retention)

    def build_below(self, lake: Warehouse) -> Model:
        sql = f"select g, count(*) as n, sum(v) as v from {{m{self.number}}} group by g"
        return lake.model(f"down{self.number}", sql, primary_key="g")

    def load(self, lake: Warehouse, rows: Rows) -> None:
        lake.load(f"source{self.number}", [(key, *row) for key, row in rows.items()], COLUMNS)

    @rule(rows=ROWS, is_full=st.booleans())
    def run(self, rows: Rows, is_full: bool) -> None:
        self.load(self.lake, rows)
        self.lake.run(self.model, full_refresh=is_full)
        self.table = dict(rows)
        self.remember()

    @rule(rows=ROWS)
    def run_origin(self, rows: Rows) -> None:
        self.load(self.home, rows)
        self.home.run(self.origin)
        self.theirs = dict(rows)

    @rule(nodes=st.sampled_from([1, 2, 4]))
    def lay_out(self, nodes: int) -> None:
        self.nodes = nodes

    @rule()
    def expire(self) -> None:
        expiring(self.lake, self.model, self.down)

    @rule()
    def tend_origin(self) -> None:
        self.home.run(self.origin_below)
        compact_table(self.home.session_of(self.origin), "full")
        expiring(self.home, self.origin, self.origin_below)

    @rule()
    def clone_again(self) -> None:
        self.home.run(self.origin_below)
        self.make(replaces=True)

    @precondition(lambda self: hasattr(self, "theirs"))
    @invariant()
    def the_origin_has_its_own_rows(self) -> None:
        assert self.home.rows(self.origin) == sorted(((key, *row) for key, row in self.theirs.items()), key=repr)

    def teardown(self) -> None:
        if hasattr(self, "theirs"):
            self.follow()
            assert [self.lake.broken(model) for model in (self.model, self.down)] == [[], []]
            self.home.run(self.origin_below)
            assert [self.home.broken(model) for model in (self.origin, self.origin_below)] == [[], []]


@pytest.mark.slow
def test_clones_and_origins_go_their_own_ways_after_any_order_of_operations(lake: Warehouse) -> None:
    name = f"{lake.namespace}_dev"
    lake.spark.sql(f"create namespace {lake.environment.profile.catalog}.{name}")
    dev = replace(lake, namespace=name)
    machine = type("ClonedHere", (ClonedOperations,), {"lake": dev, "home": lake})
    run_machine(machine, settings=settings(max_examples=5, stateful_step_count=10))
