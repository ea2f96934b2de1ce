"""A process may die between any two of a run's effects; the next run makes everything exact."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.dying import Life, run_until
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

COLUMNS = "id int, v string, lsn bigint"
CHILD = Path(__file__).with_name("child.py")
MOST_EFFECTS = 20
Rows = list[tuple[Any, ...]]


def make_model(lake: Warehouse, kind: str, merge: str, name: str = "m") -> Model:
    if kind == "state":
        return lake.model(name, "select id, v from {s} where v <> 'gone'", primary_key="id", merge=merge)
    return lake.model(
        name,
        "select id, v, lsn from {changes(s)}",
        primary_key="id",
        input="changes",
        sequence_by="lsn",
        delete_when="v = 'gone'",
        exclude_columns=["lsn"],
        merge=merge,
    )


class Source:
    """Rows that come, change and go, as a table's state or as its events."""

    def __init__(self, lake: Warehouse, kind: str) -> None:
        self.lake, self.kind = lake, kind
        self.rows: dict[int, str] = {}
        self.lsn = 0

    def load(self, changed: dict[int, str]) -> None:
        self.rows.update(changed)
        self.lsn += 1
        if self.kind == "state":
            self.lake.load("s", [(key, v, 0) for key, v in self.rows.items()], COLUMNS)
        else:
            self.lake.append_v2("s", [(key, v, self.lsn) for key, v in changed.items()], COLUMNS)

    @property
    def expected(self) -> Rows:
        return sorted(((key, v) for key, v in self.rows.items() if v != "gone"), key=repr)


def cases(*quick: tuple[str, str]) -> pytest.MarkDecorator:
    every = list(itertools.product(("state", "changes"), ("on_write", "on_read")))
    marked = [case if case in quick else pytest.param(*case, marks=pytest.mark.slow) for case in every]
    return pytest.mark.parametrize(("kind", "merge"), marked)


@cases(("changes", "on_read"))
def test_a_first_run_may_die_anywhere(lake: Warehouse, kind: str, merge: str) -> None:
    source = Source(lake, kind)
    source.load({1: "a", 2: "b", 3: "c"})
    for last in range(MOST_EFFECTS):
        model = make_model(lake, kind, merge, f"m{last}")
        life = run_until(lake, model, last)
        lake.run(model)
        assert lake.rows(model) == source.expected, told(life)
        assert [(row["_action"], row["id"]) for row in lake.log(model)] == [("insert", i) for i in (1, 2, 3)], told(
            life
        )
        if life is None:
            break
        assert len(life.effects) == last
    assert life is None
    assert lake.broken(model) == []


@cases(("state", "on_write"), ("changes", "on_read"))
def test_a_later_run_may_die_anywhere(lake: Warehouse, monkeypatch: pytest.MonkeyPatch, kind: str, merge: str) -> None:
    monkeypatch.setattr("arctic_runtime.model.branch.ABANDONED_MS", -1)
    source, model = Source(lake, kind), make_model(lake, kind, merge)
    source.load({1: "a", 2: "b", 3: "c"})
    lake.run(model)
    for last in range(MOST_EFFECTS):
        source.load({1: f"a{last}", 2: "gone" if last % 2 else f"b{last}", last + 3: "gone", last + 4: f"n{last}"})
        life = run_until(lake, model, last)
        lake.run(model)
        assert lake.rows(model) == source.expected, told(life)
        if life is None:
            break
        assert len(life.effects) == last
    assert life is None
    assert lake.broken(model) == []
    assert consumed_once(lake, model)
    assert len(lake.branches(model)) <= 1


def test_a_reader_never_takes_a_table_that_a_dead_run_left_behind_for_a_newer_one(lake: Warehouse) -> None:
    """The upstream's change table is ahead of its base then, and the base is what its readers see."""
    source, upstream = Source(lake, "state"), make_model(lake, "state", "on_write")
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
    source = Source(lake, "state")
    source.load(dict.fromkeys(range(100), "a"))
    sql = make_model(lake, "state", "on_write").sql
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


def told(life: Life | None) -> str:
    return "it lived" if life is None else f"it died after {life.effects[-1] if life.effects else 'nothing'}"


def consumed_once(lake: Warehouse, model: Model) -> bool:
    """Whether every loading commit consumed something that none before had."""
    changes = lake.state(model).changes
    assert changes is not None
    consumed = [c.summary["arctic.consumed"] for c in changes.commits if "arctic.run" in c.summary]
    return len(consumed) == len(set(consumed))
