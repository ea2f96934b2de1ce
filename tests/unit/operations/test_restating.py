"""What the models below a restated table would read."""

from __future__ import annotations

from arctic_runtime.model.names import TableName
from arctic_runtime.operations.restating import ReaderBelow, list_readers_below


def name(table: str) -> TableName:
    return TableName("lake", "dwd", table)


def test_readers_count_the_change_rows_of_what_they_read_and_those_below_them_do_not() -> None:
    changed = {"lake.dwd.m": 5, "lake.dwd.m__quarantine": 2}
    reads = {
        name("m"): ["lake.ods.orders"],
        name("both"): ["lake.dwd.m", "lake.dwd.m__quarantine"],
        name("direct"): ["lake.dwd.m", "lake.ods.orders"],
        name("mixed"): ["lake.dwd.m", "lake.dwd.direct"],
        name("last"): ["lake.dwd.mixed"],
        name("other"): ["lake.ods.orders"],
    }
    assert list_readers_below(changed, reads) == (
        ReaderBelow("lake.dwd.both", ("lake.dwd.m", "lake.dwd.m__quarantine"), 7),
        ReaderBelow("lake.dwd.direct", ("lake.dwd.m",), 5),
        ReaderBelow("lake.dwd.mixed", ("lake.dwd.m",), 5),
        ReaderBelow("lake.dwd.last", ("lake.dwd.mixed",), None),
    )


def test_models_that_read_each_other_are_listed_once() -> None:
    reads = {name("a"): ["lake.dwd.m", "lake.dwd.b"], name("b"): ["lake.dwd.a"]}
    assert [reader.table for reader in list_readers_below({"lake.dwd.m": 1}, reads)] == ["lake.dwd.a", "lake.dwd.b"]
