"""`arctic serve` over real databases: its sources are edited, and their tables dropped, renamed and made again."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.adapter.served import Served
from tests.ingest.servers import MariaDBServer, PostgreSQLServer, ServerError

pytestmark = pytest.mark.slow

PASSWORD = "s3cret-of-the-test"
ROWS = 30_000
TOTALS = """{{ config(materialized='arctic', primary_key='kind') }}
select kind, count(*) as n from {{ source('shop', 'clicks') }} group by kind
"""
OFTEN = """
import sys
from arctic_runtime.profile import Profile
object.__setattr__(Profile.thresholds.ingest, "look_seconds", 1.0)
object.__setattr__(Profile.thresholds.service, "project_poll_seconds", 0.5)
from dbt.adapters.arctic.command_line import main
sys.exit(main(sys.argv[1:]))
"""
"""Runs the command with a service that looks for edits and for new tables more often than a test can wait."""


@dataclass
class Shop:
    """A project over a database with the table `clicks`, and the services over it."""

    folder: Path
    server: PostgreSQLServer | MariaDBServer
    at: str
    ingest: dict[str, Any]
    tables: tuple[str, ...] = ("clicks",)
    services: list[Served] = field(default_factory=list)

    def sql(self, *statements: str) -> str:
        return self.server.sql(*(statement.format(at=self.at) for statement in statements))

    def rename(self, table: str, name: str) -> None:
        new = name if isinstance(self.server, PostgreSQLServer) else f"{{at}}.{name}"
        self.sql(f"alter table {{at}}.{table} rename to {new}")

    def write(self, tables: Sequence[str] | None = None, **settings: Any) -> None:
        """Writes the project, with these tables and with further settings of its source."""
        self.tables = tuple(tables or self.tables)
        self.ingest |= settings
        target = {"type": "arctic", "schema": "dwd", "warehouse": str(self.folder / "warehouse"), "threads": 2}
        project = {"name": "shop", "profile": "shop", "version": "1.0", "flags": {"send_anonymous_usage_stats": False}}
        source = {
            "name": "shop",
            "schema": "ods",
            "config": {"meta": {"arctic": {"ingest": self.ingest}}},
            "tables": [
                {"name": name, "config": {"meta": {"arctic": {"source_table": f"{self.at}.{name}"}}}}
                for name in self.tables
            ],
        }
        models = self.folder / "models"
        models.mkdir(exist_ok=True)
        (self.folder / "profiles.yml").write_text(yaml.safe_dump({"shop": {"target": "a", "outputs": {"a": target}}}))
        (self.folder / "dbt_project.yml").write_text(yaml.safe_dump(project))
        (models / "totals.sql").write_text(TOTALS)
        (models / "sources.yml").write_text(yaml.safe_dump({"sources": [source]}))

    def serve(self) -> Served:
        log = self.folder / f"serve{len(self.services)}.log"
        self.services.append(Served(self.folder, self.folder, log, ("-c", OFTEN)))
        return self.services[-1]

    def run(self, *command: str) -> str:
        """What a command of `arctic` prints, which must not fail."""
        where = ["--project-dir", str(self.folder), "--profiles-dir", str(self.folder)]
        arguments = [sys.executable, "-m", "dbt.adapters.arctic.command_line", *command, *where]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def status(self, table: str) -> Any:
        """What `arctic status` says of a table."""
        (status,) = json.loads(self.run("status", table, "--json"))
        return status


@pytest.fixture(params=["postgresql", "mariadb"])
def shop(request: pytest.FixtureRequest, slot: str, tmp_path: Path) -> Iterator[Shop]:
    server = request.getfixturevalue(request.param)
    own: tuple[str, ...] = ("create database {at}",)
    series, analyze = "seq from seq_1_to_{rows}", "analyze table {at}.clicks"
    database = slot
    if request.param == "postgresql":
        own = (
            f"create role {{at}} login replication password '{PASSWORD}'",
            "create schema {at} authorization {at}",
            "grant create on database shop to {at}",
            "set role {at}",
        )
        series, analyze, database = "g from generate_series(1, {rows}) g", "analyze {at}.clicks", "shop"
    else:
        own = (*own, f"create user {{at}}@'%' identified by '{PASSWORD}'", "grant all on *.* to {at}@'%'")
    ingest = {
        "connector": request.param,
        "host": "127.0.0.1",
        "port": server.port,
        "database": database,
        "user": slot,
        "password": PASSWORD,
        "slot": slot,
        "trigger": "2s",
        "properties": {"max.batch.size": "167", "max.queue.size": "334"},
    }
    made = Shop(tmp_path, server, slot, ingest)
    number = series.split()[0]
    filled = f"insert into {{at}}.clicks select {number}, 'k', 'secret' from {series.split(' ', 2)[2]}"
    made.sql(
        *own,
        "create table {at}.clicks (id int primary key, kind varchar(20), note varchar(20))",
        filled.replace("{rows}", str(ROWS)),
        analyze,
    )
    made.write()
    yield made
    for service in made.services:
        service.kill()


def table_of(service: Served, name: str) -> Any:
    tables = service.get("tables")["tables"]
    return next((table for table in tables if table["table"].endswith(f".{name}")), None)


def is_fresh(service: Served, **rows: int) -> Callable[[], bool]:
    """Whether tables are fresh, with so many rows each."""

    def look() -> bool:
        found = {name: table_of(service, name) for name in rows}
        return all(
            table is not None and table["state"] == "fresh" and table["rows"] == rows[name]
            for name, table in found.items()
        )

    return look


def reason_of(service: Served, name: str) -> str:
    table = table_of(service, name)
    return table["freshness"]["reason"] if table is not None and table["freshness"] else ""


def test_nothing_is_fresh_before_its_first_load_has_ended(shop: Shop) -> None:
    service = shop.serve()
    seen: list[tuple[str, str, str, Any]] = []

    def is_loaded() -> bool:
        clicks, totals = table_of(service, "clicks"), table_of(service, "totals")
        if clicks is not None and clicks["freshness"] and clicks["ingestion"]:
            below = totals["state"] if totals is not None and totals["freshness"] else "missing"
            loaded = clicks["ingestion"]["loaded_rows"]
            seen.append((clicks["state"], below, clicks["freshness"]["reason"], loaded))
        return is_fresh(service, clicks=ROWS, totals=1)()

    service.until(is_loaded)
    loading = [entry for entry in seen if entry[3] is not None]
    assert loading
    assert {state for state, *_ in loading} == {"loading"}
    assert not {below for _, below, *_ in loading} & {"fresh", "delayed"}
    assert any("is not loaded in full yet: " in reason and " of about " in reason for _, _, reason, _ in loading)
    assert all(0 < count <= ROWS for *_, count in loading)
    assert shop.status("clicks")["ingestion"]["loaded_rows"] is None
    service.stop()


@contextmanager
def locked(shop: Shop) -> Iterator[None]:
    """The table `clicks` of a PostgreSQL is locked by another connection."""

    def lock() -> None:
        with suppress(ServerError):  # it is ended from outside
            shop.sql("begin", "lock table {at}.clicks", "select pg_sleep(600)")

    thread = threading.Thread(target=lock)
    thread.start()
    held = "from pg_locks where relation = '{at}.clicks'::regclass and mode = 'AccessExclusiveLock' and granted"
    while not shop.sql(f"select 1 {held}"):
        time.sleep(0.1)
    try:
        yield
    finally:
        shop.sql(f"select pg_terminate_backend(pid) {held}")
        thread.join()


@pytest.mark.parametrize("shop", ["postgresql"], indirect=True)
def test_a_first_load_that_waits_for_a_lock_is_a_failure_until_it_goes_on(shop: Shop) -> None:
    with locked(shop):
        service = shop.serve()
        service.until(lambda: table_of(service, "clicks") is not None)
        service.until(lambda: "another transaction holds a lock" in service.errors().get("ingest shop", ""))
        service.until(lambda: table_of(service, "clicks")["state"] == "failed")
        service.until(lambda: "another transaction holds a lock" in service.get("sources")[0]["error"])
        assert "pg_stat_activity" in service.get("sources")[0]["error"]
        shown = shop.run("status")
        assert "clicks: not loaded yet" in shown
        assert "another transaction holds a lock" in shown
    service.until(is_fresh(service, clicks=ROWS))
    service.until(lambda: service.errors() == {})
    assert shop.sql("select count(*) from pg_stat_activity where query like 'create publication%'") == "0"
    service.stop()


def test_edits_of_a_source_are_taken_up_and_shown_without_its_secrets(shop: Shop) -> None:
    service = shop.serve()
    service.until(is_fresh(service, clicks=ROWS))
    owner = "set role {at}" if shop.ingest["connector"] == "postgresql" else "select 1"
    shop.sql(owner, "create table {at}.visits (id int primary key, n int)", "insert into {at}.visits values (1, 1)")
    shop.write(["clicks", "visits"])
    service.until(is_fresh(service, clicks=ROWS, visits=1))
    excluded = {**shop.ingest["properties"], "column.exclude.list": rf"{shop.at}\.clicks\.note"}
    shop.write(properties=excluded)

    def is_taken_up() -> bool:
        settings = table_of(service, "clicks")["ingestion"]["settings"]
        return bool(settings["properties"] == excluded and settings["password"] == "***")

    service.until(is_taken_up)
    shop.sql("insert into {at}.clicks values (0, 'k', 'hidden')", "insert into {at}.visits values (2, 2)")
    service.until(is_fresh(service, clicks=ROWS + 1, visits=2))
    assert shop.status("clicks")["ingestion"]["settings"]["properties"] == excluded
    assert PASSWORD not in shop.run("status")
    shop.write(["clicks"])
    service.until(lambda: table_of(service, "visits") is None)
    assert service.errors() == {}
    service.stop()


def test_a_table_that_was_dropped_and_made_again_or_renamed_shows_what_it_has(shop: Shop) -> None:
    owner = "set role {at}" if shop.ingest["connector"] == "postgresql" else "select 1"
    shop.sql(owner, "create table {at}.visits (id int primary key, n int)", "insert into {at}.visits values (1, 1)")
    shop.write(["clicks", "visits"])
    service = shop.serve()
    service.until(is_fresh(service, clicks=ROWS, visits=1))
    shop.sql(
        owner,
        "drop table {at}.clicks",
        "create table {at}.clicks (id int primary key, kind varchar(20), note varchar(20))",
        "insert into {at}.clicks values (5, 'k', 'n'), (6, 'k', 'n')",
    )
    service.until(is_fresh(service, clicks=2, totals=1, visits=1))
    shop.rename("visits", "away")
    service.until(lambda: table_of(service, "visits")["state"] == "held")
    assert "there is no table" in reason_of(service, "visits")
    shop.sql("insert into {at}.clicks values (7, 'k', 'n')", "insert into {at}.away values (2, 2)")
    service.until(is_fresh(service, clicks=3))
    shop.rename("away", "visits")
    service.until(is_fresh(service, clicks=3, visits=2))
    service.until(lambda: service.errors() == {})
    service.stop()
    assert service.verify()[0] == 0


def test_a_log_that_is_gone_is_named_until_the_tables_are_read_again(shop: Shop) -> None:
    service = shop.serve()
    service.until(is_fresh(service, clicks=ROWS))
    if isinstance(shop.server, PostgreSQLServer):
        shop.sql(
            "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = '{at}'",
            "select pg_sleep(0.2)",
            "select pg_drop_replication_slot('{at}')",
        )
        expected = f"replication slot {shop.at} is gone"
    else:
        service.stop()
        shop.sql("flush binary logs")
        shop.server.purge_logs()
        service = shop.serve()
        expected = "the server purged its binary log"
    shop.sql("delete from {at}.clicks where id > 10")
    service.until(lambda: expected in reason_of(service, "clicks"))
    clicks = table_of(service, "clicks")
    assert clicks["state"] == "failed"
    assert "arctic ingest --resync" in clicks["freshness"]["action"]
    service.until(lambda: table_of(service, "totals")["state"] == "behind")
    shop.run("ingest", "shop", "--resync", "--once")
    service.until(is_fresh(service, clicks=10, totals=1))
    shop.sql("delete from {at}.clicks where id = 10")
    service.until(is_fresh(service, clicks=9))
    assert service.errors() == {}
    service.stop()


@pytest.mark.parametrize("shop", ["postgresql"], indirect=True)
def test_a_table_of_another_owner_waits_alone_with_the_statement_to_run(shop: Shop) -> None:
    service = shop.serve()
    service.until(is_fresh(service, clicks=ROWS))
    shop.sql(
        "create table {at}.others (id int primary key)",
        "insert into {at}.others values (1)",
        "grant select on {at}.others to {at}",
    )
    shop.write(["clicks", "others"])
    statement = f"alter publication {shop.at} add table {shop.at}.others"
    service.until(lambda: statement in service.errors().get("ingest shop", ""))
    assert "--resync" not in service.errors()["ingest shop"]
    shop.sql("insert into {at}.clicks values (0, 'k', 'n')")
    service.until(is_fresh(service, clicks=ROWS + 1))
    assert statement in shop.run("status", "clicks")
    shop.sql(statement)
    service.until(is_fresh(service, clicks=ROWS + 1, others=1))
    service.until(lambda: service.errors() == {})
    service.stop()
