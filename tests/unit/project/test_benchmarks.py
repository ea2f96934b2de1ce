"""Benchmarks are run by hand; here only that they find what they import, and that their page names those that exist."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import benchmarks

MODULES = [
    module.name
    for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")
    if not module.name.endswith("__main__") and ".pipelines" not in module.name
]


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_is_imported(name: str) -> None:
    importlib.import_module(name)


def test_a_figure_of_the_page_names_a_benchmark() -> None:
    root = Path(benchmarks.__path__[0])
    known = re.findall(r'^    "(\w+)": ', (root / "__main__.py").read_text(encoding="utf-8"), re.MULTILINE)
    page = (root.parent / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    named = re.findall(r"\| `(\w+)` \|$", page, re.MULTILINE)
    assert len(named) > 50
    assert set(named) <= set(known)
    assert set(known) <= set(re.findall(r"`(\w+)`", page))
