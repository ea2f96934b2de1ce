"""The page on the library and its notebook: their Python runs from top to bottom, and does what they say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.profile import Profile

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "notebook.md"
NOTEBOOK = DOCS / "notebook.ipynb"
_BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


@pytest.fixture
def open_here(embedded: Callable[..., Profile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has warehouses without settings opened in the temporary folder, by the Spark of the suites."""
    monkeypatch.chdir(tmp_path)
    profile, build = embedded(tmp_path / "warehouse"), Profile.for_embedded
    monkeypatch.setattr(Profile, "for_embedded", lambda *at, **given: build(*at, **given) if given else profile)


@pytest.mark.in_turn
@pytest.mark.usefixtures("open_here")
def test_the_page_does_what_it_says(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the Spark of the suites, in a folder with the project `shop`."""
    folder.rename(tmp_path / "shop")
    monkeypatch.setenv("DBT_PROFILES_DIR", str(tmp_path / "shop"))
    # One block opens a catalog that nobody serves, and its store.
    monkeypatch.setattr("arctic_runtime.catalog.storage.embedded_warehouse.check_store", lambda _: None)
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) > 8
    names: dict[str, Any] = {}
    for code, printed in blocks:
        exec(compile(code, str(PAGE), "exec"), names)
        shown = re.sub(r"lake\.ns\d+\.", "lake.ops.", capsys.readouterr().out)
        shown = re.sub(r"version \d+", "version 5650562136450631953", shown)
        assert shown.rstrip() == printed.rstrip(), code
    names["warehouse"].close()


@pytest.mark.in_turn
@pytest.mark.usefixtures("open_here")
def test_the_cells_of_the_notebook_run_twice_and_show_what_they_promise() -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    for _ in range(2):
        names: dict[str, Any] = {}
        for cell in cells:
            exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}: {cell['id']}", "exec"), names)
        assert list(names["frame"]["tail"]) == ["N14228", "N24211"]
        assert names["second"].rows == {"insert": 1, "update": 1, "delete": 0, "upsert": 0}
        assert sorted(zip(names["changed"]["tail"], names["changed"]["_action"], strict=True)) == [
            ("N24211", "update"),
            ("N619AA", "insert"),
        ]
        assert not names["checked"].differs
