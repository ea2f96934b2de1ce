"""The runtime without the extra that HTTP needs."""

from __future__ import annotations

import importlib
import subprocess
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


def test_the_adapter_needs_none_of_these_libraries() -> None:
    hidden = "; ".join(f"sys.modules[{name!r}] = None" for name in ("anyio", "fastapi", "h11", "starlette", "uvicorn"))
    code = f"import sys; {hidden}; import dbt.adapters.arctic.cli"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
