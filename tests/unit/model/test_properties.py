"""Names that stand in tables: all of them in one module, all of them documented."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import arctic_runtime
from arctic_runtime.model import properties
from arctic_runtime.model.properties import STORED_NAMES, describe_stored_names

RUNTIME = Path(arctic_runtime.__file__).parent
ADAPTER = RUNTIME.parent / "dbt"
OF_0_1_0 = {
    *("arctic.run", "arctic.mode", "arctic.reason", "arctic.consumed", "arctic.query", "arctic.session"),
    *("arctic.high-mark", "arctic.restored", "arctic.declared", "arctic.declared-parts", "arctic.totals"),
    *("arctic.no-totals", "arctic.given-up", "arctic.judged", "arctic.started", "arctic.estimated"),
    *("arctic.changelog", "arctic.repaired", "arctic.kind", "arctic.primary-key", "arctic.table", "arctic.layout"),
    *("arctic.trimmed", "arctic.ages", "arctic.base-snapshot", "arctic.merged-snapshot", "arctic.changes-snapshot"),
    *("arctic.merged", "arctic.renewed", "arctic.attempt", "arctic_", "arctic_renew_", "arctic_view_"),
}
"""What version 0.1.0 wrote into tables, which later versions read."""


def constants(file: Path) -> Iterator[str]:
    """The names of properties among the texts of a file, but for what it says in words."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"^arctic\.[a-z-]+$", node.value)


def test_names_in_tables_stand_in_one_module_alone() -> None:
    files = [file for room in (RUNTIME, ADAPTER) for file in room.rglob("*.py") if file.name != "properties.py"]
    assert {str(file): names for file in files if (names := list(constants(file)))} == {}


def test_every_name_is_documented() -> None:
    texts = {value for key, value in vars(properties).items() if key.isupper() and isinstance(value, str)}
    named = {text for text in texts if text.startswith("arctic")} | {properties.REFRESH_STATE}
    assert {name.text for name in STORED_NAMES} == named
    assert all(f"| `{name.text}{'…' if name.is_prefix else ''}` |" in describe_stored_names() for name in STORED_NAMES)


def test_no_name_is_documented_twice() -> None:
    texts = [name.text for name in STORED_NAMES]
    assert len(texts) == len(set(texts))


def test_names_in_tables_of_earlier_versions_stay() -> None:
    assert {name.text for name in STORED_NAMES} >= OF_0_1_0


def test_macros_use_documented_names_alone() -> None:
    macros = "".join(file.read_text(encoding="utf-8") for file in ADAPTER.rglob("*.sql"))
    assert set(re.findall(r"'(arctic\.[a-z-]+)'", macros)) <= {name.text for name in STORED_NAMES}
