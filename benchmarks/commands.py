"""dbt as a command of its own, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_DBT = (sys.executable, "-m", "dbt.cli.main", "--quiet", "--log-level", "none")


def dbt(folder: Path, command: str, target: str, environment: Mapping[str, str] | None = None) -> None:
    """Runs a command for the project in a folder, its profiles beside it; raises RuntimeError where it fails."""
    _run(folder, command, target, environment)


def measure_processor(folder: Path, command: str, target: str) -> float:
    """Returns the processor seconds of a command and all that it starts, which has to end with it."""
    return float(_run(folder, command, target, wrapper=(sys.executable, "-m", "benchmarks.processor")))


def _run(
    folder: Path,
    command: str,
    target: str,
    environment: Mapping[str, str] | None = None,
    wrapper: Sequence[str] = (),
) -> str:
    where = ["--project-dir", str(folder), "--profiles-dir", str(folder), "--target", target]
    paths = ("--log-path", str(folder / "logs"), "--target-path", str(folder / f"target-{target}"))
    done = subprocess.run(
        [*wrapper, *_DBT, command, *where, *paths],
        env=environment,
        stdin=subprocess.DEVNULL,  # Without a terminal no Spark is kept, unless the profile says it.
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"dbt {command} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout
