"""Commands that only look at a project of 200 models, each a process of its own without a service beside it."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from benchmarks.commands import arctic, dbt, measure_arctic, measure_code
from benchmarks.many_models import ROWS, write_project
from benchmarks.measure import Measurement, seconds
from benchmarks.night import build_orders

MODELS = 200
RUNS = 3
"""Runs of the project, of which each but the first has new rows, so that tables have versions."""

LONGEST = 1.5
MOST_IMPORTS = 2.0
LIBRARY = "import pyiceberg.catalog"
"""The import that everybody needs who reads a catalog by pyiceberg."""


def measure(models: int = MODELS, rounds: int = 5) -> list[Measurement]:
    """Seconds of each command, by the clock or of the processor, whichever are more; and `status` against an import."""
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as place:
        folder = Path(place)
        _build_project(folder, models)
        newest, *_, oldest = (entry["version"] for entry in json.loads(arctic(folder, "history", "m0", "--json")))
        commands = {
            "status": ["status"],
            "status of one": ["status", "m0"],
            "lookup": ["lookup", "m0", "1"],
            "changes": ["changes", "m0", "--from", oldest, "--to", newest],
            "why": ["why", "m0", "--key", str(ROWS + 1)],
        }
        measured = [
            _measure_command(folder, f"arctic {name}, {models} models", arguments, rounds)
            for name, arguments in commands.items()
        ]
    imports = [measure_code(LIBRARY) for _ in range(rounds)]
    share = measured[0].detail["processor"] / statistics.median(imports)
    metric = f"arctic status, {models} models / {LIBRARY}"
    return [*measured, Measurement(metric, share, "x", MOST_IMPORTS, False, {"import": imports})]


def _build_project(folder: Path, models: int) -> None:
    """Writes and runs a project whose models read each other, and keeps its tables as every first command does."""
    write_project(folder, models)
    reader = CatalogReader(Profile.for_embedded(folder / "warehouse"))
    reader.create_namespace("landing")
    orders = reader.catalog.create_table(("landing", "orders"), build_orders(0, ROWS).schema)
    for turn in range(RUNS):
        orders.append(build_orders(turn * ROWS, ROWS))
        print(f"  run {turn + 1}: {seconds(lambda: dbt(folder, 'run', 'arctic')):.0f} s", flush=True)
    (folder / "target").mkdir(exist_ok=True)
    arctic(folder, "status")


def _measure_command(folder: Path, metric: str, arguments: Sequence[str], rounds: int) -> Measurement:
    processor: list[float] = []
    clock = [seconds(lambda: processor.append(measure_arctic(folder, *arguments))) for _ in range(rounds)]
    taken = {"processor": statistics.median(processor), "clock": statistics.median(clock)}
    print(f"  {metric}: {taken['processor']:.2f} s of processor, {taken['clock']:.2f} s by the clock", flush=True)
    return Measurement(metric, max(taken.values()), "s", LONGEST, False, taken)
