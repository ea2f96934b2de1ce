"""Benchmarks are run by hand; here only that they still find what they import."""

from __future__ import annotations

import importlib
import pkgutil

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
