"""What a model costs in a project of a thousand models, against one of a hundred, in seconds and in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from benchmarks.commands import dbt
from benchmarks.measure import Measurement, seconds
from benchmarks.memory import measure_peak
from benchmarks.night import build_orders

FEW, MANY = 100, 1_000
LAYERS = 5
ROWS, NEW_ROWS = 1_000, 10
MOST_GROWTH = 1.2
RUNS = ("first", "changed", "unchanged")


@dataclass(frozen=True)
class Project:
    """What the runs of a project took: seconds by run, and the most bytes of dbt and its Java together."""

    seconds: Mapping[str, float]
    peak_bytes: Mapping[str, int]


def measure() -> list[Measurement]:
    """Seconds for each model, and memory of a whole run: a project of many models, divided by one of few.

    The runs are one that creates all tables, one with new rows that each model has to follow, and one without changes.
    """
    few, many = _measure_project(FEW), _measure_project(MANY)
    sizes = {str(FEW): few, str(MANY): many}
    detail = {size: {"seconds": project.seconds, "peak_bytes": project.peak_bytes} for size, project in sizes.items()}
    label = f"{MANY:,} models / {FEW}"
    return [
        *(
            Measurement(
                f"{run} run: seconds a model, {label}",
                many.seconds[run] / MANY / (few.seconds[run] / FEW),
                "x",
                MOST_GROWTH,
                False,
                detail,
            )
            for run in RUNS
        ),
        *(
            Measurement(
                f"{run} run: memory, {label}", many.peak_bytes[run] / few.peak_bytes[run], "x", 2.0, False, detail
            )
            for run in RUNS
        ),
    ]


def _measure_project(models: int) -> Project:
    times: dict[str, float] = {}
    peaks: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as place:
        folder = Path(place)
        write_project(folder, models)
        reader = CatalogReader(Profile.for_embedded(folder / "warehouse"))
        reader.create_namespace("landing")
        orders = reader.catalog.create_table(("landing", "orders"), build_orders(0, ROWS).schema)
        orders.append(build_orders(0, ROWS))
        for run in RUNS:
            if run == "changed":
                orders.append(build_orders(ROWS, NEW_ROWS))
            with measure_peak() as peak:
                times[run] = seconds(lambda: dbt(folder, "run", "arctic"))
            peaks[run] = peak.bytes
            print(f"  {models} models, {run}: {times[run]:.1f} s, {peak.bytes / 2**20:,.0f} MB", flush=True)
    return Project(times, peaks)


def write_project(folder: Path, models: int) -> None:
    output = {"type": "arctic", "warehouse": str(folder / "warehouse"), "schema": "dwd", "threads": 2}
    project: dict[str, Any] = {
        "name": "many",
        "version": "1.0",
        "profile": "many",
        "models": {"+materialized": "arctic"},
        "flags": {"send_anonymous_usage_stats": False},
    }
    (folder / "dbt_project.yml").write_text(yaml.safe_dump(project))
    profile = {"many": {"target": "arctic", "outputs": {"arctic": output}}}
    (folder / "profiles.yml").write_text(yaml.safe_dump(profile))
    (folder / "models").mkdir()
    for name, text in _list_models(models):
        (folder / "models" / f"{name}.sql").write_text(text)


def _list_models(models: int) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each model: in each layer rows of the layer before, and groups of these rows.

    From the second layer on, rows are a join of two tables with rows.
    """
    width = models // LAYERS
    for n in range(models):
        layer, place = divmod(n, width)
        left, right = (
            f"{{{{ ref('m{(layer - 1) * width + other % width // 2 * 2}') }}}}" if layer else "lake.landing.orders"
            for other in (place, place + 2)
        )
        if place % 2:
            key, query = "customer", f"select customer, count(*) as n, sum(amount) as v from {left} group by customer"
        elif layer:
            key, query = "id", f"select l.id, l.customer, l.amount, r.day from {left} l join {right} r on l.id = r.id"
        else:
            key, query = "id", f"select id, customer, amount, day from {left} where amount <> {n}"
        yield f"m{n}", f"{{{{ config(primary_key='{key}') }}}}\n{query}\n"
