"""Savepoints and cuts of builds whose files hold rows to forget."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from arctic_runtime.model.files.expiry import Snapshots
from arctic_runtime.spark.forget import purge
from tests.unit.plan.refresh.test_decide import a_model

SAVEPOINT, CUT, EMPTY = "before-import", "build_20261128T083012Z_0a1b", "build_20261128T093012Z_0a1c"
TAGS = {"orders__changes": {SAVEPOINT: "old"}, "orders": {SAVEPOINT: "old", CUT: "old", EMPTY: "new"}}


class DiskFiles:
    """Files of a table, of which `old` holds rows."""

    def __init__(self, _: object, name: Any, *__: object) -> None:
        self._tags = TAGS[name.name]

    def find_tagged_snapshot(self, tag: str) -> str | None:
        return self._tags.get(tag)

    def list_snapshot_files(self, snapshot: str) -> dict[str, int]:
        return {snapshot: 1}

    def count_rows_under(self, path: str, _: object) -> int:
        return int(path == "old")


def test_a_cut_that_a_dead_build_has_set_in_the_base_alone_is_dropped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model = a_model()
    base = Snapshots(model.base, (), cut_tags={CUT: 1, EMPTY: 2})
    monkeypatch.setattr(purge, "DiskFiles", DiskFiles)
    monkeypatch.setattr(purge, "observe_savepoints", lambda *_: (SimpleNamespace(name=SAVEPOINT),))
    monkeypatch.setattr(purge, "observe_snapshots", lambda *_: base)
    session: Any = SimpleNamespace(model=model, reader=None)
    keys: Any = SimpleNamespace(toArrow=lambda: None)
    assert purge.list_holding_savepoints(session, keys) == (SAVEPOINT, CUT)
