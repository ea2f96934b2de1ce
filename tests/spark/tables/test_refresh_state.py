"""Each commit of a base says, for other engines, from which snapshots of the sources its rows were computed."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.refresh.overwrite import restore_version
from tests.spark.warehouse import Warehouse

pytestmark = pytest.mark.in_turn

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

COLUMNS = "id int, g string, v int"
ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]


def read_newest(lake: Warehouse, model: Model) -> dict[str, Any]:
    """The refresh state in the newest snapshot of a base, which all of its snapshots on main have."""
    table = lake.reader.load_table(lake.namespace, model.base.name)
    newest = table.current_snapshot()
    assert newest is not None
    assert newest.summary is not None
    return dict(json.loads(newest.summary.additional_properties["refresh-state"]))


def list_sources(lake: Warehouse, model: Model) -> list[tuple[list[str], str, str, int]]:
    states = read_newest(lake, model)["source-states"]
    return [(state["namespace"], state["name"], state["uuid"], state["snapshot-id"]) for state in states]


def find_current(lake: Warehouse, name: str) -> tuple[list[str], str, str, int]:
    metadata = lake.reader.load_table(lake.namespace, name).metadata
    assert metadata.current_snapshot_id is not None
    return [lake.namespace], name, str(metadata.table_uuid), metadata.current_snapshot_id


@pytest.mark.parametrize("config", [{}, {"nodes": 2}, {"merge": "on_read"}], ids=["overwritten", "merged", "on_read"])
def test_a_base_names_the_snapshots_that_its_rows_were_computed_from(lake: Warehouse, config: dict[str, Any]) -> None:
    model = lake.model("m", "select id, g, v from {source}", primary_key="id", **config)
    above = lake.model(
        "n", f"select id, v + 1 as v from {lake.sql_name('m')} where g <> 'x'", primary_key="id", **config
    )
    lake.load("source", ROWS, COLUMNS)
    before = time.time()
    for each in (model, above):
        lake.run(each)
    first, version = find_current(lake, "source"), lake.head(model)
    assert list_sources(lake, model) == [first]
    assert list_sources(lake, above) == [find_current(lake, "m__changes")]
    started_ms = read_newest(lake, above)["refresh-start-timestamp-ms"]
    assert 1000 * before - 1 <= started_ms <= 1000 * time.time()
    lake.load("source", [*ROWS[1:], (4, "d", 40)], COLUMNS)
    for each in (model, above):
        assert lake.run(each).mode == "incremental"
    second = find_current(lake, "m__changes")
    for each in (model, above):
        compact_table(lake.session_of(each), "full")
    assert list_sources(lake, model) == [find_current(lake, "source")] != [first]
    assert list_sources(lake, above) == [second]
    assert read_newest(lake, above)["refresh-start-timestamp-ms"] > started_ms
    restore_version(lake.session_of(model), version)
    compact_table(lake.session_of(model), "full")
    assert list_sources(lake, model) == [first]
