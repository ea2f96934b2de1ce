"""The page of guarantees: each promise names tests, and each of these tests exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.trust.parts import SIZES, list_parts

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "docs" / "development.md").read_text(encoding="utf-8").split("\n## Results\n")[1].split("\n## ")[0]
LINES = PAGE.splitlines()
ROWS = [line for line in LINES if line.startswith("| ") and set(line) - set("| -:")]
PROMISES = [row for row in ROWS if "held by" not in row]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
LINKS = sorted(set(NAMED.findall(PAGE)))
NEEDED = ("Commits", "Exactly once", "Rows", "Reads and order", "Freshness", "Faults", "What is retried")


@cache
def list_tests(file: str) -> frozenset[str]:
    path = ROOT / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.exists() else ast.Module([], [])
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_the_page_has_promises_of_each_kind() -> None:
    headings = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert set(NEEDED) < set(headings)
    assert "What needs a person" in headings
    assert len(PROMISES) >= 40


@pytest.mark.parametrize("row", PROMISES, ids=lambda row: row.strip("| ")[:50])
def test_a_promise_names_at_least_one_test_and_nothing_else(row: str) -> None:
    held_by = row.strip("| ").rsplit(" | ", 1)[1]
    assert NAMED.search(held_by)
    assert NAMED.sub("", held_by).strip() == ""


@pytest.mark.parametrize(("file", "name"), LINKS, ids=lambda part: part.rpartition("/")[2])
def test_a_test_that_the_page_names_exists(file: str, name: str) -> None:
    assert name in list_tests(file), f"docs/guarantees.md names {name} in {file}, which does not define it"


def test_results_are_of_parts_that_are_run_and_name_a_commit() -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in RESULTS.splitlines() if line[:1] == "|"]
    parts = {part.name for part in list_parts(SIZES["full"])}
    assert len(rows) > 2
    for part, *_, faults, commit in rows[2:]:
        assert part in parts
        assert faults == "0"
        assert re.fullmatch(r"[0-9a-f]{8}", commit)


def test_a_section_of_promises_is_a_table() -> None:
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        assert "held by |" in section, section.splitlines()[0]
