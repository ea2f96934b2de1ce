"""A service whose Java is killed while it works ends, so that whoever supervises it starts it again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.killing import ROOT

KILLED = {"a model runs": "commit.publish", "upkeep runs": "compaction.rewrite"}
"""What goes on → the effect that Java is killed at."""


@pytest.mark.slow
@pytest.mark.parametrize("name", KILLED.values(), ids=KILLED.keys())
def test_a_service_ends_whose_java_is_killed_while_it_works(tmp_path: Path, name: str) -> None:
    arguments = json.dumps({"warehouse": str(tmp_path / "warehouse"), "name": name})
    command = [sys.executable, "-m", "tests.crash.spark_killed", arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout.startswith(f"{name}: ending: Spark is gone."), ended.stdout + ended.stderr
    assert "signal 9 ended it" in ended.stdout
