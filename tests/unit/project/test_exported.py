"""The public surface: whoever changes it does so on purpose, here too; and what an import costs."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import arctic_runtime
from arctic_runtime import errors

ROOT = Path(arctic_runtime.__file__).parent
ROOMS = ("catalog", "catalog_kinds", "ivm", "model", "operations", "plan", "sql")
"""Packages that work without Spark."""

LIBRARY = [
    "Answer",
    "ArcticError",
    "CatalogError",
    "CommitConflict",
    "CommitUnknown",
    "ConfigError",
    "CorruptState",
    "DataError",
    "Outcome",
    "PlanError",
    "Profile",
    "Project",
    "SourceError",
    "SparkEnded",
    "Table",
    "Warehouse",
    "open_project",
    "open_warehouse",
]
"""Names that users import from `arctic_runtime`."""

HEAVY = {"pyspark", "py4j", "dbt", "pyarrow", "pandas", "sqlalchemy"}

SURFACE_OF_IVM = (
    "algebra.aggregate_functions",
    "algebra.clock",
    "algebra.conditions",
    "algebra.expressions",
    "algebra.inferred_types",
    "algebra.numbers",
    "algebra.refusal",
    "algebra.tree",
    "algebra.unique",
    "edits.edit",
    "edits.refused",
    "frontend.analyse",
    "frontend.clauses.limits",
    "frontend.configured_expressions",
    "frontend.day_texts",
    "frontend.frozen_predicate",
    "frontend.functions",
    "frontend.reads",
    "frontend.row_predicate",
    "frontend.scope",
    "provenance.causes",
    "provenance.restrictions",
    "provenance.source_rows",
    "render",
    "rewrite.join_placement",
    "rewrite.predicate_pushdown",
    "rewrite.scan_limits",
    "rewrite.semi_join_reducers",
    "rewrite.statistics",
    "row_tests",
    "rules.restrict",
    "strategies.aggregate_state",
    "strategies.determinism",
    "strategies.maintain",
    "strategies.pairs",
)


def test_the_library_exports_these_names() -> None:
    assert arctic_runtime.__all__ == LIBRARY
    assert set(LIBRARY) <= set(dir(arctic_runtime))
    assert set(errors.__all__) <= set(LIBRARY)


@pytest.mark.parametrize("name", LIBRARY)
def test_an_exported_name_and_its_public_members_have_docstrings(name: str) -> None:
    exported = getattr(arctic_runtime, name)
    assert exported.__doc__
    for member, value in vars(exported).items() if inspect.isclass(exported) else ():
        if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            assert value.__doc__ or isinstance(value, property), f"{name}.{member}"


def test_a_name_that_is_not_exported_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="open_warehous"):
        arctic_runtime.open_warehous  # noqa: B018


def test_importing_the_library_loads_little_and_opening_it_nothing_heavy() -> None:
    assert not [name for name in list_loaded("import arctic_runtime") if name.startswith("arctic_runtime.api")]
    opened = list_loaded("import arctic_runtime; arctic_runtime.open_warehouse; arctic_runtime.open_project")
    assert HEAVY.isdisjoint(name.split(".")[0] for name in opened)


def test_queries_are_maintained_through_few_modules() -> None:
    """From outside only these modules of `ivm` are imported, and all of them are."""
    outside = [file for file in ROOT.rglob("*.py") if ROOT / "ivm" not in file.parents]
    used = {name for file in outside for name in imported(file) if name.startswith("arctic_runtime.ivm.")}
    assert used == {f"arctic_runtime.ivm.{name}" for name in SURFACE_OF_IVM}


def imported(file: Path) -> set[str]:
    """The modules that a file imports, or imports from."""
    result: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module)):
                submodules = {f"{module}.{alias.name}" for alias in node.names}
                result |= {name for name in submodules if (ROOT.parent / f"{name.replace('.', '/')}.py").exists()}
                result |= {module} if (ROOT.parent / f"{module.replace('.', '/')}.py").exists() else set()
            case ast.Import(names=names):
                result.update(alias.name for alias in names)
    return result


def test_every_error_is_an_arctic_error_and_is_in_the_tree() -> None:
    tree = errors.__doc__ or ""
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), errors.ArcticError)
        assert name in tree


def test_planning_and_observing_start_without_spark_and_without_dbt() -> None:
    modules = ["arctic_runtime.refresh_planner", *(name for room in ROOMS for name in list_submodules(room))]
    loaded = list_loaded(f"import {', '.join(modules)}")
    assert HEAVY.isdisjoint(name.split(".")[0] for name in loaded)


def list_loaded(code: str) -> list[str]:
    """The modules that a process has loaded after this code."""
    command = [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT.parent).stdout.split()


def list_submodules(room: str) -> list[str]:
    """The modules and packages inside a package, at any depth."""
    return [module.name for module in pkgutil.walk_packages([str(ROOT / room)], f"arctic_runtime.{room}.")]
