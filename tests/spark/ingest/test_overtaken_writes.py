"""Two processes write the same internal table at the same time: no row comes twice, is lost, or is missing unseen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import ArcticError, CommitConflict
from arctic_runtime.ingest.writing.table_writer import SnapshotStage
from arctic_runtime.model.names import TableName
from arctic_runtime.spark.forget.erase_rows import keep_keys, read_keys
from tests.spark.replay import ORDERS, Part, Replay, event, ingest, source_of
from tests.spark.warehouse import Warehouse


class Before:
    """A failpoint that does something else, once, before an effect takes place."""

    def __init__(self, name: str, action: Callable[[], object]) -> None:
        self.name, self.action, self.is_done = name, action, False

    def __call__(self, name: str, effect: Callable[[], Any]) -> Any:
        if name == self.name and not self.is_done:
            self.is_done = True
            self.action()
        return effect()


@pytest.mark.in_turn
def test_a_dead_letter_is_kept_once_if_another_process_keeps_it_first(lake: Warehouse) -> None:
    lake = lake.under(ingest={"lease_seconds": 0})
    source = replace(source_of(lake, "orders"), max_dead_letters=None)
    good = event("c", None, {"id": 1, "item": "a", "n": 1})
    log = [[Part("public.orders", ORDERS, [good, "{"])], [Part("public.orders", ORDERS, ["["])]]
    for effect, batches in (("ingest.create_dead_letters", 1), ("ingest.append_dead_letters", 2)):
        overtaken = Before(effect, lambda count=batches: ingest(lake, source, Replay(log[:count])))  # type: ignore[misc]
        with set_failpoint(overtaken), suppress(ArcticError):
            ingest(lake, source, Replay(log[:batches]))
        assert overtaken.is_done
        ingest(lake, source, Replay(log[:batches]))
        letters = [row.payload.decode() for row in lake.spark.table(str(source.dead_letter_table)).collect()]
        assert sorted(letters) == ["[", "{"][-batches:]
    assert [row.id for row in lake.spark.table(lake.sql_name("orders")).collect()] == [1]


def test_a_snapshot_whose_rows_another_process_dropped_is_never_published(lake: Warehouse) -> None:
    table = TableName("lake", lake.namespace, "orders")
    stages = [SnapshotStage(table, lake.reader, lambda: lake.spark) for _ in range(2)]
    slow, fast = stages
    rows = lake.spark.range(3)
    assert slow.read_rows(()) is None
    slow.append_rows(rows)
    fast.append_rows(rows)
    fast.drop_rows()
    with pytest.raises(CommitConflict, match="Another process has taken over"):
        slow.read_rows(())
    with pytest.raises(CommitConflict, match="Another process has taken over"):
        slow.append_rows(rows)
    slow.drop_rows()
    assert slow.read_rows(()) is None


@pytest.mark.in_turn
@pytest.mark.parametrize("stored", [[], [7]], ids=["new", "stored"])
def test_keys_to_forget_that_two_requests_add_at_once_are_all_kept(lake: Warehouse, stored: list[int]) -> None:
    table = TableName("lake", lake.namespace, "orders")

    def add(*keys: int) -> None:
        keep_keys(lake.spark, lake.reader, table, lake.spark.createDataFrame([(key,) for key in keys], "k0 int"))

    if stored:
        add(*stored)
    with set_failpoint(Before("forget.keys", lambda: add(2))):
        add(1)
    assert sorted(row.k0 for row in read_keys(lake.spark, table).collect()) == [1, 2, *stored]
