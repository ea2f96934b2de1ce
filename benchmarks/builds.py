"""`dbt build` with `publish: build` against `publish: model`, and the seconds from the last test to the publication."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from benchmarks.measure import Measurement, ratio, side_by_side
from benchmarks.night import KINDS, NEW_ROWS, ROWS, build_customers, build_orders
from sample_project.servers import PostgreSQLServer

MODELS = 20
MANY_MODELS = 50
_TIME = r"^(\d\d:\d\d:\d\d\.\d+) "


def measure(rounds: int = 3) -> list[Measurement]:
    """The ratio of whole commands with 20 models and two tests each, and the publication of 50 models."""
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as place, _postgres(Path(place)) as postgres:
        folder = Path(place)
        local = {"warehouse": str(folder / "warehouse")}
        return [
            _compare(folder / "compared", local, rounds),
            _time_publication(folder / "embedded", local, "embedded"),
            _time_publication(folder / "postgres", {"catalog_config": postgres}, "PostgreSQL"),
        ]


def _compare(folder: Path, catalog: Mapping[str, Any], rounds: int) -> Measurement:
    orders = _write_project(folder, catalog, MODELS)
    for target in ("model", "build"):
        _build(folder, target)
    nights = iter(range(rounds + 1))

    def build_first() -> None:
        orders.append(build_orders(ROWS + next(nights) * NEW_ROWS, NEW_ROWS))
        _build(folder, "model")

    times = side_by_side({"model": build_first, "build": partial(_build, folder, "build")}, rounds)
    metric = f"dbt build of {MODELS} models, publish: build / publish: model"
    return Measurement(metric, ratio(times, "build", "model"), "x", 1.15, False, times)


def _time_publication(folder: Path, catalog: Mapping[str, Any], name: str) -> Measurement:
    """The seconds from the last test to the publication, by dbt's log."""
    orders = _write_project(folder, catalog, MANY_MODELS)
    _build(folder, "build")
    orders.append(build_orders(ROWS, NEW_ROWS))
    _build(folder, "build")
    log = (folder / "logs" / "dbt.log").read_text()
    text = re.sub(r"\x1b\[[0-9;]*m", "", log[log.rindex("Running with dbt=") :])
    tests = re.findall(rf"{_TIME}.* PASS ", text, re.MULTILINE)
    published = re.findall(rf"{_TIME}.*Published .* in one commit", text, re.MULTILINE)
    taken = (_parse_time(published[-1]) - _parse_time(tests[-1])).total_seconds()
    return Measurement(f"seconds from the last test to visible, {MANY_MODELS} models, {name}", taken, "s", 2.0, False)


def _parse_time(text: str) -> datetime:
    return datetime.strptime(text, "%H:%M:%S.%f")


def _build(folder: Path, target: str) -> None:
    where = ["--project-dir", str(folder), "--profiles-dir", str(folder), "--target", target]
    logged = ["--log-level", "none", "--log-level-file", "info", "--log-path", str(folder / "logs")]
    done = subprocess.run(
        [sys.executable, "-m", "dbt.cli.main", *logged, "build", *where, "--target-path", str(folder / target)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"dbt build failed:\n{done.stdout}\n{done.stderr}")


def _write_project(folder: Path, catalog: Mapping[str, Any], models: int) -> Any:
    """Writes a project with two targets, and its source; returns the table of orders, to append to."""
    folder.mkdir()
    landing = f"landing_{folder.name}"
    common = {"type": "arctic", **catalog, "threads": 2}
    outputs = {name: {**common, "schema": f"{folder.name}_{name}", "publish": name} for name in ("model", "build")}
    project: dict[str, Any] = {
        "name": "builds",
        "version": "1.0",
        "profile": "builds",
        "models": {"+materialized": "arctic"},
        "flags": {"send_anonymous_usage_stats": False},
    }
    (folder / "dbt_project.yml").write_text(yaml.safe_dump(project))
    (folder / "profiles.yml").write_text(yaml.safe_dump({"builds": {"target": "build", "outputs": outputs}}))
    (folder / "models").mkdir()
    written = {"orders": ("id", f"select * from lake.{landing}.orders")}
    written["customers"] = ("customer", f"select * from lake.{landing}.customers")
    for number in range(models):
        key, query = KINDS[number % len(KINDS)]
        written[f"m{number}"] = (key, query.replace(":n", str(number)))
    for name, (key, query) in written.items():
        (folder / "models" / f"{name}.sql").write_text(f"{{{{ config(primary_key='{key}') }}}}\n{query}\n")
    tested = [
        {"name": name, "columns": [{"name": key, "data_tests": ["not_null", "unique"]}]}
        for name, (key, _) in written.items()
    ]
    (folder / "models" / "schema.yml").write_text(yaml.safe_dump({"version": 2, "models": tested}))
    profile = (
        Profile.for_embedded(catalog["warehouse"])
        if "warehouse" in catalog
        else Profile("lake", catalog["catalog_config"])
    )
    reader = CatalogReader(profile)
    reader.create_namespace(landing)
    customers, orders = build_customers(), build_orders(0, ROWS)
    reader.catalog.create_table((landing, "customers"), customers.schema).append(customers)
    table = reader.catalog.create_table((landing, "orders"), orders.schema)
    table.append(orders)
    return table


@contextmanager
def _postgres(folder: Path) -> Iterator[dict[str, str]]:
    """Yields the properties of a catalog in a PostgreSQL of its own."""
    server = PostgreSQLServer("catalog")
    try:
        yield {
            "type": "jdbc",
            "uri": f"jdbc:postgresql://127.0.0.1:{server.port}/{server.database}",
            "jdbc.user": "postgres",
            "jdbc.password": "not-looked-at",
            "warehouse": str(folder / "in-postgres"),
        }
    finally:
        server.remove()
