"""Operations that change tables: which of them a name that several tables have stands for."""

from __future__ import annotations

from functools import partial

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName
from arctic_runtime.model.refs import Savepoint
from arctic_runtime.model.state import Commit
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.model.version import Version
from arctic_runtime.operations import changing
from arctic_runtime.operations.operation import OperationContext
from arctic_runtime.operations.registry import get_operation
from arctic_runtime.profile import Profile
from arctic_runtime.refresh_planner import RefreshPlanner
from arctic_runtime.spark.refresh import overwrite


@pytest.mark.parametrize("name", ["build_20261128T083012Z_0a1b", "before_the_move"])
def test_all_tables_with_a_cut_or_a_savepoint_of_one_name_go_back_to_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [Model(TableName("lake", "dwd", table), "", ModelConfig(("id",))) for table in ("a", "b", "new")]
    known = Savepoint(name, Commit(Version("t", 1, 1), None, "append", 5, 0, {}, 0))
    monkeypatch.setattr(changing, "observe_savepoints", lambda _, model: [known] if model != models[2] else [])
    monkeypatch.setattr(
        RefreshPlanner,
        "describe_change_since",
        lambda planner, _: "edited" * (planner.model == models[1]),
    )
    restored: list[tuple[str, str, str | None]] = []

    def note_restore(model: Model, version: str, awaited_cut: str | None) -> dict[str, int]:
        restored.append((model.table.name, version, awaited_cut))
        return {"insert": 0, "update": 0, "delete": 0}

    monkeypatch.setattr(overwrite, "restore_version", note_restore)
    monkeypatch.setattr(OperationContext, "open_table", lambda _, model: model)
    reader = CatalogReader(Profile.for_embedded("/nowhere"))
    context = OperationContext(reader, partial(pytest.fail, "no Spark is needed"), ())
    answer = get_operation("restore").run_operation(context, models, {"version": None, "cut": name})
    assert restored == [("a", name, None), ("b", name, name)]
    assert [table["waits"] for table in answer.data.values()] == [False, True]
    assert answer.lines == (
        f"2 tables are as in {name}",
        "lake.dwd.b waits: its query is not that of the cut",
        "deploy the code of the cut, or run `arctic resume` with these models",
    )
