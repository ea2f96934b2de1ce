"""Nothing that is read can run code: no pickle, no unsafe YAML, no evaluation of texts, no shell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PARTS = ("arctic_runtime", "dbt", "sample_project", "benchmarks", "docs")
FORBIDDEN_MODULES = frozenset(("pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "jsonpickle"))
FORBIDDEN_CALLS = frozenset(("eval", "exec", "compile", "__import__"))
UNSAFE_YAML = frozenset(("load", "load_all", "unsafe_load", "unsafe_load_all", "full_load", "full_load_all"))

ALLOWED = {
    "dbt/adapters/arctic/materialize/python_models.py: compile",
    "dbt/adapters/arctic/materialize/python_models.py: exec",
}
"""Python models are code of the project itself, which dbt runs as it runs its macros."""


def list_unsafe_parts(source: str) -> Iterator[str]:
    """Yields the names of what could run code that is read: modules, calls of YAML, and a shell."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name.split(".")[0] in FORBIDDEN_MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in FORBIDDEN_MODULES:
                yield module
            case ast.Call(func=ast.Name(id=name)) if name in FORBIDDEN_CALLS:
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="yaml"), attr=name)) if name in UNSAFE_YAML:
                yield f"yaml.{name}"
            case ast.Call(func=ast.Attribute(attr="read_pickle" | "to_pickle" as name)):
                yield name
            case ast.keyword(arg="shell", value=ast.Constant(value=True)):
                yield "shell=True"
            case ast.keyword(arg="allow_pickle", value=ast.Constant(value=True)):
                yield "allow_pickle=True"


def test_no_module_can_run_what_it_reads() -> None:
    files = [file for part in PARTS for file in sorted((ROOT / part).rglob("*.py"))]
    found = {f"{file.relative_to(ROOT)}: {name}" for file in files for name in list_unsafe_parts(file.read_text())}
    assert len(files) > 600
    assert found - ALLOWED == set()


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from cloudpickle import loads",
        "eval(text)",
        "exec(text)",
        "yaml.load(text)",
        "yaml.unsafe_load(text)",
        "pandas.read_pickle(file)",
        "subprocess.run(text, shell=True)",
        "numpy.load(file, allow_pickle=True)",
    ],
)
def test_an_unsafe_part_is_seen(line: str) -> None:
    assert list(list_unsafe_parts(line))


@pytest.mark.parametrize("line", ["yaml.safe_load(text)", "re.compile(text)", "json.loads(text)", "table.load(1)"])
def test_a_safe_part_is_none(line: str) -> None:
    assert not list(list_unsafe_parts(line))
