"""Which clones hold rows to forget, over tables that pyiceberg wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from arctic_runtime.catalog.observation.tables import observe_model
from arctic_runtime.model.forgetting import Forget
from arctic_runtime.model.table import Model
from arctic_runtime.spark.forget.clone_search import list_holding_clones
from tests.unit.cloned_tables import DWD, ODS, a_clone, make_clones

ORIGINS = tuple(replace(a_clone(table), table=table) for table in (ODS, DWD))


class Keys:
    """Keys of rows, as Spark returns them."""

    def __init__(self, *keys: int) -> None:
        self._keys = keys

    def toArrow(self) -> pa.Table:  # noqa: N802 - a name of Spark
        return pa.table({"id": pa.array(self._keys, pa.int32())})


@pytest.fixture
def cloned(writing: Any, tmp_path: Path) -> Any:
    return make_clones(writing, tmp_path)[0]


def list_names(warehouse: Any, keys_by_table: Any, given: Any = None, drop_clones: bool = False, **others: Any) -> Any:
    models: dict[Any, Model] = {model.table: model for model in ORIGINS}
    tables: Any = SimpleNamespace(
        root=ORIGINS[0],
        keyed=ORIGINS,
        appended=(),
        reader=warehouse.reader,
        observe_state=lambda model: observe_model(warehouse.reader, model),
        open_session=lambda table: SimpleNamespace(model=models[table], reader=warehouse.reader),
    )
    tables.__dict__.update(others)
    clones = list_holding_clones(tables, Forget(("1",), drop_clones=drop_clones), keys_by_table, given)
    return {clone.origin.model for clone in clones}


def test_a_clone_holds_rows_if_files_of_the_snapshots_that_are_tagged_for_it_have_their_keys(cloned: Any) -> None:
    assert list_names(cloned, {ODS: Keys(1), DWD: Keys(1)}) == {ODS, DWD}
    assert list_names(cloned, {ODS: Keys(1), DWD: Keys(7)}) == {ODS}
    cloned.append("ods", [(7, "later")])
    assert list_names(cloned, {ODS: Keys(7), DWD: Keys(7)}) == set()
    assert list_names(cloned, {}) == set()


def test_keys_that_only_a_clone_still_has_are_searched_by_the_request(cloned: Any) -> None:
    assert list_names(cloned, {}, Keys(2)) == {ODS}


def test_all_clones_of_tables_with_rows_are_listed_if_they_are_to_be_dropped(cloned: Any) -> None:
    assert list_names(cloned, {DWD: Keys(7)}, drop_clones=True) == {DWD}


def test_a_clone_that_was_run_may_have_the_rows_under_other_keys(cloned: Any) -> None:
    cloned.reader.load_table("dev", "dwd__changes").append(
        cloned.reader.load_table("dev", "dwd__changes").scan().to_arrow()
    )
    assert list_names(cloned, {ODS: Keys(7)}) == {DWD}


def test_a_clone_without_tags_may_have_the_rows(cloned: Any) -> None:
    table = cloned.load("ods__changes")
    for name in [name for name in table.metadata.refs if name.startswith("arctic_clone_")]:
        table.manage_snapshots().remove_tag(name).commit()
    assert list_names(cloned, {}) == {ODS}
    cloned.reader.catalog.drop_table(("dwd", "dwd__changes"))
    assert list_names(cloned, {}) == {ODS, DWD}


def test_a_clone_of_a_table_without_a_key_may_have_the_rows(cloned: Any) -> None:
    config = replace(ORIGINS[1].config, primary_key=(), is_appended=True)
    appended = replace(ORIGINS[1], config=config)
    assert list_names(cloned, {}, keyed=ORIGINS[:1], appended=(appended,)) == {DWD}
