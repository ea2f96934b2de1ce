"""Imports inside functions keep heavy libraries out of starts that don't need them, and stand for nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
HEAVY = {
    "agate",
    "confluent_kafka",
    "dbt",
    "dbt_common",
    "duckdb",
    "fsspec",
    "importlib",
    "jpype",
    "jwt",
    "mcp",
    "openlineage",
    "opentelemetry",
    "prometheus_client",
    "py4j",
    "pyarrow",
    "pydantic",
    "pyiceberg",
    "pyspark",
    "requests",
    "shtab",
    "sqlalchemy",
    "sqlglot",
    "yaml",
}
"""Libraries that take long to load: a command that shows its help loads none of them."""

OWN = ("arctic_runtime", "dbt.adapters.arctic")


def test_a_lazy_import_keeps_a_heavy_library_out() -> None:
    """An import of our own is lazy only where the module imports Spark, Arrow or the like at its top."""
    needless = [
        f"{file.relative_to(ROOT)}: {function} imports {module}"
        for file, function, module in lazy_imports()
        if not is_heavy(module)
    ]
    assert needless == []


def test_a_command_that_shows_its_help_loads_neither_spark_nor_arrow() -> None:
    assert {"jpype", "pyarrow", "pyspark"}.isdisjoint(loaded_by("dbt.adapters.arctic.cli"))


def test_a_profile_loads_no_heavy_library() -> None:
    """Whatever kind of catalog it has: a kind imports its library when a catalog is opened."""
    assert HEAVY.isdisjoint(name.split(".")[0] for name in loaded_by("arctic_runtime.profile"))
    assert "arctic_runtime.catalog_kinds.registry" in loaded_by("arctic_runtime.profile")


def lazy_imports() -> Iterator[tuple[Path, str, str]]:
    for file in files():
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(function):
                    yield from ((file, function.name, module) for module in imported(node))


def files() -> Iterator[Path]:
    for folder in ("arctic_runtime", "dbt/adapters/arctic"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def imported(node: ast.AST) -> list[str]:
    """The modules that an import statement loads; none for another statement."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        inside = [f"{node.module}.{alias.name}" for alias in node.names]
        return [name for name in inside if source_of(name)] or [node.module]
    return []


def is_heavy(module: str) -> bool:
    """Whether loading a module loads a heavy library."""
    return any(name.split(".")[0] in HEAVY and not name.startswith(OWN) for name in loaded_by(module))


@cache
def loaded_by(module: str) -> frozenset[str]:
    """The modules that loading one loads, itself among them; of other libraries only those named by our own."""
    modules, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name in modules:
            continue
        modules.add(name)
        waiting += imported_at_the_top(name)
    return frozenset(modules)


@cache
def imported_at_the_top(module: str) -> tuple[str, ...]:
    """The modules that loading one of our own imports; none of another library."""
    if not module.startswith(OWN) or not (file := source_of(module)):
        return ()
    return tuple(other for node in at_the_top(ast.parse(file.read_text())) for other in imported(node))


def at_the_top(tree: ast.Module) -> Iterator[ast.stmt]:
    """Statements that run when a module is loaded; those for type checkers alone do not."""
    return (node for node in tree.body if not isinstance(node, ast.If))


@cache
def source_of(module: str) -> Path | None:
    path = ROOT / module.replace(".", "/")
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()), None)
