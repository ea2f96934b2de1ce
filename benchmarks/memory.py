"""How much memory this process and those that it started hold. Linux alone tells it."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Measurement

MOST_GROWTH = 1.1


def resident_bytes() -> int:
    """Of this process, of the Java processes that it started, and of theirs: memory that is not on a disk."""
    children = defaultdict(list)
    held: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
        except OSError:  # it has ended meanwhile
            continue
        process = int(folder.name)
        children[int(status["PPid"])].append(process)
        if process == os.getpid() or status["Name"].strip() == "java":
            held[process] = int(status.get("VmRSS", "0 kB").split()[0]) * 1024
    number, rest = 0, [os.getpid()]
    while rest:
        process = rest.pop()
        number += held.get(process, 0)
        rest += children[process]
    return number


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


def growth(label: str, looks: Mapping[float, int], minutes: float, first: float) -> list[Measurement]:
    """What is held after `minutes`, divided by what was held after the `first` ones, if there are five times these."""
    shown = {f"{at:g} min": round(held / 2**20) for at, held in looks.items()}
    print(f"  memory in MB: {shown}", flush=True)
    if minutes < 5 * first:
        return []
    name = f"{label}: after {minutes:g} minutes / after {first:g}"
    return [Measurement(name, looks[minutes] / looks[first], "x", MOST_GROWTH, False, {"megabytes": shown})]
