"""The page on the library: its Python runs from top to bottom, and prints what the page says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.profile import Profile

PAGE = Path(__file__).parents[3] / "docs" / "notebook.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


@pytest.mark.in_turn
def test_the_page_does_what_it_says(
    embedded: Callable[..., Profile],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the Spark of the suites, in a folder with the project `shop`."""
    monkeypatch.chdir(tmp_path)
    folder.rename(tmp_path / "shop")
    monkeypatch.setenv("DBT_PROFILES_DIR", str(tmp_path / "shop"))
    profile, build = embedded(tmp_path / "warehouse"), Profile.for_embedded
    monkeypatch.setattr(Profile, "for_embedded", lambda *at, **given: build(*at, **given) if given else profile)
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
