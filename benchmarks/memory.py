"""How much memory this process and those that it started hold. Linux alone tells it."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path


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
    found, rest = 0, [os.getpid()]
    while rest:
        process = rest.pop()
        found += held.get(process, 0)
        rest += children[process]
    return found
