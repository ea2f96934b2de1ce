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
from arctic_runtime.spark.refresh import overwrite


@pytest.mark.parametrize("name", ["build_20261128T083012Z_0a1b", "before_the_move"])
def test_all_tables_with_a_cut_or_a_savepoint_of_one_name_go_back_to_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [Model(TableName("lake", "dwd", table), "", ModelConfig(("id",))) for table in ("a", "b", "new")]
    known = Savepoint(name, Commit(Version("t", 1, 1), None, "append", 5, 0, {}, 0))
    monkeypatch.setattr(changing, "observe_savepoints", lambda _, model: [known] if model != models[2] else [])
    restored: list[tuple[str, str]] = []

    def note_restore(model: Model, version: str) -> dict[str, int]:
        restored.append((model.table.name, version))
        return {"insert": 0, "update": 0, "delete": 0}

    monkeypatch.setattr(overwrite, "restore_version", note_restore)
    monkeypatch.setattr(OperationContext, "open_table", lambda _, model: model)
    reader = CatalogReader(Profile.for_embedded("/nowhere"))
    context = OperationContext(reader, partial(pytest.fail, "no Spark is needed"), ())
    get_operation("restore").run_operation(context, models, {"version": None, "cut": name})
    assert restored == [("a", name), ("b", name)]
