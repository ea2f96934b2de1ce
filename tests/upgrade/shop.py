"""A small warehouse with something of everything: written once by a version, then read and written by all later ones.

`python -m tests.upgrade.shop write` makes it below the working folder, and `… pack FILE` puts it into a file. `… use`
does what a later version does with it and prints what it found as JSON. Tables lie at paths relative to the working
folder, so the folder can be packed and unpacked anywhere: Spark has to be started in it.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName, format_changes_view
from arctic_runtime.model.table import Model
from arctic_runtime.operations.inspect import read_history
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.refresh.verify import verify_model
from arctic_runtime.spark.tables.table_session import TableSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAREHOUSE = Path("warehouse")
SCHEMA = "shop"
EVENTS = (
    (1, 10, "eu", "20.00", "c", 1),
    (2, 10, "us", "30.00", "c", 2),
    (3, 11, None, "5.00", "c", 3),
    (4, 12, "eu", "7.50", "c", 4),
)
MORE = ((1, 10, "eu", "25.00", "u", 5), (3, 11, None, "5.00", "d", 6), (2, 10, "eu", "30.00", "u", 7))
LATER = ((5, 11, "us", "1.00", "c", 8), (4, 12, None, "9.00", "u", 9), (1, 10, "eu", "25.00", "d", 10))


def names(*parts: str) -> TableName:
    return TableName("lake", SCHEMA, *parts)


def models() -> tuple[Model, ...]:
    """In the order of their runs; each reads what stands before it."""
    events = f"select order_id, customer_id, region, amount, op, lsn from `{format_changes_view(names('landed'))}`"
    return (
        _model(
            "ods_orders",
            events,
            primary_key="order_id",
            input="changes",
            sequence_by="lsn",
            delete_when="op = 'd'",
            exclude_columns=["op", "lsn"],
            merge="on_read",
        ),
        _model(
            "dwd_orders",
            "select order_id, customer_id, region, amount, amount * 2 as twice from lake.shop.ods_orders",
            primary_key="order_id",
            partition_by=["region"],
            nodes=2,
            sort_key=["amount"],
            refresh="incremental",
        ),
        _model(
            "dws_spend",
            "select region, count(*) as orders, sum(amount) as amount from lake.shop.dwd_orders "
            "where region is not null group by region",
            primary_key="region",
            refresh="incremental",
        ),
    )


def _model(name: str, sql: str, **config: Any) -> Model:
    return Model(names(name), sql, read_configuration(config, name))


class Shop:
    """The warehouse of the working folder."""

    def __init__(self, relative: bool) -> None:
        profile = Profile.for_embedded(WAREHOUSE, master="local[2]", settings={"spark.sql.shuffle.partitions": "2"})
        if relative:
            properties = {**profile.catalog_properties, "warehouse": str(WAREHOUSE)}
            settings = {**profile.settings, "spark.hadoop.fs.defaultFS": "file:///"}
            profile = Profile(catalog_properties=properties, master=profile.master, settings=settings)
        self.environment = SparkEnvironment(profile)
        self.reader = CatalogReader(profile)

    @cached_property
    def spark(self) -> SparkSession:
        return self.environment.new_session()

    def land(self, events: tuple[tuple[Any, ...], ...]) -> None:
        spark = self.spark
        spark.sql("create namespace if not exists lake.shop")
        spark.sql(
            "create table if not exists lake.shop.landed (order_id bigint, customer_id bigint, region string, "
            "amount decimal(12, 2), op string, lsn bigint) using iceberg"
        )
        columns = "order_id long, customer_id long, region string, a string, op string, lsn long"
        rows = spark.createDataFrame([*events], columns)
        rows = rows.selectExpr("order_id", "customer_id", "region", "cast(a as decimal(12, 2)) as amount", "op", "lsn")
        rows.coalesce(1).writeTo("lake.shop.landed").append()

    def refresh_of(self, model: Model, session: Callable[[], SparkSession] | None = None) -> Refresh:
        return Refresh.from_model(model, self.reader, session or (lambda: self.spark), Request())

    def session_of(self, model: Model) -> TableSession:
        return self.refresh_of(model).table

    def rows(self, model: Model) -> list[str]:
        frame = self.spark.table(str(model.table))
        return sorted(" ".join(map(str, row)) for row in frame.collect())

    def state(self) -> dict[str, Any]:
        """The rows of each model and what it breaks of its promises."""
        broken = [f"{check.check}: {check.examples}" for model in models() for check in self.verified(model)]
        return {"rows": {model.table.name: self.rows(model) for model in models()}, "broken": broken}

    def verified(self, model: Model) -> list[Any]:
        return [check for check in verify_model(self.refresh_of(model)) if check.broken]

    def told(self, model: Model) -> str:
        """What a run says."""
        outcome = self.refresh_of(model).run_refresh()
        counts = (outcome.rows[action] for action in ("insert", "update", "delete"))
        return f"{outcome.mode} {outcome.reason} {' '.join(map(str, counts))}"


def write() -> None:
    """What the oldest version did, and each later one can."""
    shop = Shop(relative=True)
    for events in (EVENTS, MORE):
        shop.land(events)
        for model in models():
            shop.told(model)
    shop.environment.stop_spark()


def pack(file: str) -> None:
    """What was written, once the process that wrote it has ended: until then the catalog is in more than one file."""
    with closing(sqlite3.connect(WAREHOUSE / "catalog.db")) as catalog:
        catalog.execute("pragma journal_mode = delete")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for part in sorted(WAREHOUSE.rglob("*")):
            if part.is_file() and part.suffix != ".crc":
                packed.write(part)


def use() -> dict[str, Any]:
    """What a later version does with a warehouse that it did not write."""
    shop = Shop(relative=False)
    values: dict[str, Any] = {"versions": [len(read_history(shop.reader, model)) for model in models()]}
    values["upgraded"] = [shop.told(model) for model in models()]
    values["nothing new"] = [shop.refresh_of(model, _no_spark).run_refresh().mode for model in models()]
    values["as written"] = shop.state()
    shop.land(LATER)
    values["later"] = [shop.told(model) for model in models()]
    values["after"] = shop.state()
    for model in models():
        compact_table(shop.session_of(model), "full")
    values["compacted"] = shop.state()
    shop.environment.stop_spark()
    return values


def _no_spark() -> SparkSession:
    raise AssertionError("Spark was asked")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write"]:
            write()
        case ["pack", file]:
            pack(file)
        case ["use"]:
            print(json.dumps(use()))
        case _:
            sys.exit("write, pack FILE or use")
