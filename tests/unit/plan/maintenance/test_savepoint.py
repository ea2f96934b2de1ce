"""Savepoints as plans and as they are observed: which tags make one, and what they keep."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arctic_runtime.catalog.observation.tables import observe_savepoints
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.files.expiry import DatedSnapshot, Snapshots
from arctic_runtime.model.names import TableName
from arctic_runtime.model.refs import Savepoint, SetTag
from arctic_runtime.model.state import Commit
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.model.version import Version
from arctic_runtime.operations.inspect import describe_history, read_history, read_status
from arctic_runtime.plan.maintenance.savepoint import find_savepoint, plan_savepoint, plan_savepoint_drop

TABLE = TableName("lake", "dwd", "orders")
MODEL = Model(TABLE, "", ModelConfig(("id",), hash_key="id"))
DWD = Model(TABLE.with_name("dwd"), "", ModelConfig(("id",), hash_key="id", merge="on_read"))


def v(number: int) -> Version:
    return Version("log", 100 + number, number)


def a_commit(number: int) -> Commit:
    return Commit(v(number), None, "append", 1, 1, {}, 0)


BASE = Snapshots(
    TABLE, tuple(DatedSnapshot(200 + i, i, 0, merged) for i, merged in enumerate((v(1), None, v(3), v(5)), start=1))
)


def test_the_base_keeps_the_newest_rows_that_are_merged_no_further() -> None:
    assert plan_savepoint(MODEL, "good", a_commit(4), BASE, ()) == (
        SetTag(TABLE.changes, "good", 104),
        SetTag(TABLE, "good", 203),
    )


def test_of_a_base_that_is_merged_further_nothing_is_kept() -> None:
    assert plan_savepoint(MODEL, "good", a_commit(0), BASE, ()) == (SetTag(TABLE.changes, "good", 100),)


def test_a_savepoint_is_made_twice_at_one_version_and_never_moved() -> None:
    known = (Savepoint("good", a_commit(4)),)
    assert plan_savepoint(MODEL, "good", a_commit(4), BASE, known) == plan_savepoint(
        MODEL, "good", a_commit(4), BASE, ()
    )
    with pytest.raises(ConfigError, match=r"found: good at version 104\n  what to do: choose another name, or drop"):
        plan_savepoint(MODEL, "good", a_commit(5), BASE, known)


@pytest.mark.parametrize("name", ["", " ", "17", "main", "arctic_view_1"])
def test_names_that_mean_something_else_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid name of a savepoint"):
        plan_savepoint(MODEL, name, a_commit(4), BASE, ())


def test_the_change_table_loses_its_tag_last() -> None:
    known = (Savepoint("good", a_commit(4)),)
    assert plan_savepoint_drop(MODEL, "good", known) == (
        SetTag(TABLE, "good", None),
        SetTag(TABLE.changes, "good", None),
    )
    with pytest.raises(ConfigError, match=r"has no savepoint bad.\n  found: good"):
        find_savepoint(MODEL, "bad", known)
    with pytest.raises(ConfigError, match=r"has no savepoint good.\n  found: none"):
        plan_savepoint_drop(MODEL, "good", ())


def test_tags_of_the_change_table_are_savepoints_and_shown(shop) -> None:
    warehouse, made = shop
    (savepoint,) = observe_savepoints(warehouse.reader, DWD)
    assert (savepoint.name, savepoint.commit.version) == ("keep", made["dwd"][0])
    assert read_status(warehouse.reader, DWD, []).savepoints == {"keep": str(made["dwd"][0].snapshot)}
    entries = read_history(warehouse.reader, DWD)
    assert [entry.savepoints for entry in entries] == [(), (), (), ("keep",)]
    (line,), (without,) = (describe_history(version) for version in (entries[3], replace(entries[3], savepoints=())))
    assert line.endswith("3 rows  (keep)")
    assert without.endswith("3 rows")
    assert observe_savepoints(warehouse.reader, replace(DWD, table=TABLE)) == ()
