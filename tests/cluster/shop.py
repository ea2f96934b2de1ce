"""A small project with its warehouse in a REST catalog: orders by key, orders of customers, and sums by region.

Its events are made by numbers, and what its tables have to hold is folded from them in Python.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from tests.rest_catalog import Catalog, serve

ROOT = Path(__file__).parents[2]
ARCTIC = "dbt.adapters.arctic.command_line"
DBT = "dbt.cli.main"
KEYS = 20_000
REGIONS = 7
MODELS = {
    "ods_orders": """{{ config(primary_key='id', input='changes', sequence_by='lsn', delete_when="op = 'd'",
exclude_columns=['op', 'lsn'], merge='on_read', nodes=2) }}
select id, customer, v, op, lsn from {{ changes(source('landing', 'events')) }}""",
    "dwd_orders": """{{ config(primary_key='id', refresh='incremental', nodes=2) }}
select o.id, o.customer, c.region, o.v from {{ ref('ods_orders') }} o
join {{ ref('customers') }} c on c.customer = o.customer where o.v % 10 <> 0""",
    "dws_regions": """{{ config(primary_key='region', refresh='incremental') }}
select region, count(*) as orders, sum(v) as v from {{ ref('dwd_orders') }} group by region""",
}
LANDING = {"name": "landing", "schema": "landing", "tables": [{"name": "events"}]}
TYPES = {"id": pa.int64(), "customer": pa.int64(), "v": pa.int64(), "op": pa.string(), "lsn": pa.int64()}
SCHEMA = pa.schema(list(TYPES.items()))

SWEEP = """
import sys
import arctic_runtime
with arctic_runtime.open_project(sys.argv[1], "sweep", profiles_dir=sys.argv[1]) as project:
    tables = [table for table in project.tables if not table.name.endswith("things")]
    for table in tables:
        table.expire(orphans=True, older_than="1d")
    for answer in [table.verify() for table in tables]:
        if answer.differs:
            print(*answer.lines, sep="\\n")
