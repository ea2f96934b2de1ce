"""Splitting nodes: files move to a deeper level, and whoever reads or writes the table sees no change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.files import observe_files, observe_specs
from arctic_runtime.inspect import lookup
from arctic_runtime.model.compaction import Relevel
from arctic_runtime.plan.trees import Unit, units
from arctic_runtime.spark import execute
from arctic_runtime.spark.compaction import compact, split
from tests.spark.warehouse import Warehouse, refuse

if TYPE_CHECKING:
    from arctic_runtime.spark.compaction import Compacted

COLUMNS = "`i.d` int, `re``gion` string, v int"
SQL = "select `i.d`, `re``gion`, v from {s}"
ALL = 1


class Shop:
    """A model with deleted rows, and what it must hold; its limit is given with what is asked of it."""

    def __init__(self, lake: Warehouse, monkeypatch: pytest.MonkeyPatch, nodes: int = 2, **config: Any) -> None:
        monkeypatch.setattr(execute, "REWRITTEN_ROWS", 0)
        self.lake = lake
        self.config = {"primary_key": "i.d", "nodes": nodes, "compaction": "off", **config}
        self.rows: dict[int, tuple[int, str | None, int]] = {}
        self.put(range(80), 0)
        self.put([1, 2, 3, 4, 5, 6], 100, gone=[7, 8])

    def model(self, limit: int = 2**40) -> Any:
        return self.lake.model("m", SQL, **self.config, node_bytes=limit)

    def put(self, keys: Any, v: int, gone: Any = ()) -> None:
        self.rows |= {key: (key, ("eu", "it's $1", None)[key % 3], v + key) for key in keys}
        for key in gone:
            del self.rows[key]
        self.lake.load("s", list(self.rows.values()), COLUMNS)
        self.lake.run(self.model())

    def split(self, limit: int) -> Compacted:
        return split(self.lake.make_run(self.model(limit)))

    def units(self) -> list[Unit]:
        found = observe_files(self.lake.reader, self.model().base)
        assert found is not None
        made = units(found, "i.d")
        assert made is not None
        return made

    def places(self) -> list[list[str]]:
        return sorted(sorted({str(place) for place in unit.places}) for unit in self.units())

    @property
    def default(self) -> list[str]:
        specs = observe_specs(self.lake.reader, self.model().base)
        return [str(of) for of in specs.transforms[specs.default]]

    def check(self) -> None:
        """The table is right for who reads it, looks a row up or verifies it, and nothing is left behind."""
        model = self.model()
        assert self.lake.rows(model) == sorted(self.rows.values(), key=repr)
        for key in (1, 7, 40):
            found = lookup(self.lake.reader, model, [str(key)]).row
            assert (tuple(found.values()) if found else None) == self.rows.get(key)
        assert self.lake.broken(model) == []
        assert self.lake.branches(model) == set()


@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
def test_one_node_splits_alone_and_the_table_is_right_while_two_depths_lie_side_by_side(
    lake: Warehouse, merge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merges, views, models above and lookups go on, and so does compaction."""
    shop = Shop(lake, monkeypatch, merge=merge)
    down = lake.model("down", "select `i.d` as id, v from {m} where v >= 0", primary_key="id")
    lake.run(down)
    if merge == "on_read":
        compact(lake.make_run(shop.model()), "major")
    sizes = sorted(unit.bytes for unit in shop.units())
    monkeypatch.setattr("arctic_runtime.plan.relevel.ABOUT_TO", 2)
    (step,) = shop.split(sizes[-1] - 1).steps
    assert isinstance(step, Relevel)
    assert (step.direction, step.depth, len(step.nodes)) == ("split", 2, 1)
    assert sorted(len(unit.places) for unit in shop.units()) == [1, 1, 1]
    assert sorted(unit.depth for unit in shop.units()) == [1, 2, 2]
    assert not any(file.deleted for unit in shop.units() for file in unit.files if unit.depth == 2)
    shop.check()
    assert lake.run(shop.model(), refuse).mode == "unchanged"
    assert lake.run(down, refuse).mode == "unchanged"
    shop.put([1, 40, 90, 91, 92, 93], 500, gone=[10])
    shop.check()
    outcome = lake.run(down)
    assert (outcome.mode, lake.actions(outcome)) == ("incremental", (4, 2, 1))
    compact(lake.make_run(shop.model()), "full")
    assert not any(unit.is_mixed or any(file.deleted for file in unit.files) for unit in shop.units())
    assert {(unit.depth, len(unit.files)) for unit in shop.units()} == {(1, 1)}
    shop.check()
