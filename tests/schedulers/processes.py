"""Processes below another one, to be killed by chance and to be gone at the end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")


def list_children(process: int) -> Iterator[int]:
    """Yields all processes below another one, parents before children."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from list_children(child)


def read_command(process: int) -> str:
    """The words of a process, as it shows them; empty if it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def find_children(process: int, part: str) -> list[int]:
    """The processes below another one that have a text in their words."""
    return [child for child in list_children(process) if part in read_command(child)]


def kill(process: int) -> bool:
    """Kills a process; whether there was one."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
        return True
    return False


def wait_for(look: Callable[[], Value | None], seconds: float, otherwise: Callable[[], str]) -> Value:
    """Looks until there is something; fails with a text after some seconds."""
    end = time.monotonic() + seconds
    while not (value := look()):
        assert time.monotonic() < end, otherwise()
        time.sleep(0.1)
    return value
