"""Libraries that commands which only look do not load, since each takes longer to load than the answer to compute."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

DATABASES = {"dbt", "duckdb", "pyspark", "sqlalchemy", "sqlglot"}
SLOW = {*DATABASES, "fsspec", "pandas", "pyarrow", "pydantic", "pyiceberg.schema", "pyiceberg.table", "requests"}
CODE = """
import json, sys
from pathlib import Path
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.operations.operation import OperationContext
from arctic_runtime.operations.registry import get_operation
from arctic_runtime.profile import Profile

folder, name, arguments = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
names = ("ods", "dwd")
configs = {"ods": ModelConfig(("id",)), "dwd": ModelConfig(("id",), merge="on_read")}
models = {name: Model(TableName("lake", "dwd", name), "", configs[name]) for name in names}
operation = get_operation(name)
context = OperationContext(CatalogReader(Profile.for_embedded(folder)), sys.exit, tuple(models.values()))
answer = operation.run_operation(context, [models[arguments.pop("model")]], operation.read_values(arguments))
print(json.dumps([sorted(sys.modules), str(answer)]))
"""


def run_operation(warehouse: Any, name: str, **arguments: Any) -> tuple[set[str], str]:
    """Runs an operation in a process of its own; returns the modules that it has loaded, and its answer."""
    command = [sys.executable, "-c", CODE, str(warehouse.directory), name, json.dumps(arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    loaded, answer = json.loads(ended.stdout)
    return set(loaded), answer


@pytest.mark.parametrize("name", ["status", "history"])
def test_a_look_at_metadata_loads_only_the_standard_library(shop: Any, name: str) -> None:
    loaded, answer = run_operation(shop[0], name, model="ods")
    assert str(shop[1]["ods"][-1].snapshot) in answer
    assert not loaded & SLOW


def test_a_row_and_changes_are_read_without_a_database_library_or_spark(shop: Any) -> None:
    first, *_, last = (version.snapshot for version in shop[1]["dwd"])
    looked_up, row = run_operation(shop[0], "lookup", model="ods", key=["1"])
    listed, changes = run_operation(shop[0], "changes", model="dwd", start=str(first), end=str(last))
    assert "note: n1" in row
    assert "'_action': 'delete'" in changes
    assert not (looked_up | listed) & DATABASES
