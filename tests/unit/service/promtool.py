"""Prometheus' own checker, which the Debian package `prometheus` has."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None and not os.environ.get("CI"),
    reason="promtool is not installed: run `make databases`",
)


def promtool(*arguments: str | Path, folder: Path | None = None, given: bytes = b"") -> str:
    """What promtool prints; an AssertionError where it finds something wrong."""
    done = subprocess.run(
        ["promtool", *map(str, arguments)], input=given, capture_output=True, check=False, cwd=folder, timeout=60
    )
    printed = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, printed
    return printed
