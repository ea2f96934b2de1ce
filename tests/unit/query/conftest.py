"""A warehouse, and its answers by DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.unit.query.asking import ask_reader


@pytest.fixture
def w(tmp_path: Path, writing):
    return writing.warehouse(tmp_path)


@pytest.fixture
def ask(w) -> Callable[..., list[dict[str, Any]]]:
    """Asks a query as `ask_reader` does."""
    return partial(ask_reader, w.reader)
