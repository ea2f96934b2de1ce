"""Tables that other engines write, as upstreams: whatever is done to them, a model has the rows of its query."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from arctic_runtime.errors import SourceError
from tests.spark.warehouse import Warehouse, sorted_rows

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

Row = tuple[int, str, int]

KEYS = st.sets(st.integers(1, 9), min_size=1, max_size=3)
ROWS = st.lists(st.tuples(st.integers(1, 9), st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=4)

_numbers = itertools.count()


class ForeignTable:
    """An Iceberg table of the columns id, g and v, on which the operations of other engines are performed."""

    def __init__(self, lake: Warehouse, name: str, version: int, mode: str = "merge-on-read") -> None:
        self.lake, self.name, self.version, self.mode = lake, name, version, mode
        self.sql_name = lake.sql_name(name)
        self.replace([(1, "a", 1)])
        self.insert([(2, "b", 2), (3, "a", 3)])

    def replace(self, rows: Collection[Row]) -> None:
        modes = [f"'write.{part}.mode' = '{self.mode}'" for part in ("delete", "update", "merge") if self.version > 1]
        properties = ", ".join([f"'format-version' = '{self.version}'", *modes])
        columns = "(id int, g string, v int)"
        self.sql(f"create or replace table {self.sql_name} {columns} using iceberg tblproperties ({properties})")
        self.insert(rows)

    def sql(self, text: str) -> list[Any]:
        return self.lake.spark.sql(text).collect()

    def call(self, procedure: str, *arguments: str) -> None:
        given = ", ".join([f"table => '{self.lake.namespace}.{self.name}'", *arguments])
        self.sql(f"call {self.lake.environment.profile.catalog}.system.{procedure}({given})")

    def alter(self, change: str) -> None:
        self.sql(f"alter table {self.sql_name} {change}")

    def insert(self, rows: Iterable[Row], branch: str = "") -> None:
        self.sql(f"insert into {self.sql_name}{branch} (id, g, v) values {', '.join(map(str, rows))}")

    def delete(self, keys: Iterable[int], branch: str = "") -> None:
        self.sql(f"delete from {self.sql_name}{branch} where id in ({', '.join(map(str, keys))})")

    def upgrade(self) -> None:
        self.version += 1
        self.alter(f"set tblproperties ('format-version' = '{self.version}')")

    def delete_by_equality(self, keys: Iterable[int]) -> None:
        """Deletes the rows of `keys` by an equality delete file, as Flink writes it; Spark writes none."""
        jvm, table = self._java, self._load()
        iceberg = jvm.org.apache.iceberg
        schema, parquet = table.schema().select(["id"]), iceberg.FileFormat.PARQUET
        ids = self.lake.spark.sparkContext._gateway.new_array(jvm.int, 1)
        ids[0] = schema.findField("id").fieldId()
        builder = iceberg.data.GenericFileWriterFactory.Builder(table).deleteFileFormat(parquet)
        factory = builder.equalityFieldIds(ids).equalityDeleteRowSchema(schema).build()
        files = iceberg.io.OutputFileFactory.builderFor(table, 1, next(_numbers)).format(parquet).build()
        writer = factory.newEqualityDeleteWriter(files.newOutputFile(), table.spec(), None)
        for key in keys:
            record = iceberg.data.GenericRecord.create(schema)
            record.setField("id", key)
            writer.write(record)
        writer.close()
        table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
        self.sql(f"refresh table {self.sql_name}")

    def add_column_with_default(self, name: str, value: int) -> None:
        iceberg = self._java.org.apache.iceberg
        literal, kind = iceberg.expressions.Expressions.lit(value), iceberg.types.Types.IntegerType.get()
        self._load().updateSchema().addColumn(name, kind, None, literal).commit()
        self.sql(f"refresh table {self.sql_name}")

    @property
    def _java(self) -> Any:
        """Iceberg's own API, in the Java of this process; over Spark Connect there is none."""
        if not hasattr(self.lake.spark, "_jvm"):
            pytest.skip("needs a Spark in this process")
        return self.lake.spark._jvm

    def _load(self) -> Any:
        path = f"{self.lake.environment.profile.catalog}.{self.lake.namespace}.{self.name}"
        return self._java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(self.lake.spark._jsparkSession, path)


