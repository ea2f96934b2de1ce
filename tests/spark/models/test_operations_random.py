"""Everything that can be done to a table, in any order, against a dict that is changed in the same way."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    rule,
    run_state_machine_as_test,
)

from arctic_runtime.model.table import Merge
from arctic_runtime.spark.maintenance.savepoint import drop_savepoint, make_savepoint
from arctic_runtime.spark.refresh.overwrite import overwrite_with_source
from tests.spark.maintenance.test_expiry import expiring
from tests.spark.table_operations import KEYS, Rows, TableOperations
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

REGIONS = st.sampled_from(["eu", "us", None])
Row = tuple[Any, ...]

_numbers = itertools.count()


class Operations(TableOperations):
    """Events come, runs apply them, and upkeep goes on beside; a second table follows the first."""

    @initialize(merge=st.sampled_from(Merge.__args__), partitioned=st.booleans())  # type: ignore[attr-defined]
    def build(self, merge: Merge, partitioned: bool) -> None:
        self.number, self.lsn, self.declared = next(_numbers), 0, 0
        self.waiting: dict[int, tuple[int, Row | None]] = {}
        self.read: dict[int, int] = {}
        self.table: Rows = {}
        self.versions: dict[str, Rows] = {}
        self.savepoints: set[str] = set()
        config = {"partition_by": ["region"]} if partitioned else {}
        self.events = f"events{self.number}"
        self.model = self._model(merge, config)
        self.down = self.lake.model(
            f"down{self.number}",
            f"select region, count(*) as n, sum(v) as v from {{m{self.number}}} group by region",
            primary_key="region",
        )
        self.come({1: ("eu", 1), 2: ("us", 2), 3: (None, 3)})
        self.run()

    def _model(self, merge: Merge, config: dict[str, Any]) -> Model:
        return self.lake.model(
            f"m{self.number}",
            f"select id, coalesce(region, 'none') as region, v, lsn, op from {{changes({self.events})}}",
            primary_key="id",
            input="changes",
            sequence_by="lsn",
            delete_when="op = 'd'",
            exclude_columns=["lsn", "op"],
            merge=merge,
            retention={"changes": "1d", "versions": "1d"},
            **config,
        )

    @rule(changed=st.dictionaries(KEYS, st.none() | st.tuples(REGIONS, st.integers(0, 9)), min_size=1, max_size=5))
    def come(self, changed: dict[int, Row | None]) -> None:
        rows = []
        for key, row in changed.items():
            self.lsn += 1
            rows.append((key, *(row or (None, None)), self.lsn, "c" if row else "d"))
            self.waiting[key] = (self.lsn, row)
        self.lake.append(self.events, rows, "id int, region string, v int, lsn bigint, op string")

    @rule()
    def run(self) -> None:
        self.lake.run(self.model)
        for key, (lsn, row) in self.waiting.items():
            self.read[key] = lsn
            self.table.pop(key, None)
            self.table |= {} if row is None else {key: (row[0] or "none", row[1])}
        self.waiting = {}
        self.remember()

    @rule()
    def expire(self) -> None:
        expiring(self.lake, self.model, self.down)

    @rule(name=st.sampled_from(["a", "b"]))
    def save(self, name: str) -> None:
        if name in self.savepoints:
            drop_savepoint(self.lake.session_of(self.model), name)
            self.savepoints.remove(name)
        else:
            make_savepoint(self.lake.session_of(self.model), name)
            self.savepoints.add(name)

    @rule(
        rows=st.dictionaries(KEYS, st.tuples(REGIONS.filter(bool), st.integers(0, 9)), max_size=5),
        back=st.integers(0, 4),
    )
    def declare(self, rows: Rows, back: int) -> None:
        """A key of which something later was read keeps what it has, also where a restore has undone that."""
        place = max(self.declared, self.lsn - back)
        extract = f"extract{self.number}"
        self.lake.load(extract, [(key, *row) for key, row in rows.items()], "id int, region string, v int")
        overwrite_with_source(self.lake.refresh_of(self.model), self.lake.table(extract), str(place))
        later = {key for key, lsn in self.read.items() if lsn > place}
        kept = {key: row for key, row in self.table.items() if key in later}
        self.table = {**{key: row for key, row in rows.items() if key not in later}, **kept}
        self.waiting = {key: (lsn, row) for key, (lsn, row) in self.waiting.items() if lsn > place}
        self.declared = place
        self.remember()

    def teardown(self) -> None:
        if hasattr(self, "model"):
            self.run()
            assert self.lake.broken(self.model) == []
            self.follow()
            assert self.lake.broken(self.down) == []


@pytest.mark.slow
def test_a_table_equals_its_events_and_its_owners_changes_after_any_order_of_operations(lake: Warehouse) -> None:
    machine = type("OperationsHere", (Operations,), {"lake": lake})
    run_state_machine_as_test(machine, settings=settings(max_examples=6, stateful_step_count=15))
