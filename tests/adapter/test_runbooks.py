"""The runbooks: damage is done, the symptom is the page's, its commands are typed, and the tables are exact again."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pytest
import yaml

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from sample_project.servers import newest_postgresql
from tests.ingest.conftest import running
from tests.ingest.servers import PostgreSQLServer
from tests.java import INTERPRETED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
COMMANDS = {"dbt": "dbt.cli.main", "arctic": "dbt.adapters.arctic.command_line"}

pytestmark = pytest.mark.slow

PartName = Literal["Before", "Look", "Do", "Over"]

_PART = re.compile(r"^\*\*(Before|Look|Do|Over)\.\*\*", re.MULTILINE)
_STEP = re.compile(r"^```sh\n(.*?)^```$(?:\n\n```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
_VERSION = re.compile(r"\b(?:\d{15,19}|build_\w+)\b")
_MASKED = (
    (r"\d\d:\d\d:\d\d(\.\d+)?(\+00:00)?", "TIME"),
    (r"\b20\d\d-\d\d-\d\d\b", "DAY"),
    (r"[\d,.]+ ?s\b", "SECONDS"),
    (r"[\d,]+ bytes", "BYTES"),
    (r"\d+ checks", "CHECKS"),
    (r"\d+ (snapshot|file)\(s\)", "NUMBER"),
    (r"\(\d+/s\)", "(RATE)"),
    (r"LSN [\dA-F]+/[\dA-F]+", "LSN"),
    (_VERSION.pattern, "VERSION"),
    (r"\.{4,}", "..."),
    (r"\[(incremental|full) ", "[MODE "),
    (r"\b(incremental|full) +(CHANGES|COST)\b", "MODE"),
)
"""Patterns of what differs between two runs of the same commands, and what stands for them."""

Events = list[tuple[int, str, datetime.date, int, int]]
EVENTS: Events = [
    (1, "ann", datetime.date(2026, 9, 1), 20, 1),
    (2, "ben", datetime.date(2026, 9, 1), 30, 2),
    (3, "cleo", datetime.date(2026, 10, 1), 5, 3),
    (4, "ben", datetime.date(2026, 10, 1), 40, 4),
]
"""Order, customer, month, amount and place in the order of events."""
LATER: Events = [(3, "cleo", datetime.date(2026, 10, 1), 6, 5), (5, "dora", datetime.date(2026, 10, 1), 7, 6)]

SOURCES = {
    "sources": [
        {
            "name": "landing",
            "tables": [
                {"name": "orders", "config": {"meta": {"arctic": {"retention": {"versions": "1d"}}}}},
                {"name": "visits", "config": {"event_time": "at"}},
            ],
        }
    ]
}
ORDERS = """
{{ config(materialized='arctic', primary_key='id', input='changes', sequence_by='nr', partition_by='month',
          retention={'versions': '5d', 'max_versions': 1, 'changes': '30d'}) }}
select id, customer, month, amount, nr from {{ changes(source('landing', 'orders')) }}
"""
SALES = """
{{ config(materialized='arctic', primary_key='month') }}
select month, count(*) as orders, sum(amount) as amount from {{ ref('orders') }} group by month
"""
PEAKS = """
{{ config(materialized='arctic', primary_key='month') }}
select month, amount from {{ ref('sales') }} where amount > 47
"""
VISITS = """
{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='at', batch_size='month',
          begin='2026-08-01') }}
