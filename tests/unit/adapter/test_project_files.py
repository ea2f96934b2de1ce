"""Edits of a project are noticed without reading its files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dbt.adapters.arctic.project.live_project import ProjectFiles


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for file in (
        "dbt_project.yml",
        "models/shop/orders.sql",
        "models/schema.yml",
        "macros/m.sql",
        "target/manifest.json",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("one")
    return tmp_path


def touch(file: Path) -> None:
    stat = file.stat()
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))


EDITS: dict[str, Callable[[Path], object]] = {
    "written": lambda project: (project / "models/shop/orders.sql").write_text("another"),
    "touched": lambda project: touch(project / "macros/m.sql"),
    "added": lambda project: (project / "models/shop/new.sql").write_text(""),
    "removed": lambda project: (project / "models/schema.yml").unlink(),
    "renamed": lambda project: (project / "models/shop").rename(project / "models/store"),
    "configured": lambda project: (project / "dbt_project.yml").write_text("another"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_is_noticed_once(project: Path, edit: Callable[[Path], object]) -> None:
    files = ProjectFiles(project, ["models", "macros", "absent"])
    assert not files.has_changed()
    edit(project)
    assert files.has_changed()
    assert not files.has_changed()


def test_what_dbt_writes_is_no_edit(project: Path) -> None:
    files = ProjectFiles(project, ["models", "macros"])
    (project / "target/manifest.json").write_text("another")
    (project / "target/run_results.json").write_text("new")
    assert not files.has_changed()
