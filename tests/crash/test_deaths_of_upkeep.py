"""A process may die between any two effects of what is done by hand; done again, it is whole and done once."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from arctic_runtime.catalog.observe import observe_savepoints
from arctic_runtime.spark.maintenance.savepoint import drop_savepoint, make_savepoint
from arctic_runtime.spark.refresh.overwrite import overwrite
from tests.crash.dying import dying
from tests.crash.test_deaths import MOST_EFFECTS, told
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

EVENTS = "id int, v string, lsn bigint"


def built(lake: Warehouse, merge: str) -> Model:
    sql = "select id, v, lsn from {changes(events)}"
    config = {"primary_key": "id", "input": "changes", "sequence_by": "lsn", "exclude_columns": ["lsn"]}
    model = lake.model("m", sql, merge=merge, **config)
    lake.append("events", [(1, "a", 1), (2, "b", 2)], EVENTS)
    lake.run(model)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_rows_that_are_declared_by_who_dies_are_declared_once_by_who_repeats_it(lake: Warehouse, merge: str) -> None:
    model = built(lake, merge)
    session = lake.environment.session()
    for last in range(MOST_EFFECTS):
        rows = [(1, f"v{last}"), (last + 3, "new")]
        lake.load("extract", rows, "id int, v string")

        def declare() -> None:
            overwrite(lake.refresh_of(model, lambda: session), lake.table("extract"), "10")

        life = dying(last, declare)
        declare()
        assert lake.rows(model) == rows, told(life)
        if life is None:
            break
    assert life is None
    assert lake.broken(model) == []


@pytest.mark.slow
def test_a_savepoint_is_there_or_not_wherever_its_making_and_its_end_die(lake: Warehouse) -> None:
    model = built(lake, "on_write")
    session = lake.environment.session()
    for last in itertools.count():
        name = f"s{last}"
        made = dying(last, lambda name=name: make_savepoint(lake.session_of(model, lambda: session), name))
        assert make_savepoint(lake.session_of(model), name).commit.version.snapshot == lake.head(model)
        assert [of.name for of in observe_savepoints(lake.reader, model)] == [name]
        ended = dying(last, lambda name=name: drop_savepoint(lake.session_of(model, lambda: session), name))
        if name in [of.name for of in observe_savepoints(lake.reader, model)]:
            drop_savepoint(lake.session_of(model), name)
        assert [ref for ref in lake.reader.load_table(lake.namespace, "m").metadata.refs if ref != "main"] == []
        assert observe_savepoints(lake.reader, model) == ()
        if made is None and ended is None:
            break
    assert last == 2