select at, page from {{ source('landing', 'visits') }}
"""
REVENUE = """
{{ config(materialized='arctic', primary_key='customer') }}
select customer, sum(amount) as amount from {{ source('shop', 'orders') }} group by customer
"""


class Step(NamedTuple):
    """Commands that the page says to type, and the lines that it shows as their output."""

    commands: str
    shown: list[str]


def read_steps(heading: str) -> dict[PartName, list[Step]]:
    """The commands of a runbook, by its parts."""
    section = re.split(r"^## ", PAGE.split(f"\n## {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    _, *pieces = _PART.split(section)
    return {
        name: [Step(commands, _list_lines(shown)) for commands, shown in _STEP.findall(text)]
        for name, text in zip(pieces[::2], pieces[1::2], strict=True)  # type: ignore[misc]
    }


def _list_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def mask_text(line: str) -> str:
    """The line without what differs between two runs; the page shows the end of some lines alone, behind dots."""
    line = line.removeprefix("…").lstrip()
    for pattern, name in _MASKED:
        line = re.sub(pattern, name, line)
    return line


@dataclass
class Terminal:
    """A folder with a project, in which the page's commands are typed; its Spark stays between them."""

    folder: Path
    environment: dict[str, str]
    versions: dict[str, str] = field(default_factory=dict)
    """The version that stands in the page, and the one that was printed in its place."""

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def type(self, commands: str, may_fail: bool = False) -> list[str]:
        """What commands print; only what looks at damage may fail."""
        typed = _VERSION.sub(lambda match: self.versions.get(match[0], match[0]), commands)
        done = subprocess.run(
            ["bash", "-e", "-c", typed],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert may_fail or done.returncode == 0, typed + done.stdout + done.stderr
        return _list_lines(done.stdout + done.stderr)

    def follow(self, steps: list[Step], may_fail: bool = False) -> None:
        """Types the commands of a part of the page: each line that it shows ends a printed one, in this order."""
        assert steps
        for step in steps:
            printed = self.type(step.commands, may_fail)
            rest = iter(printed)
            for shown in step.shown:
                line = next((line for line in rest if mask_text(line).endswith(mask_text(shown))), None)
                assert line is not None, (step.commands, shown, printed)
                here, there = _VERSION.findall(shown), _VERSION.findall(line)
                self.versions |= dict(zip(reversed(here), reversed(there), strict=False))

    # The warehouse

    @property
    def reader(self) -> CatalogReader:
        return CatalogReader(Profile.for_embedded(self.folder / "warehouse"))

    def append(self, rows: Events, name: str = "orders") -> None:
        """Appends events to a landing table, as another program does; makes the table if it is not there."""
        columns = [("id", pa.int32()), ("customer", pa.string()), ("month", pa.date32()), ("amount", pa.int32())]
        schema = pa.schema([*columns, ("nr", pa.int32())])
        arrow = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
        catalog = self.reader.catalog
        catalog.create_namespace_if_not_exists("landing")
        if not catalog.table_exists(("landing", name)):
            catalog.create_table(("landing", name), schema, properties={"format-version": "2"})
        catalog.load_table(("landing", name)).append(arrow)

    def rows(self, name: str, schema: str = "dev") -> list[tuple[Any, ...]]:
        table = self.reader.load_table(schema, name)
        return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())

    def fold_changes(self, name: str, schema: str) -> list[tuple[Any, ...]]:
        """The keys and cities that the change rows of a table come to; the table may be a view, which Spark reads."""
        changes = self.reader.load_table(schema, f"{name}__changes").scan().to_arrow().to_pylist()
        newest = {row["id"]: row for row in sorted(changes, key=lambda row: (row["_ts"], row["_seq"]))}
        return sorted((key, row["city"]) for key, row in newest.items() if row["_action"] != "delete")

    def check_fold(self, events: Events) -> None:
        """Compares the tables with what the events come to; the page has `arctic verify` compare the folded changes."""
        newest = {event[0]: event for event in sorted(events, key=lambda event: event[-1])}
        orders, sums = Counter[datetime.date](), Counter[datetime.date]()
        for _, _, month, amount, _ in newest.values():
            orders[month] += 1
            sums[month] += amount
        assert self.rows("orders") == sorted(newest.values())
        assert self.rows("sales") == [(month, orders[month], sums[month]) for month in sorted(orders)]


