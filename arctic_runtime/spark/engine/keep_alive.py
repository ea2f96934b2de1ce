"""Decides whether Spark is kept after a command, and for how long it stays without one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from arctic_runtime.errors import ConfigError
from arctic_runtime.plan.config.maintenance_settings import read_lag
from arctic_runtime.thresholds import EngineThresholds

_NOT_SET = ("", "0", "false", "no")
_CONTAINER_FILES = (".dockerenv", "run/.containerenv")
_CONTAINER_VARIABLES = ("KUBERNETES_SERVICE_HOST", "container")


@dataclass(frozen=True)
class Surroundings:
    """The place where a command runs: at a terminal, in CI or in a container, and the memory that is available there.

    `free_bytes` is None if it is not known.
    """

    is_terminal: bool
    is_ci: bool
    is_container: bool
    free_bytes: int | None


KEEP_ALIVE_SCHEMA: Final = {"anyOf": [{"const": 0}, {"type": "string", "pattern": r"^\s*0\s*$"}, read_lag.schema]}
"""JSON schema of the values that `read_keep_alive` accepts."""


def read_keep_alive(value: Any) -> float:
    """Reads the profile's key `keep_alive`, a time such as `15m`, as seconds; 0 keeps nothing.

    Raises ConfigError for any other value.
    """
    if isinstance(value, (int, str)) and not isinstance(value, bool) and str(value).strip() == "0":
        return 0.0
    try:
        return float(read_lag("keep_alive", value))
    except ConfigError as error:
        raise ConfigError(f"{error.message}; 0 keeps nothing") from None


def choose_keep_alive(
    surroundings: Surroundings, has_server: Callable[[], bool], thresholds: EngineThresholds
) -> float:
    """Returns the seconds for which Spark is kept if the profile does not say it; 0 keeps nothing.

    Spark is kept for somebody at a terminal, but not in CI, in a container, or if memory is short. `has_server` says
    whether a kept Spark runs already, which needs no more memory; it is only called if memory is short.
    """
    here = surroundings
    if not here.is_terminal or here.is_ci or here.is_container:
        return 0.0
    is_short = here.free_bytes is not None and here.free_bytes < thresholds.keep_alive_free_bytes
    return 0.0 if is_short and not has_server() else thresholds.keep_alive_seconds


def observe_surroundings(environment: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Surroundings:
    """Observes where this process runs, by its terminal, its environment variables and files below `root`."""
    has_variable = any(environment.get(name) for name in _CONTAINER_VARIABLES)
    return Surroundings(
        is_terminal=any(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)),
        is_ci=environment.get("CI", "").lower() not in _NOT_SET,
        is_container=has_variable or any((root / file).exists() for file in _CONTAINER_FILES),
        free_bytes=measure_free_memory(root),
    )


def measure_free_memory(root: Path = Path("/")) -> int | None:
    """Bytes of memory that this machine can give to programs without swapping; None if the system does not say it."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        sizes = {name: rest.split()[0] for name, _, rest in (line.partition(":") for line in lines)}
        return int(sizes["MemAvailable"]) * 1024
    except (OSError, KeyError, IndexError, ValueError):
        return None


class IdleTimer:
    """Measures for how long a kept Spark was not used, by observations at short intervals."""

    def __init__(self, keep_alive_seconds: float, clock: Callable[[], float], least_free_bytes: int) -> None:
        """`clock` returns seconds; Spark counts as used now. Below `least_free_bytes`, an unused Spark ends at once."""
        self._keep_alive_seconds = keep_alive_seconds
        self._clock = clock
        self._least_free_bytes = least_free_bytes
        self._last_use = clock()

    def is_over(self, was_used: bool, free_bytes: int | None) -> bool:
        """Whether Spark should end now; `was_used` says whether any command used it since the last call."""
        if was_used:
            self._last_use = self._clock()
            return False
        is_short = free_bytes is not None and free_bytes < self._least_free_bytes
        return is_short or self._clock() - self._last_use >= self._keep_alive_seconds
