"""Planning the compaction of a very large table: a million files in a hundred thousand nodes, from statistics alone."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from itertools import cycle, islice

from arctic_runtime.model.files.compaction import CompactionMode, DataFile, FileGroup, PartitionValue, TableFiles
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model, ModelConfig, Transform
from arctic_runtime.plan.maintenance.compaction import plan_file_compaction
from arctic_runtime.thresholds import Thresholds
from benchmarks.measure import Measurement

FILES, NODES, DEPTH = 1_000_000, 100_000, 8
MOST_SECONDS, MOST_GIGABYTES = 10.0, 2.0
MODES: tuple[CompactionMode, ...] = ("auto", "full")
MIB = 1024 * 1024
DAYS = Transform("days", "at")
MODEL = Model(TableName("lake", "bench", "large"), "", ModelConfig(("id",), hash_key="id"))


def measure() -> list[Measurement]:
    """Seconds of one core for a plan in each mode, and the most memory of the process, which does nothing else."""
    command = [sys.executable, "-m", "benchmarks.planner"]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    *times, gigabytes = map(float, said.split())
    label = f"plan for {FILES:,} files in {NODES:,} nodes"
    taken = dict(zip(MODES, times, strict=True))
    measurements = [Measurement(f"{label}, {mode}", took, "s", MOST_SECONDS, False) for mode, took in taken.items()]
    return [*measurements, Measurement(f"{label}: memory", gigabytes, "GB", MOST_GIGABYTES, False)]


def large_table(files: int, nodes: int, depth: int) -> TableFiles:
    """Days of buckets, each second day a level less deep with files of merges below; one node of 32 is too large."""
    sizes = cycle([1, 3, 9, 20, 40, 5, 30, 2, 14, 64])
    figures = []
    for number in range(nodes):
        day, bucket = divmod(number, 1 << depth)
        factor = 3 if number % 32 == 0 else 1
        held = islice(sizes, files // nodes)
        lying = tuple(DataFile(factor * size * MIB, size * 10_000, 1_000 * (number % 7)) for size in held)
        figures.append(_node(day, depth - (day + bucket) % 2, bucket, lying))
    return TableFiles(MODEL.table, 1, tuple(figures), 128 * MIB, depth, (DAYS, Transform("bucket", "id", 1 << depth)))


def _node(day: int, depth: int, bucket: int, files: tuple[DataFile, ...]) -> FileGroup:
    """A node of its own; `bucket` is that of the deepest level, of which every second one lies above."""
    place = Transform("bucket", "id", 1 << depth)
    index = bucket % (1 << depth)
    return FileGroup(depth, (PartitionValue(DAYS, str(day), "int"), PartitionValue(place, str(index), "int")), files)


def _main() -> None:
    table = large_table(FILES, NODES, DEPTH)
    for mode in MODES:
        start = time.process_time()
        plan_file_compaction(MODEL, TableState(), [table], mode, Thresholds())
        print(time.process_time() - start)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2)


if __name__ == "__main__":
    _main()
