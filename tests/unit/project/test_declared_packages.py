"""Every package that the code imports is declared: in the dependencies, or in the extra of the part that imports it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import distribution, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
OWN = ("arctic_runtime", "dbt.adapters.arctic", "dbt.include.arctic")
EXTRAS: Mapping[str, str] = {
    "arctic_runtime/ingest/transports/debezium": "cdc",
    "arctic_runtime/ingest/transports/kafka": "kafka",
    "arctic_runtime/service/agents": "mcp",
    "arctic_runtime/query": "sql",
    "arctic_runtime/service/http/open_id.py": "oidc",
    "arctic_runtime/service/http": "serve",
    "arctic_runtime/service/telemetry/lineage": "lineage",
    "arctic_runtime/service/telemetry/metrics.py": "serve",
    "arctic_runtime/service/telemetry/otlp_metrics.py": "otel",
    "arctic_runtime/service/telemetry/traces.py": "otel",
}
"""A folder or a module → the extra without which it is not used."""


def list_sources() -> list[str]:
    folders = (ROOT / "arctic_runtime", ROOT / "dbt" / "adapters" / "arctic")
    return [str(file.relative_to(ROOT)) for folder in folders for file in folder.rglob("*.py")]


def find_extra(source: str) -> str:
    return next((extra for place, extra in EXTRAS.items() if source == place or source.startswith(f"{place}/")), "")


@cache
def list_declared(extra: str) -> frozenset[str]:
    """The dependencies, and those of an extra."""
    declared = [Requirement(line) for line in requires("dbt-arctic") or []]
    return frozenset(
        canonicalize_name(requirement.name)
        for requirement in declared
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra})
    )


def list_imports(text: str) -> Iterator[tuple[str, list[str]]]:
    """Imported modules, each with the names that are taken from it, which may be modules of a namespace."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, [alias.name for alias in node.names]


def is_foreign(module: str) -> bool:
    is_own = any(module == own or module.startswith(f"{own}.") for own in OWN)
    return not is_own and module.partition(".")[0] not in sys.stdlib_module_names


@cache
def list_packages() -> Mapping[str, list[str]]:
    return packages_distributions()


@cache
def list_files(package: str) -> frozenset[str]:
    return frozenset(map(str, distribution(package).files or []))


def find_packages(module: str, names: list[str]) -> set[str]:
    """The packages that have a module; of a namespace that many share, those with its file."""
    packages = set(list_packages().get(module.partition(".")[0], []))
    if len(packages) > 1:
        paths = [path.replace(".", "/") for path in (module, *(f"{module}.{name}" for name in names))]
        files = {f"{path}{end}" for path in paths for end in (".py", "/__init__.py")}
        packages = {package for package in packages if files & list_files(package)}
    return {canonicalize_name(package) for package in packages}


def list_undeclared(source: str, text: str) -> list[str]:
    declared = list_declared(find_extra(source))
    return [
        f"{source}: {module}"
        for module, names in list_imports(text)
        if is_foreign(module) and all(is_foreign(f"{module}.{name}") for name in names)
        if not find_packages(module, names) & declared
    ]


def test_all_imported_packages_are_declared() -> None:
    sources = list_sources()
    assert len(sources) > 100
    assert [line for source in sources for line in list_undeclared(source, (ROOT / source).read_text())] == []


@pytest.mark.parametrize(
    ("text", "is_declared"),
    [
        ("import pytest", False),
        ("import fastapi", False),
        ("from opentelemetry import trace", False),
        ("import pyarrow.compute", True),
        ("from dbt.adapters.spark.impl import SparkAdapter", True),
        ("from dbt.include import arctic", True),
        ("from dbt.tests.adapter.empty import _models", False),
        ("import json", True),
    ],
)
def test_a_package_that_is_not_declared_is_named(text: str, is_declared: bool) -> None:
    assert (list_undeclared("arctic_runtime/profile.py", text) == []) is is_declared


@pytest.mark.parametrize("place", EXTRAS)
def test_an_extra_is_of_a_part_that_exists(place: str) -> None:
    assert (ROOT / place).exists()
