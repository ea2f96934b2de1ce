"""A process may die in the middle of a write, or long before the next run; readers and later runs stay exact."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.crash.dying import run_until
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

COLUMNS = "id int, v string"
CHILD = Path(__file__).with_name("child.py")
Rows = list[tuple[Any, ...]]


def make_model(lake: Warehouse, name: str = "m") -> Model:
    return lake.model(name, "select id, v from {s} where v <> 'gone'", primary_key="id")


class Source:
    """Rows that come, change and go."""

    def __init__(self, lake: Warehouse) -> None:
        self.lake = lake
        self.rows: dict[int, str] = {}

    def load(self, changed: dict[int, str]) -> None:
        self.rows.update(changed)
        self.lake.load("s", list(self.rows.items()), COLUMNS)

    @property
    def expected(self) -> Rows:
        return sorted(((key, v) for key, v in self.rows.items() if v != "gone"), key=repr)


def test_a_reader_never_takes_a_table_that_a_dead_run_left_behind_for_a_newer_one(lake: Warehouse) -> None:
    """The upstream's change table is ahead of its base then, and the base is what its readers see."""
    source, upstream = Source(lake), make_model(lake)
    downstream = lake.model("down", "select max(v) as v from {m}", primary_key=[])
    source.load({1: "a"})
    lake.run(upstream)
    source.load({1: "b"})
    life = run_until(lake, upstream, 4)
    assert life is not None
    assert life.effects[2] == "commit.publish"
    lake.run(downstream)
    assert lake.rows(downstream) == [("a",)]
    lake.run(upstream)
    lake.run(downstream)
    assert lake.rows(downstream) == [("b",)]


def test_killed_processes_lose_and_repeat_nothing(lake: Warehouse) -> None:
    """One is killed while it appends to the change table, one while it merges."""
    warehouse = lake.environment.profile.catalog_properties["warehouse"]
    source = Source(lake)
    source.load(dict.fromkeys(range(100), "a"))
    sql = make_model(lake).sql
    models = {"appends": ("appends__changes", "commit.append"), "merges": ("merges", "base.overwrite")}
    made = {name: lake.model(name, sql, primary_key="id") for name in models}
    for model in made.values():
        lake.run(model)
    source.load(dict.fromkeys(range(50, 150), "b"))
    children = [
        subprocess.Popen(
            [sys.executable, str(CHILD), warehouse, lake.namespace, name, *dies_at, sql],
            cwd=CHILD.parents[2],
            env={**os.environ, "PYTHONPATH": str(CHILD.parents[2])},
            stderr=subprocess.PIPE,
        )
        for name, dies_at in models.items()
    ]
    for child in children:
        _, said = child.communicate(timeout=120)
        assert child.returncode == -signal.SIGKILL, said.decode()
    for model in made.values():
        lake.run(model)
        assert lake.rows(model) == source.expected
        assert lake.broken(model) == []
        assert len(lake.log(model)) == 100 + 100
