"""An adopted table in any order of operations: it has the rows of its query, and its readers follow it exactly."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from arctic_runtime.model.forgetting import Forget
from arctic_runtime.spark.forget.forgetting import Forgetting
from arctic_runtime.spark.maintenance.adoption import adopt_table, undo_adoption
from tests.spark.maintenance.test_expiry import expiring
from tests.spark.table_operations import KEYS, Rows, TableOperations
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

ROWS = st.dictionaries(KEYS, st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=6)
COLUMNS = "id int, g string, v int"

_numbers = itertools.count()


class AdoptedOperations(TableOperations):
    """A table of others is adopted; then its source changes, runs follow, and upkeep goes on beside."""

    @initialize(theirs=ROWS.filter(bool), source=ROWS, version=st.sampled_from([2, 3]), partitioned=st.booleans())
    def adopt(self, theirs: Rows, source: Rows, version: int, partitioned: bool) -> None:
        self.number = next(_numbers)
        self.name, self.source_name = f"adopted{self.number}", f"source{self.number}"
        self.table, self.theirs, self.source = dict(theirs), dict(theirs), dict(source)
        self.config: dict[str, Any] = {"partition_by": ["g"]} if partitioned else {}
        self.versions: dict[str, Rows] = {}
        self.lake.frame([(key, *row) for key, row in theirs.items()], COLUMNS).createOrReplaceTempView("theirs")
        self.lake.spark.sql(
            f"create table {self.lake.sql_name(self.name)} using iceberg {'partitioned by (g)' if partitioned else ''} "
            f"tblproperties ('format-version' = '{version}') as select * from theirs"
        )
        self._load()
        self.down = self.lake.model(
            f"down{self.number}",
            f"select g, count(*) as n, sum(v) as v from {{{self.name}}} group by g",
            primary_key="g",
        )
        self.copy = self.lake.model(
            f"copy{self.number}",
            f"select id, g, v, _action from {{changes({self.name})}}",
            primary_key="id",
            input="changes",
            delete_when="_action = 'delete'",
            exclude_columns=["_action"],
        )
        adopt_table(self.lake.session_of(self.model))
        self.remember()

    @property
    def model(self) -> Model:
        retention = {"changes": "1d", "versions": "1d"}
        sql = f"select id, g, v from {{{self.source_name}}}"
        return self.lake.model(self.name, sql, primary_key="id", retention=retention, **self.config)

    def _load(self) -> None:
        self.lake.load(self.source_name, [(key, *row) for key, row in self.source.items()], COLUMNS)

    @rule(changed=ROWS, gone=st.sets(KEYS, max_size=3))
    def change(self, changed: Rows, gone: set[int]) -> None:
        self.source = {key: row for key, row in {**self.source, **changed}.items() if key not in gone}
        self._load()

    @rule(full_refresh=st.booleans())
    def run(self, full_refresh: bool) -> None:
        self.lake.run(self.model, full_refresh=full_refresh)
        self.table = dict(self.source)
        self.remember()

    @rule(nodes=st.sampled_from([1, 2, 4]))
    def lay_out(self, nodes: int) -> None:
        self.config["nodes"] = nodes

    @rule()
    def expire(self) -> None:
        expiring(self.lake, self.model, self.down, self.copy)

    @rule(key=KEYS)
    def forget(self, key: int) -> None:
        """Forgets a row that the source has not any more, from all versions and all tables."""
        self.source.pop(key, None)
        self._load()
        self.run(full_refresh=False)
        models = (self.model, self.down, self.copy)
        for model in models[1:]:
            self.lake.run(model)
        Forgetting(self.model, models, self.lake.reader, lambda: self.lake.spark, Forget(keys=(str(key),))).run_forget()
        self.versions = {}
        self.remember()

    @rule()
    def follow_changes(self) -> None:
        self.lake.run(self.copy)
        assert self.lake.rows(self.copy) == sorted(((key, *row) for key, row in self.table.items()), key=repr)

    def teardown(self) -> None:
        if hasattr(self, "copy"):
            self.run(full_refresh=False)
            assert self.lake.broken(self.model) == []
            self.follow()
            self.follow_changes()
            assert self.lake.broken(self.down) == []
            undo_adoption(self.lake.session_of(self.model))


@pytest.mark.slow
def test_an_adopted_table_has_the_rows_of_its_query_after_any_order_of_operations(lake: Warehouse) -> None:
    machine = type("AdoptedHere", (AdoptedOperations,), {"lake": lake})
    run_machine(machine, settings=settings(max_examples=6, stateful_step_count=15))