class Histories(RuleBasedStateMachine):
    """Operations on one table in any order, with runs of several models between them."""

    lake: ClassVar[Warehouse]

    @initialize(version=st.integers(1, 3), mode=st.sampled_from(["merge-on-read", "copy-on-write"]))
    def build(self, version: int, mode: str) -> None:
        number = next(_numbers)
        self.table = ForeignTable(self.lake, f"src{number}", version, mode)
        self.is_partitioned, self.columns = False, itertools.count()
        self.lake.load(f"dim{number}", [("a", 1), ("b", 2)], "g string, w int")
        queries = (
            ("rows", "select id, count(*) as n, max(g) as g, sum(v) as v from {src%d} group by id", ["id"]),
            ("sums", "select g, count(*) as n, sum(v) as v from {src%d} group by g", ["g"]),
            (
                "joined",
                "select id, g, coalesce(v, -1) as v, max(w) as w, count(*) as n "
                "from {src%d} left join {dim%d} using (g) group by all",
                ["id", "g", "v"],
            ),
        )
        self.models: list[Model] = [
            self.lake.model(f"{name}{number}", sql.replace("%d", str(number)), primary_key=key)
            for name, sql, key in queries
        ]
        self.run()

    @rule(rows=ROWS)
    def insert(self, rows: list[Row]) -> None:
        self.table.insert(rows)

    @rule(keys=KEYS)
    def delete(self, keys: set[int]) -> None:
        self.table.delete(keys)

    @rule(keys=KEYS)
    def update(self, keys: set[int]) -> None:
        self.table.sql(f"update {self.table.sql_name} set v = v + 1 where id in ({', '.join(map(str, keys))})")

    @rule(keys=KEYS)
    @precondition(lambda self: self.table.version > 1 and not self.is_partitioned)
    def delete_by_equality(self, keys: set[int]) -> None:
        self.table.delete_by_equality(keys)

    @rule(rows=ROWS)
    def overwrite(self, rows: list[Row]) -> None:
        self.table.sql(f"delete from {self.table.sql_name}")
        self.table.insert(rows)

    @rule(rows=ROWS)
    def replace(self, rows: list[Row]) -> None:
        self.table.replace(rows)
        self.is_partitioned = False

    @rule(data=st.data())
    def rollback(self, data: st.DataObject) -> None:
        history = f"select snapshot_id from {self.table.sql_name}.history where is_current_ancestor"
        ancestors = [row[0] for row in self.table.sql(f"{history} order by made_current_at")]
        snapshot = ancestors[data.draw(st.integers(0, len(ancestors) - 1))]
        self.table.call("rollback_to_snapshot", f"snapshot_id => {snapshot}")

    @rule(rows=ROWS, keys=st.none() | KEYS)
    def publish_branch(self, rows: list[Row], keys: set[int] | None) -> None:
        self.table.alter("create or replace branch audit")
        self.table.insert(rows, ".branch_audit")
        if keys:
            self.table.delete(keys, ".branch_audit")
        self.table.call("fast_forward", "branch => 'main'", "to => 'audit'")
        self.table.alter("drop branch audit")

    @rule(rows=ROWS, other=ROWS)
    def cherry_pick(self, rows: list[Row], other: list[Row]) -> None:
        self.table.alter("create or replace branch audit")
        self.table.insert(rows, ".branch_audit")
        picked = self.table.sql(f"select snapshot_id from {self.table.sql_name}.refs where name = 'audit'")[0][0]
        self.table.insert(other)
        self.table.alter("drop branch audit")
        self.table.call("cherrypick_snapshot", f"snapshot_id => {picked}")

    @rule()
    def expire(self) -> None:
        self.table.call("expire_snapshots", "older_than => timestamp '2100-01-01'", "retain_last => 1")

    @rule()
    def rewrite(self) -> None:
        self.table.call("rewrite_data_files", "options => map('rewrite-all', 'true', 'min-input-files', '1')")

    @rule()
    @precondition(lambda self: self.table.version < 3)
    def upgrade(self) -> None:
        self.table.upgrade()

    @rule(default=st.none() | st.integers(5, 9))
    def replace_column(self, default: int | None) -> None:
        self.table.alter("drop column v")
        if default is None or self.table.version < 3:
            self.table.alter("add column v int")
        else:
            self.table.add_column_with_default("v", default)

    @rule()
    def add_column(self) -> None:
        self.table.alter(f"add column c{next(self.columns)} int")

    @rule()
    def widen(self) -> None:
        self.table.alter("alter column v type bigint")

    @rule()
    def partition(self) -> None:
        self.table.alter(f"{'drop' if self.is_partitioned else 'add'} partition field g")
        self.is_partitioned = not self.is_partitioned

    @rule()
    def run(self) -> None:
        for model in self.models:
            self.lake.run(model)
            assert_equals_query(self.lake, model)

    def teardown(self) -> None:
        if hasattr(self, "models"):
            self.run()


