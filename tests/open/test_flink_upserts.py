"""Tables that Flink writes, as upstreams: upserts by equality deletes are followed, or refused among events."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import SourceError
from tests.open.flink_lake import FlinkLake, run_flink_lake
from tests.spark.warehouse import Rows, Warehouse, sorted_rows

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

_numbers = itertools.count(1)

KEY = ["id", "g"]
QUERIES = {
    "filtered": ("select id, g, v from {src} where v > 0", KEY),
    "sums": ("select g, count(*) as n, sum(v) as v from {src} group by g", ["g"]),
    "joined": ("select id, g, v, w from {src} left join {dim} using (g)", KEY),
}


@pytest.fixture(scope="module")
def flink(spark_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkLake]:
    with run_flink_lake(tmp_path_factory.mktemp("flink"), spark_settings) as lake:
        yield lake


@dataclass(frozen=True)
class FlinkTable:
    """A table of the columns id, g and v that Flink creates and writes."""

    flink: FlinkLake
    name: str
    folder: Path

    @property
    def lake(self) -> Warehouse:
        return self.flink.lakes["lake"]

    def create(self, version: int, partition: str = "", upsert: bool = True) -> None:
        key = "primary key (id, g) not enforced" if upsert else ""
        columns = ", ".join(filter(None, ("id int not null, g string not null, v int", key)))
        self.flink.engine.execute(
            f"create table lake.dev.{self.name} ({columns}) {partition} with "
            f"('format-version' = '{version}', 'write.upsert.enabled' = '{str(upsert).lower()}')"
        )

    def insert(self, *rows: tuple[int, str, int]) -> None:
        """Writes rows by one batch."""
        self.flink.engine.execute(f"insert into lake.dev.{self.name} values {', '.join(map(str, rows))}")

    def apply(self, *events: tuple[str, int, str, int]) -> None:
        """Writes events of a stream, each with its operation as Debezium has it: `c`, `u` or `d`."""
        source = f"events{next(_numbers)}"
        file = self.folder / f"{source}.json"
        file.write_text("".join(write_event(*event) for event in events))
        self.flink.engine.execute_streaming(
            f"create temporary table {source} (id int, g string, v int, primary key (id, g) not enforced) "
            f"with ('connector' = 'filesystem', 'path' = '{file}', 'format' = 'debezium-json')"
        )
        self.flink.engine.execute_streaming(f"insert into lake.dev.{self.name} select * from {source}")

    def read(self) -> Rows:
        """The rows as Flink reads them."""
        return sorted(tuple(row.values()) for row in self.flink.engine.query(f"select * from lake.dev.{self.name}"))

    def list_deletes(self) -> set[tuple[int, str]]:
        """The kinds of the files with deletes, each with its format: 1 for positions or vectors, 2 for equality."""
        files = self.lake.spark.sql(
            f"select content, file_format from {self.lake.sql_name(self.name)}.all_delete_files"
        )
        return {tuple(row) for row in files.collect()}

    def list_operations(self) -> list[str]:
        """The operations of the commits, oldest first."""
        snapshots = self.lake.reader.load_table("dev", self.name).metadata.snapshots
        return [snapshot.summary.operation.value for snapshot in snapshots if snapshot.summary is not None]

    def compact(self) -> None:
        """Rewrites all files by Spark."""
        options = "options => map('rewrite-all', 'true', 'min-input-files', '1')"
        self.sql(f"call lake.system.rewrite_data_files(table => 'dev.{self.name}', {options})")

    def sql(self, statement: str) -> None:
        self.lake.spark.sql(statement.format(table=self.lake.sql_name(self.name)))


def write_event(operation: str, key: int, group: str, value: int) -> str:
    row = {"id": key, "g": group, "v": value}
    before, after = (None if operation == "c" else row), (None if operation == "d" else row)
    return json.dumps({"before": before, "after": after, "op": operation}) + "\n"


@pytest.fixture
def table(flink: FlinkLake, tmp_path: Path) -> FlinkTable:
    return FlinkTable(flink, f"src{next(_numbers)}", tmp_path)


def build_models(table: FlinkTable) -> list[Model]:
    dimension = f"dim_{table.name}"
    table.lake.load(dimension, [("a", 1), ("b", 2)], "g string, w int")
    return [
        table.lake.model(
            f"{name}_{table.name}",
            query.replace("{src}", f"{{{table.name}}}").replace("{dim}", f"{{{dimension}}}"),
            primary_key=key,
        )
        for name, (query, key) in QUERIES.items()
    ]


def run_all(table: FlinkTable, models: Iterable[Model]) -> set[str]:
    """Runs models, and returns their modes; each must have the rows of its query afterwards."""
    modes = {table.lake.run(model).mode for model in models}
    rows = sorted_rows(table.lake.spark.table(table.lake.sql_name(table.name)))
    assert rows == table.read()
    for model in models:
        assert table.lake.rows(model) == sorted_rows(table.lake.spark.sql(model.sql)), model.sql
    return modes


@pytest.mark.parametrize(
    ("version", "partition"),
    [
        pytest.param(2, "", id="version 2"),
        pytest.param(3, "", id="version 3"),
        pytest.param(3, "partitioned by (g)", id="version 3 with partitions"),
    ],
)
def test_upserts_of_flink_are_followed(table: FlinkTable, version: int, partition: str) -> None:
    table.create(version, partition)
    table.insert((1, "a", 1), (2, "b", 2), (3, "a", 3), (4, "b", 4))
    models = build_models(table)
    assert run_all(table, models) == {"create"}
    table.insert((1, "a", 10), (5, "b", 5))
    table.apply(("u", 2, "b", 7), ("u", 2, "b", 8), ("d", 3, "a", 3), ("c", 6, "c", 6), ("d", 6, "c", 6))
    assert run_all(table, models) == {"incremental"}
    assert table.read() == [(1, "a", 10), (2, "b", 8), (4, "b", 4), (5, "b", 5)]
    assert table.list_deletes() == {(2, "PARQUET"), (1, "PUFFIN" if version == 3 else "PARQUET")}
    table.compact()
    table.insert((3, "a", -3), (5, "b", 6))
    table.apply(("d", 1, "a", 10))
    assert run_all(table, models) == {"incremental"}
    assert table.read() == [(2, "b", 8), (3, "a", -3), (4, "b", 4), (5, "b", 6)]


def build_events(table: FlinkTable, **config: Any) -> Model:
    sql = f"select id, g, v from {{changes({table.name})}}"
    return table.lake.model(f"events_{table.name}", sql, primary_key=KEY, input="changes", **config)


@pytest.mark.parametrize(("version", "config"), [(2, {"sequence_by": "v"}), (3, {})])
def test_events_that_flink_appends_are_read_once(table: FlinkTable, version: int, config: dict[str, Any]) -> None:
    table.create(version, upsert=False)
    table.insert((1, "a", 1), (2, "b", 2))
    events = build_events(table, **config)
    table.lake.run(events)
    table.apply(("c", 1, "a", 7), ("c", 3, "c", 3))
    assert table.lake.run(events).mode == "incremental"
    assert table.lake.rows(events) == [(1, "a", 7), (2, "b", 2), (3, "c", 3)]
    assert table.lake.run(events).mode == "unchanged"


def turn_to_upserts(table: FlinkTable) -> None:
    table.sql("alter table {table} set identifier fields id, g")
    table.sql("alter table {table} set tblproperties ('write.upsert.enabled' = 'true')")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("operation", "act"),
    [
        pytest.param("overwrite", lambda table: table.insert((1, "a", 7)), id="an upsert"),
        pytest.param("delete", lambda table: table.apply(("d", 1, "a", 1)), id="a delete alone"),
    ],
)
def test_equality_deletes_of_flink_are_refused_in_a_table_of_events(
    table: FlinkTable, version: int, operation: str, act: Callable[[FlinkTable], None]
) -> None:
    table.create(version, upsert=False)
    table.insert((1, "a", 1), (2, "b", 2))
    events = build_events(table, sequence_by="v")
    table.lake.run(events)
    turn_to_upserts(table)
    act(table)
    assert table.list_operations()[-1] == operation
    with pytest.raises(SourceError, match=rf"dev\.{table.name} had commits other than appends"):
        table.lake.run(events)
    assert table.lake.rows(events) == [(1, "a", 1), (2, "b", 2)]


def test_a_row_that_flink_writes_into_a_model_is_found_and_repaired(table: FlinkTable) -> None:
    table.create(3, upsert=False)
    table.insert((1, "a", 1), (2, "b", 2))
    lake, name = table.lake, f"copy_{table.name}"
    model = lake.model(name, f"select id, g, v from {{{table.name}}}", primary_key=KEY)
    lake.run(model)
    table.flink.engine.execute(f"insert into lake.dev.{name} values (9, 'c', 9)")
    assert lake.rows(model)[-1] == (9, "c", 9)
    assert len(lake.broken(model)) == 2
    lake.run(model, full_refresh=True)
    assert lake.rows(model) == table.read()
    assert lake.broken(model) == []
