"""The first project of the documentation: its files are written, its commands typed, and its output is the page's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "first-project.md").read_text(encoding="utf-8")
COMMANDS = {"dbt": "dbt.cli.main", "arctic": "dbt.adapters.arctic.command_line"}


class Typed:
    """A folder with the project, in which commands are typed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name, content in re.findall(r"^`([\w/.]+)`\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(content)
        for command, module in COMMANDS.items():
            file = directory / "bin" / command
            file.parent.mkdir(exist_ok=True)
            file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -W ignore -m {module} "$@"\n')
            file.chmod(0o755)

    def type(self, commands: str) -> str:
        path = f"{self.directory / 'bin'}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-e", "-c", commands],
            cwd=self.directory,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "DBT_USE_COLORS": "false", "DO_NOT_TRACK": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def changes(self) -> list[list[Any]]:
        """Rows as the page's table has them, without the time."""
        reader = CatalogReader(Profile.for_embedded(self.directory / "warehouse"))
        rows = reader.load_table("dev", "ods_orders__changes").scan().to_arrow().to_pylist()
        ordered = sorted(rows, key=lambda row: row["_seq"])
        return [[str(value) for name, value in row.items() if name != "_ts"] for row in ordered]


def block_after(heading: str) -> str:
    match = re.search(r"```\w*\n(.*?)^```$", PAGE.split(heading, 1)[1], re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[1]


def outcomes(text: str) -> list[tuple[str, str]]:
    """Model and numbers of each line of a run, without dots and seconds."""
    return re.findall(r"OK created sql arctic model `?dev`?\.`?(\w+)`? \.+ \[(.*?) in [\d.]+s\]", text)


@pytest.mark.slow
def test_the_first_project_runs_as_its_page_says(tmp_path: Path) -> None:
    typed = Typed(tmp_path)
    seen = typed.type(block_after("**Run it.**"))
    printed = outcomes(block_after("## What you see"))
    assert len(printed) == 6
    assert outcomes(seen) == printed
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines()]
    lines = [cell for cell in cells if len(cell) == 7 and cell[0].isdigit()]
    shown = [[*line[:4], line[5], line[6]] for line in lines]
    assert [[*row[:5], _struct(row[5])] for row in typed.changes()] == shown
    verified = block_after("recomputes every model").split("\n", 1)[1]
    assert _without_seconds(typed.type("arctic verify")) == _without_seconds(verified)


def _without_seconds(text: str) -> list[str]:
    return re.sub(r"[\d.]+ s$", "", text, flags=re.MULTILINE).strip().splitlines()


def _struct(value: str) -> str:
    """As Spark's shells show it."""
    matches = re.findall(r": (?:Decimal\('(.*?)'\)|(\w+))", value)
    return "{" + ", ".join(a or b for a, b in matches) + "}" if matches else value.replace("None", "null")
