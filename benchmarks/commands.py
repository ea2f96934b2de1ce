"""dbt and arctic as commands of their own, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_DBT = (sys.executable, "-m", "dbt.cli.main", "--quiet", "--log-level", "none")
_ARCTIC = (sys.executable, "-m", "dbt.adapters.arctic.command_line")
_PROCESSOR = (sys.executable, "-m", "benchmarks.processor")


def dbt(folder: Path, command: str, target: str, environment: Mapping[str, str] | None = None) -> None:
    """Runs a command for the project in a folder, its profiles beside it; raises RuntimeError where it fails."""
    _run(_build_dbt_command(folder, command, target), environment)


def measure_processor(folder: Path, command: str, target: str) -> float:
    """Returns the processor seconds of a command of dbt and all that it starts, which has to end with it."""
    return float(_run([*_PROCESSOR, *_build_dbt_command(folder, command, target)]))


def arctic(folder: Path, *arguments: str) -> str:
    """Returns the output of a command for the project in a folder; raises RuntimeError if it fails."""
    return _run(_build_arctic_command(folder, arguments), _build_user_environment())


def measure_arctic(folder: Path, *arguments: str) -> float:
    """Returns the processor seconds of a command for the project in a folder, and all that it starts."""
    return float(_run([*_PROCESSOR, *_build_arctic_command(folder, arguments)], _build_user_environment()))


def measure_code(code: str) -> float:
    """Returns the processor seconds of a process that runs `code`."""
    return float(_run([*_PROCESSOR, sys.executable, "-c", code], _build_user_environment()))


def _build_user_environment() -> dict[str, str]:
    """Returns the environment of a user, whose Python keeps what it has compiled."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _build_arctic_command(folder: Path, arguments: Sequence[str]) -> list[str]:
    return [*_ARCTIC, *arguments, "--project-dir", str(folder), "--profiles-dir", str(folder)]


def _build_dbt_command(folder: Path, command: str, target: str) -> list[str]:
    where = ["--project-dir", str(folder), "--profiles-dir", str(folder), "--target", target]
    return [
        *_DBT,
        command,
        *where,
        "--log-path",
        str(folder / "logs"),
        "--target-path",
        str(folder / f"target-{target}"),
    ]


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,  # Without a terminal no Spark is kept, unless the profile says it.
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout
