"""Savepoints: expiry keeps them, engines read them by name, and a table goes back to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.spark.maintenance.savepoint import drop_savepoint, make_savepoint
from arctic_runtime.spark.maintenance.window_changes import read_changes_between
from arctic_runtime.spark.refresh.overwrite import restore_version
from tests.spark.maintenance.test_expiry import expiring, snapshots
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

NAME = "before `the` move"


def put(lake: Warehouse, model: Model, *rows: tuple[int, str]) -> None:
    lake.load("s", rows, "id int, v string")
    lake.run(model)


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
def test_a_table_is_restored_to_a_savepoint_after_later_versions_expired(lake: Warehouse, merge: str) -> None:
    config: dict[str, Any] = {"primary_key": "id", "merge": merge, "retention": {"versions": "1d"}}
    model = lake.model("m", "select id, v from {s}", **config)
    put(lake, model, (1, "a"), (2, "b"))
    put(lake, model, (1, "A"), (2, "b"), (3, "c"))
    good = lake.head(model)
    made = make_savepoint(lake.session_of(model), NAME)
    assert made.commit.version.snapshot == good
    for v in ("x", "y"):
        put(lake, model, (1, v), (4, v))
    if merge == "on_write":
        old = lake.spark.read.option("versionAsOf", NAME).table(lake.sql_name("m")).collect()
        assert sorted(tuple(row) for row in old) == [(1, "A"), (2, "b"), (3, "c")]
    assert make_savepoint(lake.session_of(model), NAME, str(good)) == made
    with pytest.raises(ConfigError, match="the savepoint"):
        make_savepoint(lake.session_of(model), NAME)
    expiring(lake, model)
    state = lake.state(model)
    assert state.changes is not None
    assert good not in [commit.version.snapshot for commit in state.changes.commits]
    changes = read_changes_between(lake.session_of(model), NAME, lake.head(model), 10)
    assert {(row["_action"], row["id"], row["v"]) for row in changes[-2:]} == {("update", 1, "y"), ("update", 4, "y")}
    assert len(changes) == 6
    assert restore_version(lake.session_of(model), NAME) == {"insert": 2, "update": 1, "delete": 1, "upsert": 0}
    assert lake.rows(model) == [(1, "A"), (2, "b"), (3, "c")]
    assert lake.broken(model) == []
    before = snapshots(lake, model)
    drop_savepoint(lake.session_of(model), NAME)
    expiring(lake, model)
    assert snapshots(lake, model)[0] < before[0]
    with pytest.raises(ConfigError, match="has no savepoint"):
        restore_version(lake.session_of(model), NAME)
    assert lake.rows(model) == [(1, "A"), (2, "b"), (3, "c")]