@pytest.fixture
def terminal(tmp_path: Path, spark_settings: dict[str, str]) -> Iterator[Terminal]:
    """The project of the page, without a table."""
    folder = tmp_path / "shop"
    for command, module in COMMANDS.items():
        file = tmp_path / "bin" / command
        file.parent.mkdir(exist_ok=True)
        file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -W ignore -m {module} "$@"\n')
        file.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "DBT_ARCTIC_STATE": str(tmp_path / "state"),
        "DBT_USE_COLORS": "false",
        "DO_NOT_TRACK": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{f"GIT_{who}_{what}": "nobody" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    made = Terminal(folder, environment)
    write_project(made, spark_settings, "shop", "dev", "./warehouse")
    made.write("models/sources.yml", yaml.safe_dump(SOURCES))
    made.write("models/orders.sql", ORDERS)
    made.write("models/sales.sql", SALES)
    yield made
    made.type("arctic spark stop", may_fail=True)


def write_project(
    terminal: Terminal, settings: dict[str, str], name: str, schema: str, warehouse: str, **more: str
) -> None:
    target = {
        "type": "arctic",
        "warehouse": warehouse,
        "schema": schema,
        "threads": 2,
        "keep_alive": "15m",
        "server_side_parameters": {**settings, **INTERPRETED},
        **more,
    }
    terminal.write("profiles.yml", yaml.safe_dump({name: {"target": schema, "outputs": {schema: target}}}))
    terminal.write("dbt_project.yml", yaml.safe_dump({"name": name, "version": "1.0", "profile": name}))


@pytest.fixture
def built(terminal: Terminal) -> Terminal:
    terminal.append(EVENTS)
    terminal.type("dbt run")
    return terminal


def test_a_bad_deploy_is_taken_back(built: Terminal) -> None:
    runbook = read_steps("A bad deploy")
    built.type("git init -q && git add models && git commit -qm good")
    built.write("models/sales.sql", SALES.replace("sum(amount)", "sum(amount * 100)"))
    built.type("git commit -qam bad && dbt run --select sales")
    built.follow(runbook["Look"], may_fail=True)
    built.follow(runbook["Do"])
    built.follow(runbook["Over"])
    built.check_fold(EVENTS)


def test_a_bad_deploy_is_hidden_until_the_code_is_back(terminal: Terminal, spark_settings: dict[str, str]) -> None:
    """Events arrive while the models wait."""
    runbook = read_steps("After a bad deploy")
    write_project(terminal, spark_settings, "shop", "dev", "./warehouse", publish="build")
    terminal.write("models/peaks.sql", PEAKS)
    terminal.append(EVENTS)
    terminal.type("git init -q && git add models && git commit -qm good && dbt build")
    good = terminal.rows("peaks")
    terminal.write("models/sales.sql", SALES.replace("sum(amount)", "sum(amount * 100)"))
    terminal.type("git commit -qam bad && dbt build")
    terminal.follow(runbook["Look"])
    restore, wait, *rest = runbook["Do"]
    terminal.follow([restore])
    terminal.append(LATER)
    terminal.follow([wait])
    assert terminal.rows("peaks") == good
    terminal.follow(rest)
    terminal.follow(runbook["Over"])
    terminal.check_fold([*EVENTS, *LATER])


def test_a_month_is_restated(built: Terminal) -> None:
    """The extract has other amounts for one order of the month, and lacks another one."""
    runbook = read_steps("A month to restate")
    right = (1, "ann", datetime.date(2026, 9, 1), 25, 1)
    built.append([right], "orders_september")
    built.write("models/visits.sql", VISITS)
    when = [datetime.datetime(2026, month, 5, tzinfo=datetime.timezone.utc) for month in (8, 9)]
    catalog = built.reader.catalog
    visits = catalog.create_table(
        ("landing", "visits"), pa.schema([("at", pa.timestamp("us", "UTC")), ("page", pa.string())])
    )
    visits.append(pa.table({"at": when, "page": ["home", "wrong"]}))
    built.type("dbt run --select visits --event-time-start 2026-08-01 --event-time-end 2026-10-01")
    visits.overwrite(pa.table({"at": when, "page": ["home", "cart"]}))
    built.follow(runbook["Look"], may_fail=True)
    built.follow(runbook["Do"])
    built.follow(runbook["Over"])
    assert [page for _, page in built.rows("visits")] == ["home", "cart"]
    built.check_fold([right, *EVENTS[2:]])


def test_a_person_is_erased(built: Terminal) -> None:
    """The program that writes the landing table has already deleted what it knows of the person."""
    runbook = read_steps("An erasure request")
    person: Events = [(4711, "eve@example.com", datetime.date(2026, 10, 1), 9, 7)]
    built.append(person)
    built.type("dbt run")
    built.reader.load_table("landing", "orders").delete("id = 4711")
    built.follow(runbook["Look"], may_fail=True)
    built.follow(runbook["Do"])
    built.follow(runbook["Over"])
    built.check_fold(EVENTS)
    left = [
        file for file in (built.folder / "warehouse" / "dev").rglob("*.parquet") if b"eve@example" in file.read_bytes()
    ]
    assert left == []


def test_a_lost_warehouse_folder_is_restored(built: Terminal) -> None:
    """What was appended since the backup is sent again by its program."""
    runbook = read_steps("A lost warehouse folder")
    built.follow(runbook["Before"])
    built.append(LATER)
    built.type("dbt run")
    shutil.rmtree(built.folder / "warehouse")
    built.follow(runbook["Look"], may_fail=True)
    restore, *rest = runbook["Do"]
    built.follow([restore])
    built.append(LATER)
    built.follow(rest)
    built.follow(runbook["Over"])
    built.check_fold([*EVENTS, *LATER])


def test_a_catalog_that_was_set_back_is_gone_on_from(built: Terminal) -> None:
    runbook = read_steps("A catalog that was set back")
    built.type("arctic spark stop")
    built.type("mkdir -p backup && cp -a warehouse/catalog.db* backup/")
    built.append(LATER)
    built.type("dbt run")
    built.type("arctic spark stop")
    built.type("rm -f warehouse/catalog.db* && cp -a backup/catalog.db* warehouse/")
    built.follow(runbook["Look"], may_fail=True)
    stop, *rest = runbook["Do"]
    built.follow([stop])
    built.append(LATER)
    built.follow(rest)
    built.follow(runbook["Over"])
    built.check_fold([*EVENTS, *LATER])


@pytest.fixture
def disk(terminal: Terminal) -> Iterator[Path]:
    """A small disk of its own for the warehouse, which only an administrator can mount."""
    folder = terminal.folder / "warehouse"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], check=False).returncode != 0:
        missing = "A full disk is tried on one of its own, which could not be mounted."
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_is_freed(terminal: Terminal, disk: Path) -> None:
    runbook = read_steps("A full disk")
    terminal.append(EVENTS)
    terminal.type("dbt run")
    terminal.append(LATER)
    subprocess.run(["dd", "if=/dev/zero", f"of={disk / 'export.csv'}", "bs=4k"], stderr=subprocess.DEVNULL, check=False)
    terminal.follow(runbook["Look"], may_fail=True)
    terminal.follow(runbook["Do"])
    terminal.follow(runbook["Over"])
    terminal.check_fold([*EVENTS, *LATER])