"""
"""Removes orphan files and verifies all models, on a Spark of its own."""

Event = tuple[int, int, int, str, int]
Rows = list[tuple[Any, ...]]


def batch(number: int) -> list[Event]:
    """Events of keys: all of them first, later a third of them, of which some are new and some deleted."""
    keys = range(KEYS) if number == 0 else range(number, KEYS + 60 * number, 3)
    return [
        (key, (key * 7 + number) % 50, key * 13 + number, _operation(number, key), 1_000_000 * number + place)
        for place, key in enumerate(keys)
    ]


def _operation(number: int, key: int) -> str:
    return "d" if number and (key + number) % 11 == 0 else "u"


def fold(batches: int) -> dict[str, Rows]:
    """What the tables hold after so many batches."""
    newest: dict[int, Event] = {event[0]: event for number in range(batches) for event in batch(number)}
    orders = [event[:3] for event in newest.values() if event[3] != "d"]
    joined = [(key, customer, f"r{customer % REGIONS}", v) for key, customer, v in orders if v % 10]
    counts, sums = Counter[str](), Counter[str]()
    for _, _, region, v in joined:
        counts[region] += 1
        sums[region] += v
    regions = [(region, counts[region], sums[region]) for region in counts]
    return {"dwd_orders": sorted(joined), "dws_regions": sorted(regions)}


class Shop:
    """The project in a folder; every command is a process of its own, with the target of the profile that is set."""

    def __init__(self, folder: Path, uri: str, catalog: Catalog) -> None:
        self.folder, self.catalog, self.batches, self.schema = folder, catalog, 0, "dwd"
        self.warehouse = folder / "warehouse"
        self.properties = {"type": "rest", "uri": uri, "warehouse": f"file://{self.warehouse}"}
        self.landing = load_catalog("lake", **self.properties)
        (folder / "models").mkdir(exist_ok=True)
        (folder / "seeds").mkdir(exist_ok=True)
        for name, sql in MODELS.items():
            (folder / "models" / f"{name}.sql").write_text(sql)
        self.files = folder / "files"
        (self.files / "things").mkdir(parents=True)
        (folder / "models" / "sources.yml").write_text(json.dumps({"sources": [LANDING, self._ingested()]}))
        lines = ["customer,region", *(f"{customer},r{customer % REGIONS}" for customer in range(50))]
        (folder / "seeds" / "customers.csv").write_text("\n".join(lines))
        project = {"name": "shop", "version": "1.0", "profile": "shop", "models": {"+materialized": "arctic"}}
        (folder / "dbt_project.yml").write_text(json.dumps({**project, "flags": {"send_anonymous_usage_stats": False}}))

    def _ingested(self) -> dict[str, Any]:
        """A source of files, of which `arctic ingest` and a service make a table."""
        columns = [{"name": name, "data_type": "bigint"} for name in ("id", "v")]
        table = {
            "name": "things",
            "columns": columns,
            "config": {"meta": {"arctic": {"primary_key": ["id"], "merge": "on_write"}}},
        }
        ingest = {"connector": "files", "path": str(self.files), "format": "rows", "dead_letters": 0}
        return {
            "name": "files",
            "schema": "ods",
            "config": {"meta": {"arctic": {"ingest": ingest}}},
            "tables": [table],
        }

    def add_file(self, number: int) -> None:
        """Brings a file with events of a hundred things, half of which came before; complete when it has its name."""
        rows = [{"id": key, "v": key + number} for key in range(50 * number, 50 * number + 100)]
        file = self.files / f"{number}.part"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        file.rename(self.files / "things" / f"{number:05}.json")

    def use_target(self, settings: Mapping[str, Any], schema: str = "dwd", **target: Any) -> None:
        """Makes the commands from here on use Spark as `target` says, with further `settings` of Spark.

        In a new schema no table is there yet.
        """
        self.schema = schema
        shared = {"spark.sql.shuffle.partitions": 2}
        whole = {
            "type": "arctic",
            "schema": schema,
            "threads": 2,
            "keep_alive": 0,
            "catalog_config": self.properties,
            "server_side_parameters": {**shared, **settings},
            **target,
        }
        swept = {name: whole[name] for name in ("type", "schema", "threads", "keep_alive", "catalog_config")}
        swept |= {"master": "local[2]", "server_side_parameters": shared}
        profile = {"shop": {"target": "it", "outputs": {"it": whole, "sweep": swept}}}
        (self.folder / "profiles.yml").write_text(yaml.safe_dump(profile))

    def land(self) -> None:
        """Appends the next batch of events."""
        self.landing.create_namespace_if_not_exists("landing")
        columns = zip(*batch(self.batches), strict=True)
        rows = pa.table(dict(zip(SCHEMA.names, map(list, columns), strict=True)), schema=SCHEMA)
        self.landing.create_table_if_not_exists(("landing", "events"), SCHEMA).append(rows)
        self.batches += 1

    def begin(self, module: str, *command: str) -> subprocess.Popen[str]:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # A shell's background job ignores Ctrl-C, and so would what it starts.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        where = ["--project-dir", str(self.folder), "--profiles-dir", str(self.folder)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "NO_COLOR": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", module, *command, *where],
            env=environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, module: str, *command: str) -> str:
        process = self.begin(module, *command)
        said = process.communicate()[0]
        assert process.returncode == 0, said
        return said

    def shown(self) -> dict[str, Rows]:
        """What the tables hold."""
        frames = {name: self.landing.load_table((self.schema, name)).scan().to_arrow() for name in fold(0)}
        columns = {"dwd_orders": ["id", "customer", "region", "v"], "dws_regions": ["region", "orders", "v"]}
        return {
            name: sorted(zip(*(frame[column].to_pylist() for column in columns[name]), strict=True))
            for name, frame in frames.items()
        }

    def files_of(self, model: str) -> set[Path]:
        """The data files of a model's tables that are there, of which some may still be written."""
        return {*self.warehouse.glob(f"{self.schema}/{model}*/data/**/*.parquet")}

    def things(self) -> Rows:
        """The table of the files' events; empty before it is there."""
        with suppress(NoSuchTableError):
            frame = self.landing.load_table(("ods", "things")).scan().to_arrow()
            return sorted(zip(frame["id"].to_pylist(), frame["v"].to_pylist(), strict=True))
        return []

    def is_exact(self) -> bool:
        """Whether the tables hold what the events say; False while they are not all there."""
        with suppress(NoSuchTableError):
            return self.shown() == fold(self.batches)
        return False

    def find_leftovers(self) -> set[str]:
        """Removes orphan files of any age, and returns the models' files that are still there and in no metadata.

        The tables have to pass `arctic verify` after it.
        """
        for file in self.warehouse.rglob("*"):
            os.utime(file, (0, 0))
        self._sweep()
        there = {file for file in self.warehouse.glob(f"{self.schema}/*/*/**/*") if file.is_file()}
        known = {Path(path.removeprefix("file://").removeprefix("file:")) for path in self._list_known()}
        beside = {file.with_name(f".{file.name}.crc") for file in known}
        # A REST catalog looks after views.
        views = {view for schema, view in self.catalog.views if schema == self.schema}
        own = {file.relative_to(self.warehouse) for file in there - known - beside}
        return {str(file) for file in own if file.parts[1].startswith(tuple(MODELS)) and file.parts[1] not in views}

    def _sweep(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
        command = [sys.executable, "-c", SWEEP, str(self.folder)]
        swept = subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False)
        assert (swept.returncode, swept.stdout) == (0, ""), swept.stdout + swept.stderr

    def _list_known(self) -> Iterator[str]:
        """The files of the schema that metadata refers to."""
        for name in self.landing.list_tables(self.schema):
            table = self.landing.load_table(name)
            yield table.metadata_location
            yield from (entry.metadata_file for entry in table.metadata.metadata_log)
            yield from (file.statistics_path for file in table.metadata.statistics)
            for snapshot in table.metadata.snapshots:
                yield snapshot.manifest_list
                for manifest in snapshot.manifests(table.io):
                    yield manifest.manifest_path
                    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
                    yield from (entry.data_file.file_path for entry in entries)


@contextmanager
def open_shop(folder: Path) -> Iterator[Shop]:
    with serve(folder / "warehouse") as server:
        catalog: Catalog = vars(server.RequestHandlerClass)["catalog"]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Shop(folder, f"http://127.0.0.1:{server.server_address[1]}", catalog)
        server.shutdown()
