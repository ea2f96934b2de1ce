"""A process may die in the middle of a write, or long before the next run; readers and later runs stay exact."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.dying import run_until
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

COLUMNS = "id int, v string"
CHILD = Path(__file__).with_name("child.py")
Rows = list[tuple[Any, ...]]


def make_model(lake: Warehouse) -> Model:
    return lake.model("m", "select id, v from {s} where v <> 'gone'", primary_key="id")


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


@pytest.mark.parametrize(
    ("table", "effect"),
    [("m__changes", "commit.append"), pytest.param("m", "base.overwrite", marks=pytest.mark.slow)],
    ids=["appends", "merges"],
)
def test_a_killed_process_loses_and_repeats_nothing(lake: Warehouse, table: str, effect: str) -> None:
    """It is killed while it appends to the change table, or while it merges."""
    warehouse = lake.environment.profile.catalog_properties["warehouse"]
    source, model = Source(lake), make_model(lake)
    source.load(dict.fromkeys(range(100), "a"))
    lake.run(model)
    source.load(dict.fromkeys(range(50, 150), "b"))
    child = subprocess.run(
        [sys.executable, str(CHILD), warehouse, lake.namespace, "m", table, effect, model.sql],
        cwd=CHILD.parents[2],
        env={**os.environ, "PYTHONPATH": str(CHILD.parents[2])},
        stderr=subprocess.PIPE,
        timeout=240,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    lake.run(model)
    assert lake.rows(model) == source.expected
    assert lake.broken(model) == []
    assert len(lake.log(model)) == 100 + 100
