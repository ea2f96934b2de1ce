"""What `arctic ingest` is asked, from its arguments."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.source import DeclaredTable, IngestSource, TablesWait, read_source
from dbt.adapters.arctic.cli import build_parser
from dbt.adapters.arctic.commands.ingest import Resync, parse_resync, run_jobs


def source(name: str, *tables: str, **settings: Any) -> IngestSource:
    declared = [DeclaredTable(table, table, "ods", "lake", {}, ()) for table in tables]
    return read_source(name, {"connector": "kafka", "servers": "x", **settings}, declared)


SOURCES = (
    source("shop", "orders", "items"),
    source("crm", "orders", "people"),
    source("people", "x", include=["public.*"]),
)


def ask(*arguments: str) -> tuple[list[str], bool, dict[str, set[str]]]:
    options = build_parser().parse_args(["ingest", *arguments])
    resync = parse_resync(SOURCES, options.sources, options.resync or ())
    return (
        [source.name for source in resync.sources],
        resync.is_full,
        {name: set(table) for name, table in resync.tables.items()},
    )


ALL = ["shop", "crm", "people"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", (ALL, False, {})),
        ("crm", (["crm"], False, {})),
        ("--resync", (ALL, True, {})),
        ("shop --resync --once", (["shop"], True, {})),
        ("--resync shop --once", (["shop"], True, {})),
        ("--resync shop crm", (["crm", "shop"], True, {})),
        ("--resync items", (ALL, False, {"shop": {"items"}})),
        ("--resync people.y", (ALL, False, {"people": {"y"}})),
        ("--resync=items --resync crm.orders", (ALL, False, {"shop": {"items"}, "crm": {"orders"}})),
        ("crm --resync orders --resync crm.people", (["crm"], False, {"crm": {"orders", "people"}})),
        ("--resync crm.people people crm", (["people", "crm"], False, {"crm": {"people"}})),
    ],
)
def test_a_resync_is_of_all_tables_or_of_those_that_are_named(
    arguments: str, expected: tuple[list[str], bool, dict[str, set[str]]]
) -> None:
    assert ask(*arguments.split()) == expected


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("--resync orders", r"2 sources have a table of this name: shop\.orders, crm\.orders"),
        ("--resync shop.order", r"unknown table \(did you mean 'shop\.orders'"),
        ("crm --resync items", r"unknown table"),
        ("--resync items shp", r"no source 'shp' is ingested"),
    ],
)
def test_a_table_of_a_resync_must_be_one_of_the_sources(arguments: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        ask(*arguments.split())


@dataclass
class Job:
    """An ingestion that ends with an error, or goes on until it is stopped or has come to its end."""

    name: str
    error: Exception | None = None
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def source(self) -> IngestSource:
        return source(self.name, "t")

    def run(self, *_: Any) -> None:
        if self.error is not None:
            raise self.error
        self.stopped.wait(0.3)

    def stop(self) -> None:
        self.stopped.set()


def run(*jobs: Job) -> list[str]:
    return [str(error) for error in run_jobs(jobs, True, Resync(()))]  # type: ignore[arg-type]


def test_a_table_that_waits_stops_no_other_source_and_a_failure_does() -> None:
    waiting, other = Job("a", TablesWait("a table waits")), Job("b")
    assert run(waiting, other) == ["a table waits"]
    assert not other.stopped.is_set()
    with pytest.raises(SourceError, match="gone"):
        run(Job("a", SourceError("gone")), waiting, other)
    assert other.stopped.is_set()
