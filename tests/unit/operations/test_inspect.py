"""Looking at tables without Spark: status and history."""

from __future__ import annotations

from typing import Any

from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.operations.inspect import Consumer, Status, history, status


def a_model(name: str, merge: Any = "on_write", key: tuple[str, ...] = ("id",)) -> Model:
    return Model(TableName("lake", "dwd", name), "select 1", ModelConfig(key, hash_key="id", merge=merge))


ODS, DWD = a_model("ods"), a_model("dwd", "on_read")


def test_status_of_a_model_that_was_not_built_says_only_that(shop) -> None:
    warehouse, _ = shop
    assert status(warehouse.reader, a_model("nothing"), []) == Status("lake.dwd.nothing", built=False)


def test_status_counts_what_is_kept_and_what_is_merged(shop) -> None:
    warehouse, made = shop
    found = status(warehouse.reader, ODS, [])
    assert (found.built, found.version) == (True, str(made["ods"][3].snapshot))
    assert (found.rows, found.nodes, found.versions) == (6, 4, 4)
    assert (found.unmerged_commits, found.unmerged_rows) == (0, 0)
    assert 1 <= found.files <= 4
    assert found.bytes > 0
    assert found.changed_at.endswith("+00:00")


def test_status_counts_what_waits_to_be_merged(shop) -> None:
    warehouse, _ = shop
    found = status(warehouse.reader, DWD, [])
    assert (found.rows, found.nodes, found.versions) == (3, 1, 4)
    assert (found.unmerged_commits, found.unmerged_rows) == (2, 3)


def test_status_names_the_readers_and_how_far_behind_they_are(shop) -> None:
    warehouse, _ = shop
    project = [ODS, DWD, a_model("nothing")]
    assert status(warehouse.reader, ODS, project).consumers == (Consumer("lake.dwd.dwd", 1, 2),)
    assert status(warehouse.reader, DWD, project).consumers == ()


def test_history_lists_runs_newest_first_with_what_they_read(shop) -> None:
    warehouse, made = shop
    entries = history(warehouse.reader, DWD)
    assert [entry.version for entry in entries] == [str(v.snapshot) for v in reversed(made["dwd"])]
    assert [entry.rows for entry in entries] == [1, 2, 1, 3]
    assert [entry.mode for entry in entries] == ["full", "full", "full", "create"]
    assert entries[0].consumed == {"lake.dwd.ods": str(made["ods"][2].snapshot)}
    assert entries[3].consumed == {}
    assert history(warehouse.reader, a_model("nothing")) == ()
