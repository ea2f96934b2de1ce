"""Planning the compaction of a very large table: a million files in a hundred thousand nodes, from statistics alone."""

from __future__ import annotations

import resource
import subprocess
import sys
from itertools import cycle, islice

from arctic_runtime.model.compaction import CompactionMode, DataFile, Node, PartitionValue, Relevel, TableFiles
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model, ModelConfig, Transform
from arctic_runtime.plan.compaction import compaction
from benchmarks.measure import Measurement, seconds

FILES, NODES, DEPTH = 1_000_000, 100_000, 8
MOST_SECONDS, MOST_GIGABYTES = 10.0, 2.0
MODES: tuple[CompactionMode, ...] = ("auto", "full")
MIB = 1024 * 1024
TABLE = TableName("lake", "bench", "large")
MODEL = Model(TABLE, "", ModelConfig(("id",), hash_key="id"))


def measure() -> list[Measurement]:
    """Seconds of a plan in each mode and the most memory that a process of its own takes for all of them."""
    said = subprocess.run([sys.executable, "-m", "benchmarks.planner"], check=True, capture_output=True, text=True).stdout
    *times, gigabytes = map(float, said.split())
    label = f"plan of {FILES:,} files in {NODES:,} nodes"
    found = [
        Measurement(f"{label}, {mode}", taken, "s", MOST_SECONDS, False) for mode, taken in zip(MODES, times, strict=True)
    ]
    return [*found, Measurement(f"memory of it, with the files themselves", gigabytes, "GB", MOST_GIGABYTES, False)]


def large_table(files: int, nodes: int, depth: int) -> TableFiles:
    """Days of buckets, every other day not split yet; sizes differ, some nodes are too large and some rows deleted."""
    sizes = cycle([1, 3, 9, 20, 40, 64, 90, 128, 30, 5, 150, 14])
    found: list[Node] = []
    for number in range(nodes):
        day, bucket = divmod(number, 1 << depth)
        at = depth - day % 2
        transform = Transform("bucket", "id", 1 << at)
        place = PartitionValue(transform, str(bucket >> day % 2), "int")
        spec = at if bucket % 2 == 0 or day % 2 == 0 else depth
        if spec != at:
            place = PartitionValue(Transform("bucket", "id", 1 << depth), str(bucket), "int")
        date = PartitionValue(Transform("days", "at"), str(day), "int")
        held = islice(sizes, files // nodes)
        lying = tuple(DataFile(size * MIB, size * 10_000, 100 * (size % 7), True) for size in held)
        found.append(Node(spec, (date, place), lying))
    transforms = (Transform("days", "at"), Transform("bucket", "id", 1 << depth))
    return TableFiles(TABLE, 1, tuple(found), 128 * MIB, depth, transforms)


def _main() -> None:
    table = large_table(FILES, NODES, DEPTH)
    for mode in MODES:
        steps = [step for step in compaction(MODEL, TableState(), [table], mode).steps if isinstance(step, Relevel)]
        print(seconds(lambda of=mode: compaction(MODEL, TableState(), [table], of)))
        print(f"{mode}: {len(steps)} splits", file=sys.stderr)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2)


if __name__ == "__main__":
    _main()
