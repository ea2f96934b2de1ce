"""The dead letter table keeps few snapshots, however many batches have dead letters. The catalog is simulated."""

from __future__ import annotations

import datetime
import time
from typing import Any

import pytest

from arctic_runtime.ingest.dead_letters.table import DeadLetterTable, decode_ids, encode_ids
from arctic_runtime.model.names import TableName
from arctic_runtime.profile import Profile
from arctic_runtime.thresholds import IngestThresholds, Thresholds
from tests.simulation.lake import Catalog
from tests.simulation.runtime import Reader
from tests.simulation.spark import Spark

TABLE = TableName("lake", "ods", "shop__dead_letters")
NAME = (TABLE.schema, TABLE.name)
FEW = IngestThresholds(dead_letter_snapshots=6, kept_dead_letter_snapshots=3)
NOW = datetime.datetime(2024, 5, 1, tzinfo=datetime.timezone.utc)


class Machine:
    """A catalog with a dead letter table, to which each batch adds a snapshot."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lake = Catalog(time.time)
        self.lake.create_table(NAME, (), {}, ((), {}))
        profile = Profile("lake", {"type": "rest", "uri": "http://catalog"}, thresholds=Thresholds(ingest=FEW))
        spark: Any = Spark(self.lake)
        self.table = DeadLetterTable(TABLE, Reader(profile, self.lake, lambda _: None), lambda: spark)
        monkeypatch.setattr(self.table, "_add_once", lambda *_: self.lake.commit(NAME, "main", "append", (), {}))

    def add(self, batches: int) -> None:
        nothing: Any = None
        for _ in range(batches):
            self.table.add_dead_letters(nothing, "shop.orders", "1", NOW)

    @property
    def snapshots(self) -> set[int]:
        return {snapshot.snapshot_id for snapshot in self.lake.get_table(NAME).snapshots}


def test_old_snapshots_expire_and_those_of_branches_and_tags_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    (first,) = machine.snapshots
    machine.lake.set_tag(NAME, "user", first)
    machine.add(20)
    assert first in machine.snapshots
    assert len(machine.snapshots) <= FEW.dead_letter_snapshots + 1


def test_dead_letters_are_kept_although_another_writer_keeps_snapshots_from_expiry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    expire = machine.lake.expire

    def tag_first(name: tuple[str, str], ids: Any, deletes_files: bool = True) -> None:
        machine.lake.set_tag(name, "user", next(iter(ids)))
        expire(name, ids, deletes_files)

    monkeypatch.setattr(machine.lake, "expire", tag_first)
    machine.add(10)
    assert len(machine.snapshots) > FEW.dead_letter_snapshots


def test_letters_are_read_as_they_were_written_in_ranges() -> None:
    letters = [(7, -1, number) for number in (1, 2, 3, 5, 9, 10)] + [(8, 2, 1)]
    text = encode_ids(letters)
    assert text == "[[7,-1,[[1,3],[5,5],[9,10]]],[8,2,[[1,1]]]]"
    assert decode_ids(text) == set(letters)
