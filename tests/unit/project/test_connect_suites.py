"""The tests that run over Spark Connect are there; a run of all tests alone would tell that one was renamed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.connect.test_suites import MORE, TELLING

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("test", [*TELLING, *MORE])
def test_a_test_that_runs_over_connect_is_there(test: str) -> None:
    file, *names = test.partition("[")[0].split("::")
    node: ast.Module | ast.ClassDef | ast.FunctionDef = ast.parse((ROOT / file).read_text())
    for name in names:
        within = {node.name: node for node in node.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        assert name in within, f"{file} has no {name}"
        node = within[name]
