"""Modules that functions import are there before threads start."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[3]
PLACES = (
    "arctic_runtime/catalog",
    "arctic_runtime/operations",
    "arctic_runtime/spark",
    "dbt/adapters/arctic/connections",
    "dbt/adapters/arctic/materialize",
    "dbt/adapters/arctic/publication",
    "dbt/adapters/arctic/relations",
    "dbt/adapters/arctic/impl.py",
)
"""Code that threads of dbt and of a service run."""

ALONE = {
    "arctic_runtime.service.telemetry.command_metrics",
    "arctic_runtime.service.telemetry.observation",
    "pyiceberg.catalog.glue",
    "pyspark.java_gateway",
}
"""Modules that one thread imports: telemetry and the catalog of Glue are opened once, and Java is started once."""

CODE = """
import sys
import dbt.adapters.arctic.impl
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.thread_imports import preload_modules
from dbt.adapters.arctic.connections.manager import ROOMS
preload_modules(Profile.for_embedded("w", keep_alive_seconds=60.0), ROOMS)
print(*sys.modules)
"""


def test_every_module_that_a_function_imports_is_imported_before_threads_start() -> None:
    command = [sys.executable, "-c", CODE]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split())
    missing = sorted({module for module in list_lazy_imports() if module not in loaded and not is_dbt(module)} - ALONE)
    assert missing == []


def list_lazy_imports() -> Iterator[str]:
    """Modules that import statements inside functions load."""
    for place in PLACES:
        path = ROOT / place
        for file in [path] if path.is_file() else path.rglob("*.py"):
            for function in ast.walk(ast.parse(file.read_text())):
                if isinstance(function, ast.FunctionDef):
                    yield from (module for node in ast.walk(function) for module in list_modules(node))


def list_modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
        return [node.module, *(name for name in names if is_module(name))]
    return []


def is_dbt(module: str) -> bool:
    """Whether a module is dbt's own, which its command has imported before it starts threads."""
    return module.startswith("dbt.") and not module.startswith("dbt.adapters.arctic")


def is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