def test_an_expired_upstream_is_read_anew(built: Terminal) -> None:
    """Another program expires the snapshot that was read last, before the next run."""
    runbook = read_steps("An expired upstream")
    built.append(LATER)
    oldest = built.reader.load_table("landing", "orders").snapshots()[0].snapshot_id
    call = f"call lake.system.expire_snapshots(table => 'landing.orders', snapshot_ids => array({oldest}))"
    built.write("macros/expire.sql", f'{{% macro expire() %}}{{% do run_query("{call}") %}}{{% endmacro %}}')
    built.type("dbt run-operation expire")
    built.follow(runbook["Look"], may_fail=True)
    built.follow(runbook["Do"])
    built.follow(runbook["Over"])
    built.check_fold([*EVENTS, *LATER])


def test_a_project_that_shares_the_warehouse_is_waited_for(built: Terminal, spark_settings: dict[str, str]) -> None:
    runbook = read_steps("Two projects that share a warehouse")
    finance = Terminal(built.folder.parent / "finance", built.environment)
    write_project(finance, spark_settings, "finance", "finance", str(built.folder / "warehouse"))
    sources = {"sources": [{"name": "shop", "schema": "dev", "tables": [{"name": "orders"}]}]}
    finance.write("models/sources.yml", yaml.safe_dump(sources))
    finance.write("models/revenue.sql", REVENUE)
    finance.type("dbt run")
    for number in (7, 8):
        built.append([(6, "fay", datetime.date(2026, 10, 1), number, number)])
        built.type("dbt run")
    built.follow(runbook["Look"], may_fail=True)
    built.follow(runbook["Do"])
    built.follow(runbook["Over"])
    assert built.rows("revenue", "finance") == [("ann", 20), ("ben", 70), ("cleo", 5), ("fay", 8)]
    built.check_fold([*EVENTS, (6, "fay", datetime.date(2026, 10, 1), 8, 8)])


