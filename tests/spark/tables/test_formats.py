"""Bases of format version 2: merged and compacted as others are, and made from a base of another version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.catalog.observation.manifests import observe_files
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.step import DropTable
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.tables.steps import perform_step
from tests.spark.warehouse import Warehouse, refuse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

COLUMNS = "id int, region string, v int"


class Shop:
    """A model whose base is of one version and then of another, over a source that changes."""

    def __init__(self, lake: Warehouse, merge: str) -> None:
        self.lake = lake
        self.merge = merge
        self.rows = {key: (key, ("eu", "it's", None)[key % 3], key) for key in range(120)}
        self.lake.load("s", list(self.rows.values()), COLUMNS)

    def model(self, version: int, **more: Any) -> Model:
        config: dict[str, Any] = {"partition_by": ["region"], "nodes": 2, "merge": self.merge, **more}
        sql = "select id, region, v from {s}"
        return self.lake.model("m", sql, primary_key="id", format_version=version, **config)

    def change(self, version: int) -> None:
        """So many rows that a table merged on read is merged too."""
        self.rows |= {key: (key, self.rows[key][1], 1000 * version + key) for key in sorted(self.rows)[::3]}
        del self.rows[7 * version]
        self.lake.load("s", list(self.rows.values()), COLUMNS)

    def is_right(self, model: Model, version: int) -> bool:
        format_version = self.lake.reader.load_table(model.base.schema, model.base.name).format_version
        is_whole = self.lake.rows(model) == sorted(self.rows.values(), key=repr)
        return format_version == version and is_whole and self.lake.broken(model) == []

    def deleted(self, model: Model) -> int:
        """Deleted rows as compaction sees them."""
        files = observe_files(self.lake.reader, model.base)
        assert files is not None
        return sum(file.deleted for node in files.file_groups for file in node.files)


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_a_base_goes_to_version_2_and_back_and_its_readers_see_no_change(lake: Warehouse, merge: str) -> None:
    shop = Shop(lake, merge)
    newer, older = shop.model(3), shop.model(2)
    lake.run(newer)
    with pytest.raises(ConfigError, match="the layout of the table differs"):
        lake.run(shop.model(2, on_configuration_change="fail"))
    down = lake.model("down", "select id, v from {m}", primary_key="id")
    lake.run(down)
    assert lake.actions(lake.run(older, full_refresh=True)) == (0, 0, 0)
    assert lake.run(down, refuse).mode == "unchanged"
    shop.change(1)
    lake.run(older)
    assert shop.deleted(older) == 41
    assert shop.is_right(older, 2)
    compact_table(lake.session_of(older), "full")
    assert shop.deleted(older) == 0
    assert shop.is_right(older, 2)
    assert lake.actions(lake.run(down)) == (0, 40, 1)
    assert lake.actions(lake.run(newer, full_refresh=True)) == (0, 0, 0)
    shop.change(2)
    lake.run(newer)
    assert shop.is_right(newer, 3)


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_a_run_that_dies_between_dropping_and_recreating_a_base_is_completed_by_the_next(
    lake: Warehouse, merge: str
) -> None:
    shop = Shop(lake, merge)
    lake.run(shop.model(3))
    older = shop.model(2)
    session = lake.session_of(older)
    perform_step(DropTable(older.base), session.build_context(session.observe_state()))
    assert lake.run(older).mode == "unchanged"
    assert shop.is_right(older, 2)
