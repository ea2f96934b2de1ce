"""The runtime without the extra that HTTP needs."""

from __future__ import annotations

import importlib
import sys

import pytest

from arctic_runtime.errors import ConfigError

PACKAGE = "arctic_runtime.service.http"


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_without_its_libraries_http_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    with pytest.raises(ConfigError, match=r"what to do: pip install 'dbt-arctic\[serve\]'"):
        importlib.import_module(PACKAGE)
