"""A night's `dbt run` of many small models, in a process and a Spark of its own, against the same models as tables."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from benchmarks.commands import dbt, measure_processor
from benchmarks.measure import Measurement, ratio, side_by_side

MODELS = 20
ROWS = 10_000
CUSTOMERS = 500
NEW_ROWS = 100
KINDS = (
    ("id", "select id, customer, amount * :n as amount from {{ ref('orders') }} where amount <> :n"),
    (
        "id",
        "select o.id, o.amount + :n as amount, c.name from {{ ref('orders') }} o "
        "left join {{ ref('customers') }} c using (customer)",
    ),
    (
        "customer",
        "select customer, count(*) as orders, sum(amount) + :n as amount from {{ ref('orders') }} group by customer",
    ),
    ("day", "select day, count(distinct customer) + :n as customers from {{ ref('orders') }} group by day"),
    (
        "id",
        "select id, customer, row_number() over (partition by customer order by amount desc, id) + :n as place "
        "from {{ ref('orders') }}",
    ),
)
"""The key of each kind of model, and its query, in which a number for `:n` makes each model another one."""


def measure(rounds: int = 3) -> list[Measurement]:
    """The seconds of whole commands by the clock and of the processor, with 100 new rows beside 10,000.

    Two runs are not counted: one makes the tables, and the next finds out how long it takes to follow changes.
    """
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as place:
        folder = Path(place)
        _write_project(folder)
        reader = CatalogReader(Profile.for_embedded(folder / "warehouse"))
        reader.create_namespace("landing")
        orders = reader.catalog.create_table(("landing", "orders"), build_orders(0, ROWS).schema)
        orders.append(build_orders(0, ROWS))
        customers = build_customers()
        reader.catalog.create_table(("landing", "customers"), customers.schema).append(customers)
        dbt(folder, "run", "arctic")
        nights = iter(range(rounds + 1))
        processor: dict[str, list[float]] = {"ours": [], "tables": []}

        def run_ours() -> None:
            orders.append(build_orders(ROWS + next(nights) * NEW_ROWS, NEW_ROWS))
            processor["ours"].append(measure_processor(folder, "run", "arctic"))

        def run_theirs() -> None:
            processor["tables"].append(measure_processor(folder, "run", "table"))

        times = side_by_side({"ours": run_ours, "tables": run_theirs}, rounds)
    processor = {name: spent[1:] for name, spent in processor.items()}
    metric = f"a night of {MODELS} small models / the same as tables"
    return [
        Measurement(metric, ratio(times, "ours", "tables"), "x", 1.15, False, times),
        Measurement(f"{metric}, processor", ratio(processor, "ours", "tables"), "x", 1.15, False, processor),
    ]


def _write_project(folder: Path) -> None:
    """One project; its targets say how models are made, each in a schema of its own."""
    common = {"type": "arctic", "warehouse": str(folder / "warehouse"), "threads": 2}
    outputs = {name: {**common, "schema": name} for name in ("arctic", "table")}
    project: dict[str, Any] = {
        "name": "night",
        "version": "1.0",
        "profile": "night",
        "models": {"+materialized": "{{ target.schema }}"},
        "flags": {"send_anonymous_usage_stats": False},
    }
    (folder / "dbt_project.yml").write_text(yaml.safe_dump(project))
    (folder / "profiles.yml").write_text(yaml.safe_dump({"night": {"target": "arctic", "outputs": outputs}}))
    (folder / "models").mkdir()
    models = {"orders": ("id", "select * from lake.landing.orders")}
    models["customers"] = ("customer", "select * from lake.landing.customers")
    for n in range(MODELS):
        key, query = KINDS[n % len(KINDS)]
        models[f"m{n}"] = (key, query.replace(":n", str(n)))
    for name, (key, query) in models.items():
        config = f"{{{{ config(primary_key='{key}') }}}}"
        (folder / "models" / f"{name}.sql").write_text(f"{config}\n{query}\n")


def build_orders(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    columns = {
        "id": list(ids),
        "customer": [i % CUSTOMERS for i in ids],
        "amount": [i * 7 % 1000 for i in ids],
        "day": [i % 100 for i in ids],
    }
    return pa.table(columns)


def build_customers() -> pa.Table:
    return pa.table({"customer": list(range(CUSTOMERS)), "name": [f"name {i}" for i in range(CUSTOMERS)]})
