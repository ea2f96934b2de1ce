"""Tests reach the code as others do: by public names, of modules and of what stands in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import arctic_runtime

ROOT = Path(arctic_runtime.__file__).parents[1]
OURS = ("arctic_runtime", "benchmarks", "dbt.adapters.arctic", "docs", "sample_project", "tests")
PRIVATE = re.compile(r"_[A-Za-z]\w*")
LEFT = {
    "tests/adapter/test_upkeep.py: upkeep._SECONDS",
}
"""Those that are still there; none is added."""


def test_no_test_reaches_into_private_names() -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    used = {
        f"{file.relative_to(ROOT).as_posix()}: {name}" for file in files for name in private_names(file.read_text())
    }
    assert used - LEFT == set()


@pytest.mark.parametrize(
    "line",
    [
        "from arctic_runtime.spark.engine.session import _launch",
        "from dbt.adapters.arctic import cli\ncli._perform()",
        "import arctic_runtime.errors\narctic_runtime.errors._text",
        "from arctic_runtime import errors\nmonkeypatch.setattr(errors, '_text', 1)",
        "monkeypatch.setattr('arctic_runtime.errors._text', 1)",
        "from arctic_runtime.errors import ArcticError\nmonkeypatch.setattr(ArcticError, '_text', 1)",
    ],
)
def test_a_private_name_is_seen(line: str) -> None:
    assert list(private_names(line))


def private_names(source: str) -> Iterator[str]:
    """Private names of our own modules and classes that a text imports, reads or replaces."""
    tree = ast.parse(source)
    ours: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if is_ours(module):
                ours |= {alias.asname or alias.name for alias in names}
                yield from (alias.name for alias in names if PRIVATE.fullmatch(alias.name))
            case ast.Import(names=names):
                ours |= {alias.asname or alias.name.split(".")[0] for alias in names if is_ours(alias.name)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=owner, attr=name) if PRIVATE.fullmatch(name) and root(owner) in ours:
                yield f"{ast.unparse(owner)}.{name}"
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[owner, ast.Constant(value=str(name)), *_]):
                if PRIVATE.fullmatch(name) and root(owner) in ours:
                    yield f"{ast.unparse(owner)}.{name}"
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Constant(value=str(path)), *_]):
                if is_ours(path) and PRIVATE.fullmatch(path.rpartition(".")[2]):
                    yield path


def is_ours(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in OURS)


def root(owner: ast.expr) -> str:
    """The name that a chain of attributes begins with; nothing where a call or another value is in between."""
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return owner.id if isinstance(owner, ast.Name) else ""
