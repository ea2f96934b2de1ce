"""`arctic clones`: who stands on a table, since when, and what is kept for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.operations.clones import CLONES
from arctic_runtime.operations.operation import Answer, OperationContext
from tests.unit.cloned_tables import DWD, ODS, make_clones

CONFIG = ModelConfig(("id",), hash_key="id")


@pytest.fixture
def cloned(writing: Any, tmp_path: Path) -> tuple[Any, dict[str, Model]]:
    return make_clones(writing, tmp_path)


def show(warehouse: Any, *models: Model) -> Answer:
    def refuse() -> Any:
        raise AssertionError("Spark was asked")

    return CLONES.run_operation(OperationContext(warehouse.reader, refuse, models), models, {})


def test_clones_of_a_table_are_shown_with_what_they_keep(cloned: Any) -> None:
    warehouse, models = cloned
    answer = show(warehouse, Model(ODS, "", CONFIG), Model(DWD, "", CONFIG))
    assert [(info["clone"], info["exists"], info["owner"], info["kept_bytes"]) for info in answer.data["clones"]] == [
        (str(models[name].table), True, "me", 0) for name in ("ods", "dwd")
    ]
    assert answer.lines[0].startswith("lake.dwd.ods: clone lake.dev.ods, made 1970-01-01 00:00 UTC by me, used 2")
    warehouse.load("ods").delete("id >= 0")
    (info,) = show(warehouse, Model(ODS, "", CONFIG)).data["clones"]
    assert info["kept_bytes"] > 0
    warehouse.reader.catalog.drop_table(("dev", "ods__changes"))
    (line,) = show(warehouse, Model(ODS, "", CONFIG)).lines
    assert "does not exist any more, or not yet" in line


def test_a_clone_says_what_it_is_a_clone_of(cloned: Any) -> None:
    warehouse, models = cloned
    answer = show(warehouse, models["ods"])
    version = warehouse.version("ods__changes").snapshot
    assert answer.lines == (
        f"lake.dev.ods: a clone of lake.dwd.ods at version {version}, made 1970-01-01 00:00 UTC by me",
    )
    assert answer.data["origins"][0]["origin"] == "lake.dwd.ods"


def test_without_clones_there_is_one_line(shop: Any) -> None:
    assert show(shop[0], Model(ODS, "", CONFIG)).lines == ("no clones",)
