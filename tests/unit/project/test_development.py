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

PACKAGES = sorted(
    file.parent.relative_to(ROOT)
    for room in ("arctic_runtime", "dbt/adapters/arctic", "dbt/include/arctic")
    for file in (ROOT / room).rglob("__init__.py")
    if file.parent.name != "arctic_runtime"
)


def get_section(page: str, heading: str) -> str:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


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


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_every_package_is_once_in_parts_or_layout_with_its_content(package: Path) -> None:
    pages = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("architecture.md", "reference/layout.md")]
    (content,) = re.findall(rf"^\| `{package}/` \| (.*) \|$", "\n".join(pages), re.MULTILINE)
    assert len(content) > 20


def test_every_part_of_the_runtime_is_in_the_architecture() -> None:
    parts = get_section("architecture.md", "Parts")
    runtime = [package for package in PACKAGES if package.parent == Path("arctic_runtime")]
    assert Path("arctic_runtime/ingest") in runtime
    assert [str(package) for package in runtime if f"\n| `{package}/` | " not in parts] == []


def test_the_packages_that_may_import_spark_are_those_of_the_contract() -> None:
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    allowed = {name.replace(".", "/") for name in re.findall(r'"([\w.]+)\.\*\* -> pyspark"', contract)}
    (sentence,) = re.findall(r"pyspark is imported in [^.]*\.", get_section("development.md", "Layout"))
    assert set(re.findall(r"`(\w[\w/]+)/`", sentence)) == allowed


def test_a_function_that_the_page_shows_is_defined_with_these_arguments() -> None:
    shown = re.findall(r"^ +((?:async )?def \w+\(.*\) -> .*:)$", TEXT, re.MULTILINE)
    sources = "".join((ROOT / path).read_text(encoding="utf-8") for path in PATHS if path.endswith(".py"))
    assert len(shown) >= 6
    assert not [line for line in shown if line not in sources]


def test_every_place_of_the_overview_has_a_walk_through_with_files() -> None:
    overview = TEXT.split("\n## Where a change goes\n", 1)[1].split("\n### ", 1)[0]
    anchors = re.findall(r"\]\(#([\w-]+)\)", overview)
    sections = re.findall(r"^### ([^\n]+)\n(.*?)(?=^##)", TEXT, re.MULTILINE | re.DOTALL)
    assert [heading.lower().replace(" ", "-") for heading, _ in sections] == anchors
    assert all(re.search(r"`\w[\w/]+\.py`", text) for _, text in sections)
    assert len(DEFINITIONS) > 20
