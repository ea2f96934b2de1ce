"""Runs, compaction, expiry, savepoints and readers at the same time, each in a thread and a session of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import CommitConflict
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.maintenance.expiry import expire_versions
from arctic_runtime.spark.maintenance.savepoint import make_savepoint
from arctic_runtime.spark.tables.table_session import TableSession
from tests.spark.maintenance.test_expiry import LATER
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

EVENTS = "id int, region string, v int, lsn bigint"
ROUNDS = 4


def in_threads(lake: Warehouse, actions: list[Callable[[Callable[[], Any]], object]]) -> None:
    """All at once; who gives way to a writer has done what was promised."""
    together = threading.Barrier(len(actions))

    def act(action: Callable[[Callable[[], Any]], object]) -> None:
        session = lake.environment.new_session()
        together.wait()
        with suppress(CommitConflict):
            action(lambda: session)

    with ThreadPoolExecutor(len(actions)) as threads:
        list(threads.map(act, actions))


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_upkeep_alongside_runs_loses_and_resurrects_no_row(lake: Warehouse, merge: str) -> None:
    sql = "select id, region, v, lsn from {changes(events)}"
    config: dict[str, Any] = {"primary_key": "id", "input": "changes", "sequence_by": "lsn", "delete_when": "v < 0"}
    config |= {"exclude_columns": ["lsn"], "partition_by": ["region"], "merge": merge}
    model = lake.model("m", sql, retention={"versions": "1d"}, **config)
    down = lake.model("down", "select region, sum(v) as v from {m} group by region", primary_key="region")
    expected: dict[int, tuple[int, str, int]] = {}
    lsn = 0

    def come(number: int) -> None:
        nonlocal lsn
        rows = []
        for key in range(number, number + 9):
            lsn += 1
            row = (key, "eu" if (key + number) % 2 else "us", -1 if (key + number) % 5 == 0 else lsn)
            rows.append((*row, lsn))
            expected.pop(key, None)
            expected.update({} if row[2] < 0 else {key: row})
        lake.append("events", rows, EVENTS)

    def session_of(model: Model, session: Callable[[], Any]) -> TableSession:
        return lake.session_of(model, session)

    def expire_later(session: Callable[[], Any]) -> None:
        later = lake.session_of(model).now + LATER
        expire_versions(lake.session_of(model, session, later), [down.table])

    come(1)
    lake.run(model)
    lake.run(down)
    for number in range(2, 2 + ROUNDS):
        come(number)
        in_threads(
            lake,
            [
                lambda session: lake.refresh_of(model, session).run_refresh(),
                lambda session: compact_table(session_of(model, session), "full"),
                expire_later,
                lambda session, number=number: make_savepoint(session_of(model, session), f"round {number}"),
                lambda session: lake.refresh_of(down, session).run_refresh(),
            ],
        )
    lake.run(model)
    lake.run(down)
    assert lake.rows(model) == sorted(expected.values(), key=repr)
    assert lake.broken(model) == []
    assert lake.broken(down) == []
