"""Processes that come to chosen effects, and are killed there with their Java."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def killed(module: str, arguments: dict[str, Any], last_line: str) -> dict[str, str]:
    """Starts a module with arguments as JSON, and kills it and its Java at its last line.

    Each line before tells a name and a value; that of `java` is its process.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", module, json.dumps(arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    lines = dict(line.split() for line in itertools.takewhile(lambda line: line != f"{last_line}\n", child.stdout))
    for process in (child.pid, int(lines.pop("java"))):
        os.kill(process, signal.SIGKILL)
    child.communicate()
    return lines
