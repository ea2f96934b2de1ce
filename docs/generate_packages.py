"""Tables of the packages, with the first line of each docstring: the parts of the project, and its layout."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ADAPTER = (Path("dbt/include/arctic"), Path("dbt/adapters/arctic"))
RUNTIME = Path("arctic_runtime")


def describe_parts() -> str:
    """The table of docs/architecture.md: the adapter, and what is at the top of the runtime."""
    return _write_table("part", [*ADAPTER, *_list_modules(RUNTIME), *_list_packages(RUNTIME)])


def describe_layout() -> str:
    """The table of docs/reference/layout.md: every package inside of a part, at any depth."""
    tops = (*ADAPTER, *_list_packages(RUNTIME))
    return _write_table("package", [path for top in tops for path in _walk_packages(top) if path != top])


def _list_modules(package: Path) -> list[Path]:
    files = sorted((ROOT / package).glob("*.py"))
    return [package / file.name for file in files if not file.name.startswith("__")]


def _list_packages(package: Path) -> list[Path]:
    return [package / file.parent.name for file in sorted((ROOT / package).glob("*/__init__.py"))]


def _walk_packages(package: Path) -> Iterator[Path]:
    yield package
    for inner in _list_packages(package):
        yield from _walk_packages(inner)


def _write_table(head: str, paths: Iterable[Path]) -> str:
    rows = [f"| `{path}{'' if path.suffix else '/'}` | {_read_summary(path)} |" for path in paths]
    return "\n".join([f"| {head} | content |", "|---|---|", *rows])


def _read_summary(path: Path) -> str:
    """First line of a docstring, without the full stop; raises ValueError if there is none."""
    file = ROOT / path if path.suffix else ROOT / path / "__init__.py"
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    if not docstring:
        raise ValueError(f"{path} has no docstring, which its line in the documentation is made of")
    return docstring.splitlines()[0].removesuffix(".")
