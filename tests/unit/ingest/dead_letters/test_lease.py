"""The lease on a source goes on when a process has died while it took it. The catalog and Spark are simulated."""

from __future__ import annotations

import time
from typing import Any

import pytest

from arctic_runtime.ingest.dead_letters.lease import SourceLease
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import BRANCH_PREFIX
from arctic_runtime.profile import Profile
from arctic_runtime.thresholds import IngestThresholds, Thresholds
from tests.simulation.lake import Catalog
from tests.simulation.runtime import Reader
from tests.simulation.spark import Spark

TABLE = TableName("lake", "ods", "shop__dead_letters")
NAME = (TABLE.schema, TABLE.name)
FEW = IngestThresholds(dead_letter_snapshots=6, kept_dead_letter_snapshots=3)
LEFT = f"{BRANCH_PREFIX}left"


class Machine:
    """A catalog, and the lease of a process on a source in it."""

    def __init__(self) -> None:
        self.now = time.time()
        self.lake = Catalog(lambda: self.now)
        self.lake.create_table(NAME, (), {}, ((), {}))
        profile = Profile("lake", {"type": "rest", "uri": "http://catalog"}, thresholds=Thresholds(ingest=FEW))
        spark: Any = Spark(self.lake)
        self.lease = SourceLease(TABLE, Reader(profile, self.lake, lambda _: None), lambda: spark)

    def renew(self, times: int) -> None:
        for _ in range(times):
            assert self.lease.take_lease() is None


@pytest.mark.parametrize("has_written", [False, True])
def test_the_branch_of_a_process_that_died_does_not_end_the_lease(has_written: bool) -> None:
    machine = Machine()
    head = machine.lake.get_table(NAME).current_snapshot_id
    assert head is not None
    machine.lake.create_branch(NAME, LEFT, head)
    if has_written:
        machine.lake.commit(NAME, LEFT, "append", (), {})
    machine.renew(20)
    table = machine.lake.get_table(NAME)
    assert LEFT in table.refs
    assert len(table.snapshots) <= FEW.dead_letter_snapshots + 2


def test_a_branch_that_was_left_a_day_ago_is_dropped() -> None:
    machine = Machine()
    long_ago = machine.now - 2 * 86_400
    machine.now = long_ago
    machine.lake.commit(NAME, "main", "append", (), {})
    head = machine.lake.get_table(NAME).current_snapshot_id
    assert head is not None
    machine.lake.create_branch(NAME, LEFT, head)
    machine.now = time.time()
    machine.renew(10)
    table = machine.lake.get_table(NAME)
    assert set(table.refs) == {"main"}
    assert all(one.timestamp_ms > long_ago * 1000 + 1000 for one in table.snapshots)


def test_a_lease_is_held_although_another_writer_keeps_old_snapshots_from_expiry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    expire = machine.lake.expire

    def tag_first(name: tuple[str, str], ids: Any, deletes_files: bool = True) -> None:
        machine.lake.set_tag(name, "user", next(iter(ids)))
        expire(name, ids, deletes_files)

    monkeypatch.setattr(machine.lake, "expire", tag_first)
    machine.renew(10)
    assert machine.lease.is_own()
