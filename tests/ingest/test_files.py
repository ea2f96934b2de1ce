"""Events in files are read byte by byte as they are, in the order of files and lines, and published exactly once."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.registry import make_format
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.job.reports import BatchReport, JobListeners
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.ingest.transports.connector import SourceConnection
from arctic_runtime.ingest.transports.files.listing import Folder
from arctic_runtime.ingest.transports.files.log import FileTable
from arctic_runtime.ingest.transports.files.transport import Files
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, Batch
from arctic_runtime.ingest.writing.event_frames import to_dataframe
from arctic_runtime.thresholds import TransportThresholds
from tests.spark.warehouse import Warehouse
from tests.unit.ingest.transports.files.test_transport import Noted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMITS = TransportThresholds()
Event = tuple[str, bytes]


@contextmanager
def small_splits(spark: SparkSession, size: int) -> Iterator[None]:
    """Files are read in parts of so many bytes, as if they were large."""
    values = {"spark.sql.files.maxPartitionBytes": size, "spark.sql.files.openCostInBytes": 1}
    before = {key: spark.conf.get(key) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.set(key, old)


def transport(spark: SparkSession, folder: Path, log: Any = None, **tables: str) -> Files:
    return Files(Folder(str(folder)), tables or {"t": "*"}, log or Noted(), lambda: spark, LIMITS)


def read(spark: SparkSession, files: Files) -> list[tuple[Batch, dict[str, list[Event]]]]:
    """Batches, each with its events by table as ORIGIN and PAYLOAD, in the order of ARRIVAL."""
    batches = []
    for batch in files.read_batches(until_drained=True):
        tables: dict[str, list[Event]] = {}
        for events in batch.tables:
            rows = to_dataframe(spark, events).select(ARRIVAL, ORIGIN, PAYLOAD).collect()
            assert len({row[0] for row in rows}) == len(rows)
            tables[events.table] = [(origin, bytes(payload)) for _, origin, payload in sorted(rows)]
        assert batch.count == sum(map(len, tables.values()))
        batches.append((batch, tables))
    return batches


def test_lines_are_handed_over_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "b [1].json").write_bytes(b'{"a":1}\r\n\n \t\r\n\xff\xfe{\x00}\n{"a":"\xe2\x82')
    (tmp_path / "a%20b{x}.json.gz").write_bytes(gzip.compress(b'{"z":1}\n{"z":2}'))
    (tmp_path / "c.json").write_bytes(b"")
    files = transport(spark, tmp_path)
    files.open_at(files.initial)
    [(_, tables)] = read(spark, files)
    assert tables["t"] == [
        ("a%20b{x}.json.gz:1", b'{"z":1}'),
        ("a%20b{x}.json.gz:2", b'{"z":2}'),
        ("b [1].json:1", b'{"a":1}\r'),
        ("b [1].json:4", b"\xff\xfe{\x00}"),
        ("b [1].json:5", b'{"a":"\xe2\x82'),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_lines_survives_files_read_in_parts(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    expected = []
    for number in range(4):
        name = f"{number}.json"
        lines = [
            b"%d" % chance.randrange(10**9) * chance.choice([0, 1, 1, 9]) for _ in range(chance.choice([1, 40, 400]))
        ]
        (tmp_path / name).write_bytes(b"\n".join(lines))
        expected += [(f"{name}:{place}", line) for place, line in enumerate(lines, 1) if line]
    files = transport(spark, tmp_path)
    files.open_at(files.initial)
    with small_splits(spark, chance.choice([100, 300, 1000])):
        [(_, tables)] = read(spark, files)
    assert tables["t"] == expected


def test_each_file_belongs_to_the_table_whose_pattern_it_fits(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("orders/1.json", "items/1.json", "other/1.json", "orders/2.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    files = transport(spark, tmp_path, **{"shop.orders": "orders/*", "shop.items": "items/*"})
    files.open_at(files.initial)
    [(batch, tables)] = read(spark, files)
    assert tables == {
        "shop.items": [("items/1.json:1", b"items/1.json")],
        "shop.orders": [("orders/1.json:1", b"orders/1.json"), ("orders/2.json:1", b"orders/2.json")],
    }
    assert batch.count == 3


def test_events_of_batches_up_to_a_position_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    log = Noted()
    files = transport(spark, tmp_path, log)
    positions = []
    for number in range(3):
        (tmp_path / f"{number}.json").write_text(f"{number}")
        files.open_at(positions[-1] if positions else files.initial)
        [(batch, _)] = read(spark, files)
        positions.append(batch.position)
    files.open_at(positions[0])
    left = [
        (batch.position, to_dataframe(spark, files.select_after(batch.tables[0], positions[1])).count())
        for batch in files.read_batches(until_drained=True)
    ]
    assert left == [(positions[1], 0), (positions[2], 1)]


def test_a_file_that_grows_while_it_is_read_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("1\n2\n")
    files = transport(spark, tmp_path)
    files.open_at(files.initial)
    batch = next(files.read_batches(until_drained=True))
    with (tmp_path / "1.json").open("a") as file:
        file.write("3\n")
    with pytest.raises(Exception, match=r"A file changed while it was read: .*1\.json"):
        to_dataframe(spark, batch.tables[0]).collect()


def test_closing_ends_the_wait_for_files(spark: SparkSession, tmp_path: Path) -> None:
    files = transport(spark, tmp_path)
    files.open_at(files.initial)
    (tmp_path / "1.json").write_text("1")
    batches = files.read_batches(until_drained=False)
    next(batches)
    files.close_source()
    assert list(batches) == []


# Into tables


def shop(lake: Warehouse) -> IngestSource:
    columns = {"id": "bigint", "v": "string"}
    table = IngestedTable("orders", "orders", lake.table("orders"), {"primary_key": ["id"]}, columns)
    return IngestSource("shop", "files", {}, (table,), lake.table("shop__dead_letters"), max_dead_letters=None)


def ingest(lake: Warehouse, folder: Path) -> list[BatchReport]:
    reports: list[BatchReport] = []
    lake = lake.under(ingest={"lease_seconds": 0})
    log = FileTable(lake.table("shop__files"), lake.reader, lake.environment.new_session)
    files = Files(Folder(str(folder)), {"orders": "*"}, log, lake.environment.new_session, LIMITS)
    form = make_format("rows", {"operation": "op"})
    Ingestion(
        shop(lake),
        SourceConnection(files, form),
        lake.reader,
        lake.environment.new_session,
        JobListeners(reports.append),
    ).run(once=True)
    return reports


def orders(lake: Warehouse) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in lake.spark.table(lake.sql_name("orders")).collect()}


def line(id_: int, v: str | None, op: str = "upsert") -> str:
    return f'{{"id":{id_},"v":"{v}","op":"{op}"}}\n'


def test_files_become_rows_and_broken_lines_dead_letters(lake: Warehouse, tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text(line(1, "a") + line(2, "b") + '{"id":3')
    (tmp_path / "2.json").write_text(line(1, "c") + line(2, "", "delete"))
    [report] = ingest(lake, tmp_path)
    assert orders(lake) == {(1, "c")}
    assert (report.count, report.tables[0].read, report.tables[0].dead) == (5, 5, 1)
    dead = lake.spark.table(lake.sql_name("shop__dead_letters")).select("payload", "origin").collect()
    assert [(bytes(row[0]), row[1]) for row in dead] == [(b'{"id":3', "1.json:3")]
    (tmp_path / "0.json").write_text(line(5, "late"))
    ingest(lake, tmp_path)
    assert orders(lake) == {(1, "c"), (5, "late")}
    assert ingest(lake, tmp_path) == []


@pytest.mark.parametrize("after", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["after", "before"])
def test_every_file_counts_once_wherever_the_process_dies(lake: Warehouse, tmp_path: Path, after: bool) -> None:
    """After or before each effect; then files with lower names are there too."""
    (tmp_path / "9.json").write_text(line(9, "a") + "no event\n")
    names = ("ingest.create_file_log", "ingest.append_file_log", "commit.publish", "ingest.advance")
    for number, name in enumerate(names):

        def die(reached: str, action: Any, name: str = name) -> Any:
            if reached == name:
                if after:
                    action()
                raise KeyboardInterrupt
            return action()

        (tmp_path / f"{8 - number}.json").write_text(line(number, "b"))
        with set_failpoint(die), pytest.raises(KeyboardInterrupt):
            ingest(lake, tmp_path)
    ingest(lake, tmp_path)
    assert orders(lake) == {(9, "a"), *((number, "b") for number in range(4))}
    changes = lake.spark.table(lake.sql_name("orders__changes")).count()
    assert changes == len(orders(lake))
    assert lake.spark.table(lake.sql_name("shop__dead_letters")).count() == 1


@pytest.mark.slow
def test_the_file_log_is_rewritten_as_one_file(lake: Warehouse, tmp_path: Path) -> None:
    often = lake.under(transports={"file_log_snapshots": 2})
    for number in range(4):
        (tmp_path / f"{number}.json").write_text(line(number, "a"))
        ingest(often, tmp_path)
    log = FileTable(lake.table("shop__files"), lake.reader, lake.environment.new_session)
    assert [[file.path for file in files] for files in log.list_batches().values()] == [[f"{n}.json"] for n in range(4)]
    assert len(lake.reader.load_table(lake.namespace, "shop__files").snapshots()) <= 3
    assert orders(lake) == {(number, "a") for number in range(4)}


def test_a_changed_file_stops_ingestion_with_what_to_do(lake: Warehouse, tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text(line(1, "a"))
    ingest(lake, tmp_path)
    (tmp_path / "1.json").write_text(line(1, "a") + line(2, "b"))
    with pytest.raises(SourceError, match="has changed since it was read"):
        ingest(lake, tmp_path)
    assert orders(lake) == {(1, "a")}