@pytest.fixture
def server() -> Iterator[PostgreSQLServer]:
    made = running(lambda: PostgreSQLServer("shop"))
    yield made
    made.remove()


def test_a_slot_that_was_dropped_costs_a_new_load(terminal: Terminal, server: PostgreSQLServer) -> None:
    """Rows were changed, added and deleted while nobody kept the log."""
    runbook = read_steps("A slot that was dropped")
    terminal.environment |= {
        "PATH": os.pathsep.join([str(newest_postgresql()[0]), terminal.environment["PATH"]]),
        "PGHOST": "127.0.0.1",
        "PGPORT": str(server.port),
        "PGDATABASE": server.database,
        "PGUSER": "postgres",
    }
    settings = {"connector": "postgresql", "host": "127.0.0.1", "port": server.port, "database": server.database}
    ingest = {"ingest": {**settings, "user": "postgres"}}
    source = {
        "name": "shop",
        "schema": "ods",
        "config": {"meta": {"arctic": ingest}},
        "tables": [{"name": "customers"}],
    }
    shutil.rmtree(terminal.folder / "models")
    terminal.write("models/sources.yml", yaml.safe_dump({"sources": [source]}))
    terminal.write(
        "models/cities.sql",
        "{{ config(materialized='arctic', primary_key='city') }}"
        "select city, count(*) as n from {{ source('shop', 'customers') }} group by city",
    )
    server.sql("create table customers (id bigint primary key, city text)")
    server.sql("insert into customers values (10, 'Bergen'), (11, 'Oslo'), (12, 'Oslo')")
    terminal.type("arctic ingest --once && dbt run")
    server.sql("select pg_drop_replication_slot('arctic_shop')")
    server.sql("insert into customers values (13, 'Bodø')", "delete from customers where id = 10")
    server.sql("update customers set city = 'Bodø' where id = 11")
    terminal.follow(runbook["Look"], may_fail=True)
    terminal.follow(runbook["Do"])
    terminal.follow(runbook["Over"])
    assert terminal.fold_changes("customers", "ods") == [(11, "Bodø"), (12, "Oslo"), (13, "Bodø")]
    assert terminal.rows("cities") == [("Bodø", 2), ("Oslo", 1)]


def test_each_runbook_is_executed() -> None:
    """By the functions of this module, which name them."""
    headings = set(re.findall(r"^## (.+)$", PAGE, re.MULTILINE)) - {"Which runbook", "The examples"}
    here = Path(__file__).read_text(encoding="utf-8")
    assert set(re.findall(r'read_steps\("(.+)"\)', here)) == headings
    assert len(headings) == 10
    for heading in headings:
        steps = read_steps(heading)
        assert {"Look", "Do", "Over"} <= set(steps)
        assert all(steps.values())
