"""How much memory this process and those that it started hold. Linux alone tells it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Measurement

MOST_GROWTH = 1.1


@dataclass
class Peak:
    """The most bytes that the Java and Python processes which were started meanwhile held together."""

    bytes: int = 0


@dataclass(frozen=True)
class _Process:
    number: int
    parent: int
    name: str
    bytes: int
    """Memory that is not on a disk."""


def resident_bytes() -> int:
    """Of this process, of the Java processes that it started, and of theirs: memory that is not on a disk."""
    tree = _list_processes()
    javas = [process for process in tree.values() if process.name == "java" and _is_below(process, tree)]
    return tree[os.getpid()].bytes + sum(process.bytes for process in javas)


@contextmanager
def measure_peak(pause_seconds: float = 0.5) -> Iterator[Peak]:
    """Measures, at intervals, the memory of the processes that this one starts and of the Java of these."""
    peak, ended = Peak(), threading.Event()

    def look() -> None:
        while not ended.wait(pause_seconds):
            tree = _list_processes()
            children = [process for process in tree.values() if process.parent == os.getpid()]
            javas = [process for process in tree.values() if process.name == "java" and _is_below(process, tree)]
            peak.bytes = max(peak.bytes, sum(process.bytes for process in {*children, *javas}))

    watching = threading.Thread(target=look, daemon=True)
    watching.start()
    try:
        yield peak
    finally:
        ended.set()
        watching.join()


@contextmanager
def watched(minutes: float) -> Iterator[dict[float, int]]:
    """Bytes that are held after so many minutes, once each minute, and at the end."""
    looks: dict[float, int] = {}
    ended = threading.Event()
    began = time.monotonic()

    def look() -> None:
        while not ended.wait(max(0.0, 60 * (len(looks) + 1) - (time.monotonic() - began))):
            looks[len(looks) + 1.0] = resident_bytes()

    watching = threading.Thread(target=look, daemon=True)
    watching.start()
    yield looks
    ended.set()
    watching.join()
    looks[minutes] = resident_bytes()


def _list_processes() -> dict[int, _Process]:
    processes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
        except OSError:  # it has ended meanwhile
            continue
        size = int(status.get("VmRSS", "0 kB").split()[0]) * 1024
        processes[int(folder.name)] = _Process(int(folder.name), int(status["PPid"]), status["Name"].strip(), size)
    return processes


def _is_below(process: _Process, tree: Mapping[int, _Process]) -> bool:
    """Returns whether this process has started another one, directly or not."""
    parent = tree.get(process.parent)
    return process.parent == os.getpid() or (parent is not None and _is_below(parent, tree))


def growth(label: str, looks: Mapping[float, int], minutes: float, first: float) -> list[Measurement]:
    """What is held after `minutes`, divided by what was held after the `first` ones, if there are five times these."""
    shown = {f"{at:g} min": round(held / 2**20) for at, held in looks.items()}
    print(f"  memory in MB: {shown}", flush=True)
    if minutes < 5 * first:
        return []
    name = f"{label}: after {minutes:g} minutes / after {first:g}"
    return [Measurement(name, looks[minutes] / looks[first], "x", MOST_GROWTH, False, {"megabytes": shown})]
