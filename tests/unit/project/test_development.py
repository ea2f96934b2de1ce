"""The page on development names files, modules and definitions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
PROSE = " ".join(re.sub(r"^ *```.*?^ *```$", "", TEXT, flags=re.MULTILINE | re.DOTALL).split())

ROOMS = ("arctic_runtime", "benchmarks", "dbt", "docs", "sample_project", "tests")
PATHS = sorted(set(re.findall(rf"`((?:{'|'.join(ROOMS)})/[\w./-]*)`", PROSE)))
MODULES = sorted(set(re.findall(rf"`python -m ((?:{'|'.join(ROOMS)})(?:\.\w+)+)", PROSE)))
DEFINITIONS = sorted(set(re.findall(r"`(\w+)` in `([\w/]+\.py)`", PROSE)))
WRITTEN_PER_VERSION = "tests/data/warehouse-VERSION.zip"


def defined(file: Path) -> set[str]:
    """The names of the classes, functions and variables at the top level of a module."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize("path", [path for path in PATHS if path != WRITTEN_PER_VERSION])
def test_a_path_on_the_page_exists(path: str) -> None:
    assert (ROOT / path).exists(), f"docs/development.md names {path}, which does not exist"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_on_the_page_exists(module: str) -> None:
    path = ROOT.joinpath(*module.split("."))
    assert path.with_suffix(".py").exists() or (path / "__main__.py").exists()


@pytest.mark.parametrize(("name", "path"), DEFINITIONS)
def test_a_name_on_the_page_is_defined_in_its_file(name: str, path: str) -> None:
    assert name in defined(ROOT / path), f"docs/development.md names {name} in {path}, which does not define it"


def test_every_place_of_the_overview_has_a_walk_through_with_files() -> None:
    overview = TEXT.split("\n## Where a change goes\n", 1)[1].split("\n### ", 1)[0]
    anchors = re.findall(r"\]\(#([\w-]+)\)", overview)
    sections = re.findall(r"^### ([^\n]+)\n(.*?)(?=^##)", TEXT, re.MULTILINE | re.DOTALL)
    assert [heading.lower().replace(" ", "-") for heading, _ in sections] == anchors
    assert all(re.search(r"`\w[\w/]+\.py`", text) for _, text in sections)
    assert len(DEFINITIONS) > 20