def assert_equals_query(lake: Warehouse, model: Model) -> None:
    assert lake.rows(model) == sorted_rows(lake.spark.sql(model.sql)), model.sql


@pytest.mark.slow
def test_a_model_has_the_rows_of_its_query_whatever_other_engines_do(lake: Warehouse) -> None:
    machine = type("HistoriesHere", (Histories,), {"lake": lake})
    run_state_machine_as_test(machine, settings=settings(max_examples=12, stateful_step_count=12))


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("version", "act"),
    [
        pytest.param(1, lambda table: table.delete([1]), id="a delete of format version 1"),
        pytest.param(1, lambda table: table.insert([(4, "a", 4)]), id="an insert of format version 1"),
        pytest.param(2, lambda table: table.delete([1]), id="a position delete"),
        pytest.param(2, lambda table: table.delete_by_equality([1]), id="an equality delete"),
    ],
)
def test_commits_from_before_an_upgrade_are_followed(
    lake: Warehouse, version: int, act: Callable[[ForeignTable], None]
) -> None:
    table = ForeignTable(lake, "src", version)
    rows = lake.model("rows", "select id, g, v from {src} where v > 0", primary_key="id")
    sums = lake.model("sums", "select g, count(*) as n, sum(v) as v from {src} group by g", primary_key="g")
    for model in (rows, sums):
        lake.run(model)
    act(table)
    table.upgrade()
    table.insert([(5, "b", 5)])
    for model in (rows, sums):
        assert lake.run(model).mode == "incremental"
        assert_equals_query(lake, model)


@pytest.mark.in_turn
def test_a_default_value_counts_in_rows_from_before_its_column(lake: Warehouse) -> None:
    """The column comes without a commit; time travel to the last version does not know it."""
    table = ForeignTable(lake, "src", 3)
    lake.load("dim", [("a", 1), ("b", 2)], "g string, w int")
    copy = lake.model("copy", "select * from {src}", primary_key="id")
    sums = lake.model("sums", "select g, count(*) as n, sum(d) as d from {src} group by g", primary_key="g")
    joined = lake.model("joined", "select id, g, d, w from {src} join {dim} using (g)", primary_key="id")
    other = lake.model("other", "select id, v from {src} where v > 0", primary_key="id")

    def run(*models: Model) -> list[str]:
        modes = []
        for model in models:
            modes.append(lake.run(model).mode)
            assert_equals_query(lake, model)
        return modes

    run(copy)
    table.add_column_with_default("d", 7)
    assert run(copy, sums, joined, other) == ["full", "create", "create", "create"]
    lake.load("dim", [("a", 5), ("b", 2)], "g string, w int")
    assert run(joined) == ["full"]
    table.delete([1])
    assert run(copy, sums, joined, other) == ["full", "full", "full", "incremental"]
    table.insert([(4, "a", 2)])
    table.delete([2])
    assert run(copy, sums, joined, other) == ["incremental"] * 4


def test_a_delete_that_matches_no_row_is_no_change(lake: Warehouse) -> None:
    """Spark commits an overwrite for it, without any file."""
    table = ForeignTable(lake, "src", 3, "copy-on-write")
    events = lake.model("events", "select id, v from {changes(src)}", primary_key="id", input="changes")
    rows = lake.model("rows", "select id, v from {src} where v > 0", primary_key="id")
    for model in (events, rows):
        lake.run(model)
    table.sql(f"delete from {table.sql_name} where id in (select int(5))")
    summary = table.sql(f"select operation, summary from {table.sql_name}.snapshots order by committed_at")[-1]
    assert summary["operation"] == "overwrite"
    assert "deleted-records" not in summary["summary"]
    table.insert([(4, "a", 4)])
    for model in (events, rows):
        assert lake.run(model).mode == "incremental"
    assert_equals_query(lake, rows)
    assert lake.rows(events) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    table.sql(f"update {table.sql_name} set v = 9 where id = 4")
    with pytest.raises(SourceError, match="commits other than appends"):
        lake.run(events)
