"""Models whose query says what the table is: every run makes the table its query, and logs exactly what differed."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.model.columns import Column
from arctic_runtime.spark.refresh import compute
from arctic_runtime.spark.tables import merge as merging
from arctic_runtime.thresholds import IncrementalThresholds
from tests.spark.warehouse import Warehouse, refuse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

mostly_on_write = pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
mostly_on_read = pytest.mark.parametrize("merge", ["on_read", pytest.param("on_write", marks=pytest.mark.slow)])
COLUMNS = "id bigint, region string, v string"


def values(rows: str, columns: str) -> str:
    return f"select * from values {rows} as t({columns})"


@mostly_on_write
def test_every_run_makes_the_table_its_query(lake: Warehouse, merge: str) -> None:
    model = lake.model(
        "m", "select id, region, v from {s}", primary_key="id", partition_by=["region"], merge=merge, nodes=2
    )
    first = [(1, "eu", "a"), (2, "eu", None), (3, "us", "c")]
    steps: list[tuple[str, list[tuple[Any, ...]], tuple[int, int, int]]] = [
        ("created", first, (3, 0, 0)),
        ("insert, update, delete", [(1, "eu", "A"), (2, "eu", None), (4, "us", "d")], (1, 1, 1)),
        ("moved to another key", [(1, "eu", "A"), (5, "eu", None), (4, "us", "d")], (1, 0, 1)),
        ("moved to another partition", [(1, "us", "A"), (5, "eu", None), (4, "eu", "d")], (0, 2, 0)),
        ("back to the start", first, (2, 1, 2)),
        ("emptied", [], (0, 0, 3)),
        ("refilled", first, (3, 0, 0)),
    ]
    for what, rows, expected in steps:
        lake.load("s", rows, COLUMNS)
        outcome = lake.run(model)
        assert lake.actions(outcome) == expected, what
        assert lake.rows(model) == sorted(rows), what
        assert lake.run(model, refuse).mode == "unchanged"
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)
    assert lake.broken(model) == []
    assert lake.branches(model) == set()


def test_change_rows_tell_the_row_before_and_after(lake: Warehouse) -> None:
    for sql in (values("(1, 'a', 1), (2, 'b', 2)", "id, v, n"), values("(1, 'a', null), (3, 'c', 3)", "id, v, n")):
        model = lake.model("m", sql, primary_key="id")
        lake.run(model)
    rows = [(r["_action"], r["id"], r["v"], r["n"], r["_before"]) for r in lake.log(model)]
    assert rows == [
        ("insert", 1, "a", 1, None),
        ("insert", 2, "b", 2, None),
        ("update", 1, "a", None, {"v": "a", "n": 1}),
        ("delete", 2, "b", 2, {"v": "b", "n": 2}),
        ("insert", 3, "c", 3, None),
    ]


TYPES = {
    "b": ("boolean", True, False),
    "i": ("int", -1, 2**31 - 1),
    "l": ("bigint", 2**63 - 1, 0),
    "c": ("decimal(38,10)", Decimal("12345678901234567890.0123456789"), Decimal("-0.0000000001")),
    "f": ("float", float("nan"), 1.5),
    "e": ("double", -0.0, float("inf")),
    "d": ("date", datetime.date(1, 1, 1), datetime.date(9999, 12, 31)),
    "t": (
        "timestamp",
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, datetime.timezone.utc),
        datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc),
    ),
    "n": ("timestamp_ntz", datetime.datetime(1900, 1, 1), datetime.datetime(2024, 3, 31, 2, 30)),
    "s": ("string", "", "雪 'quoted' \\ \n"),
    "x": ("binary", b"\x00\xff", b""),
    "a": ("array<int>", [1, None], []),
    "r": ("struct<p:int,q:array<string>>", {"p": None, "q": ["x"]}, {"p": 1, "q": None}),
    "m": ("map<string,int>", {"one": 1, "two": None}, {}),
}


@mostly_on_write
def test_every_type_is_kept_and_compared(lake: Warehouse, merge: str) -> None:
    ddl = ", ".join(f"`{name}` {kind}" for name, (kind, _, _) in TYPES.items())
    some, other = ([kind[place] for kind in TYPES.values()] for place in (1, 2))
    nothing = [None] * len(TYPES)
    alone = [[*nothing[:i], some[i], *nothing[i + 1 :]] for i in range(len(TYPES))]
    model = lake.model("m", "select * from source", primary_key="id", merge=merge)

    def run(*rows: list[Any]) -> tuple[int, int, int]:
        frame = lake.frame([(i, *row) for i, row in enumerate(rows)], f"id int, {ddl}")
        frame.createOrReplaceTempView("source")
        done = lake.actions(lake.run(model, full_refresh=True))
        differences = lake.spark.table(lake.sql_name("m")).drop("m").exceptAll(frame.drop("m"))
        assert differences.collect() == []
        return done

    count = len(alone)
    assert run(*alone) == (count, 0, 0)
    assert run(*alone) == (0, 0, 0)
    assert run(*[nothing] * count) == (0, count, 0)
    assert run(*[other] * count) == (0, count, 0)
    assert run(*[[*other[:i], some[i], *other[i + 1 :]] for i in range(count)]) == (0, count, 0)
    lake.spark.catalog.dropTempView("source")
    assert [row for row in lake.broken(model) if "query" not in row] == []


def test_keys_can_have_several_columns_and_tables_no_other(lake: Warehouse) -> None:
    for rows, expected in (
        ("(1, 'a', date'2024-01-01'), (1, 'b', date'2024-01-01')", (2, 0, 0)),
        ("(1, 'a', date'2024-01-01'), (2, 'b', date'2024-01-02')", (1, 0, 1)),
    ):
        sql = values(rows, "x, y, z")
        composite = lake.model("composite", sql, primary_key=["z", "x", "y"], hash_key="y", merge="on_read")
        assert lake.actions(lake.run(composite)) == expected
    assert lake.rows(composite) == [(1, "a", datetime.date(2024, 1, 1)), (2, "b", datetime.date(2024, 1, 2))]
    assert "_before" not in lake.log(composite)[0]
    assert lake.broken(composite) == []


@mostly_on_read
def test_a_table_without_a_key_has_one_row(lake: Warehouse, merge: str) -> None:
    for n, expected in ((1, (1, 0, 0)), (2, (0, 1, 0))):
        model = lake.model("one", f"select {n} as n, 'x' as v", primary_key=[], merge=merge)
        assert lake.actions(lake.run(model)) == expected
    assert lake.rows(model) == [(2, "x")]
    assert lake.broken(model) == []
    with pytest.raises(DataError, match="the query must give one row"):
        lake.run(lake.model("one", values("(1, 'x'), (2, 'y')", "n, v"), primary_key=[], merge=merge))
    assert lake.rows(model) == [(2, "x")]


def test_every_partition_transform_lays_rows_out_and_moves_them(lake: Warehouse) -> None:
    columns = "id, region, y, m, d, h, s, b"
    transforms = ["region", "years(y)", "months(m)", "days(d)", "hours(h)", "truncate(2, s)", "bucket(4, b)"]
    rows = [
        "(1, 'eu', {y}, {m}, {d}, {h}, 'abc', 1), (2, 'us', {y}, {m}, {d}, {h}, 'xyz', null)",
        "(1, 'us', {m}, {d}, {y}, {h}, 'xyz', 2), (2, 'us', {y}, {m}, {d}, {h}, null, 7)",
    ]
    dates = {name: f"timestamp'20{10 + i}-0{i + 1}-02 03:04:05'" for i, name in enumerate("ymdh")}
    for part in rows:
        sql = values(part.format(**dates), columns)
        model = lake.model("m", sql, primary_key="id", partition_by=transforms, nodes=2)
        lake.run(model)
    spec = lake.reader.load_table(lake.namespace, "m").spec()
    strs = [str(field.transform) for field in spec.fields]
    assert strs == ["identity", "year", "month", "day", "hour", "truncate[2]", "bucket[4]", "bucket[2]"]
    assert [row[1] for row in lake.rows(model)] == ["us", "us"]
    assert [row[6:] for row in lake.rows(model)] == [("xyz", 2), (None, 7)]
    assert lake.broken(model) == []


@pytest.mark.slow
def test_a_truncated_partition_is_created_in_one_commit_that_knows_its_version(lake: Warehouse) -> None:
    model = lake.model("m", values("(1, 'abc')", "id, s"), primary_key="id", partition_by="truncate(2, s)", nodes=2)
    lake.run(model)
    table = lake.reader.load_table(lake.namespace, "m")
    assert len(table.snapshots()) == 1
    assert table.properties["write.merge.mode"] == "merge-on-read"
    base = lake.state(model).base
    assert base is not None
    assert base.merged is not None
    assert base.merged.snapshot == lake.head(model)
    assert lake.spark.conf.get("spark.sql.iceberg.distribution-mode", None) is None


@pytest.mark.in_turn
def test_the_layout_is_what_is_configured(lake: Warehouse) -> None:
    properties = {"write.target-file-size-bytes": "1000000"}
    config: dict[str, Any] = {"primary_key": ["a", "b"], "hash_key": "b", "nodes": 4, "sort_key": ["t"]}
    config["tblproperties"] = properties
    rows = ", ".join(f"({i}, {i % 7}, {100 - i})" for i in range(100))
    model = lake.model("m", values(rows, "a, b, t"), **config)
    lake.run(model)
    table = lake.reader.load_table(lake.namespace, "m")
    names = {field.field_id: field.name for field in table.schema().fields}
    assert [(names[f.source_id], str(f.transform)) for f in table.spec().fields] == [("b", "bucket[4]")]
    assert [names[f.source_id] for f in table.sort_order().fields] == ["t"]
    assert table.properties["write.target-file-size-bytes"] == "1000000"
    for task in table.scan().plan_files():
        stored = lake.spark.read.parquet(task.file.file_path).select("t").collect()
        assert [row["t"] for row in stored] == sorted(row["t"] for row in stored)
    changed = lake.model("m", values(rows.replace("(7,", "(700,"), "a, b, t"), **config)
    assert lake.actions(lake.run(changed)) == (1, 0, 1)
    assert lake.broken(changed) == []


@mostly_on_read
def test_a_run_for_the_schema_alone_changes_no_rows(lake: Warehouse, merge: str) -> None:
    lake.load("s", [(1, "eu", "a")], COLUMNS)
    model = lake.model("m", "select id, v from {s}", primary_key="id", merge=merge)
    lake.run(model, schema_only=True)
    assert lake.rows(model) == []
    first = lake.run(model)
    assert (first.mode, lake.actions(first)) == ("create", (1, 0, 0))
    lake.load("s", [(2, "eu", "b")], COLUMNS)
    lake.run(model, schema_only=True)
    assert lake.rows(model) == [(1, "a")]
    assert lake.actions(lake.run(model)) == (1, 0, 1)
    assert lake.broken(model) == []


@mostly_on_read
def test_new_columns_are_added_and_missing_ones_keep_their_values(lake: Warehouse, merge: str) -> None:
    def run(rows: str, columns: str) -> tuple[int, int, int]:
        nonlocal model
        model = lake.model("m", values(rows, columns), primary_key="id", merge=merge)
        return lake.actions(lake.run(model))

    model: Model
    assert run("(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')", "id, v") == (5, 0, 0)
    assert run("(1, 'a', 10), (2, 'b', null), (3, 'c', null), (4, 'd', null), (5, 'e', null)", "id, v, n") == (0, 1, 0)
    assert lake.rows(model)[:2] == [(1, "a", 10), (2, "b", None)]
    assert lake.log(model)[-1]["_before"] == {"v": "a", "n": None}
    assert run("(1, 11), (2, null), (3, null), (4, null), (6, 6)", "id, n") == (1, 1, 1)
    assert lake.rows(model) == [(1, "a", 11), (2, "b", None), (3, "c", None), (4, "d", None), (6, None, 6)]
    assert [broken for broken in lake.broken(model) if "query" not in broken] == []


@pytest.mark.slow
@mostly_on_read
def test_a_new_column_without_values_changes_no_row_and_can_be_read(lake: Warehouse, merge: str) -> None:
    lake.run(lake.model("m", values("(1, 'a')", "id, v"), primary_key="id", merge=merge))
    wider = lake.model(
        "m", "select id, v, cast(null as int) as n from values (1, 'a') as t(id, v)", primary_key="id", merge=merge
    )
    assert lake.actions(lake.run(wider)) == (0, 0, 0)
    assert lake.rows(wider) == [(1, "a", None)]
    filled = lake.model("m", values("(1, 'a', 1), (2, 'b', 2)", "id, v, n"), primary_key="id", merge=merge)
    assert lake.actions(lake.run(filled)) == (1, 1, 0)
    assert lake.rows(filled) == [(1, "a", 1), (2, "b", 2)]
    assert lake.broken(filled) == []


@mostly_on_read
def test_columns_widen_and_their_rows_before_with_them(lake: Warehouse, merge: str) -> None:
    narrow = (
        "select id, cast(i as int) i, cast(f as float) f, cast(c as decimal(4,2)) c from values {} as t(id, i, f, c)"
    )
    wide = narrow.replace("int)", "bigint)").replace("float", "double").replace("(4,2)", "(9,2)")
    rows = "(1, 1, 0.5, 1.25), (2, 2, 2.5, 2.25), (3, 3, 3.5, 3.25), (4, 4, 4.5, 4.25), (5, 5, 5.5, 5.25)"
    config: dict[str, Any] = {"primary_key": "id", "merge": merge}
    lake.run(lake.model("m", narrow.format(rows), **config))
    assert lake.actions(lake.run(lake.model("m", wide.format(rows), **config))) == (0, 0, 0)
    changed = rows.replace("(1, 1,", f"(1, {2**40},").replace("2.25", "1234567.25")
    model = lake.model("m", wide.format(changed), **config)
    assert lake.actions(lake.run(model)) == (0, 2, 0)
    assert lake.rows(model)[:2] == [(1, 2**40, 0.5, Decimal("1.25")), (2, 2, 2.5, Decimal("1234567.25"))]
    types = {f.name: f.dataType.simpleString() for f in lake.spark.table(lake.sql_name("m")).schema.fields}
    assert types == {"id": "int", "i": "bigint", "f": "double", "c": "decimal(9,2)"}
    assert lake.log(model)[-2]["_before"] == {"i": 1, "f": 0.5, "c": Decimal("1.25")}
    assert lake.broken(model) == []


@pytest.mark.slow
@mostly_on_read
def test_columns_can_follow_the_query_both_ways(lake: Warehouse, merge: str) -> None:
    config: dict[str, Any] = {"primary_key": "id", "merge": merge, "on_schema_change": "sync_all_columns"}
    rows = "(1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4), (5, 'e', 5)"
    lake.run(lake.model("m", values(rows, "id, v, n"), **config))
    lake.run(lake.model("m", values(rows.replace("'a'", "'A'"), "id, v, n"), **config))
    model = lake.model("m", values("(1, 'x'), (2, 'y'), (3, 'z'), (4, 'w'), (5, 'u')", "id, w"), **config)
    assert lake.actions(lake.run(model)) == (0, 5, 0)
    assert lake.rows(model)[0] == (1, "x")
    assert lake.broken(model) == []


def test_other_policies_refuse_new_columns_or_leave_them_out(lake: Warehouse) -> None:
    wider = values("(1, 'A', 1)", "id, v, n")
    for policy in ("fail", "ignore"):
        config: dict[str, Any] = {"primary_key": "id", "on_schema_change": policy}
        lake.run(lake.model(policy, values("(1, 'a')", "id, v"), **config))
        model = lake.model(policy, wider, **config)
        head = lake.head(model)
        if policy == "fail":
            with pytest.raises(ConfigError, match=r"new in the query: \['n'\]"):
                lake.run(model)
            assert (lake.head(model), lake.rows(model)) == (head, [(1, "a")])
        else:
            assert lake.actions(lake.run(model)) == (0, 1, 0)
            assert lake.rows(model) == [(1, "A")]
    with pytest.raises(ConfigError, match="changed in a way that the table can't follow"):
        lake.run(lake.model("ignore", values("(1, 2)", "id, v"), primary_key="id"))


FLAWS = {
    "null key": ("(1, 'a', 1), (null, 'b', 2)", r"null key; nothing was written\.\s+column: id, k\n.*'id': None"),
    "duplicate key": ("(1, 'a', 1), (2, 'b', 7), (2, 'b', 8)", r"2 row\(s\).*duplicate key.*'id': 2, 'k': 'b'"),
    "null in a contract's column": ("(1, 'a', cast(null as int))", r"null column.*column: id, k, n\n.*'n': None"),
    "null keys that are alike": ("(1, cast(null as string), 1), (1, null, 1)", r"null key.*'k': None"),
}


@pytest.mark.in_turn
@mostly_on_write
def test_flawed_rows_are_shown_and_nothing_is_written(lake: Warehouse, merge: str) -> None:
    config: dict[str, Any] = {"primary_key": ["id", "k"], "merge": merge, "not_null": ("n",)}
    good = lake.model("m", values("(1, 'a', 1)", "id, k, n"), **config)
    for sound in (False, True):
        if sound:
            lake.run(good)
        for flaw, (rows, message) in FLAWS.items():
            before = lake.state(good)
            with pytest.raises(DataError, match=f"(?s){message}"):
                lake.run(lake.model("m", values(rows, "id, k, n"), **config))
            after = lake.state(good)
            if before.changes is not None:
                assert after.changes is not None
                assert after.changes.commits == before.changes.commits, flaw
            assert (after.base, after.view) == (before.base, before.view), flaw
            assert lake.branches(good) == set(), flaw
    assert lake.rows(good) == [(1, "a", 1)]
    assert lake.broken(good) == []


def test_a_contract_is_held_in_every_run(lake: Warehouse) -> None:
    contract = (Column("id", "bigint"), Column("v", "varchar(20)"))
    model = lake.model("m", "select 1L as id, 'a' as v", primary_key="id", contract=contract, not_null=("v",))
    lake.run(model)
    with pytest.raises(ConfigError, match="v: the contract says string, the query int"):
        lake.run(lake.model("m", "select 1L as id, 2 as v", primary_key="id", contract=contract))
    with pytest.raises(DataError, match="null column"):
        lake.run(
            lake.model(
                "m", "select 1L as id, cast(null as string) as v", primary_key="id", contract=contract, not_null=("v",)
            )
        )
    assert lake.rows(model) == [(1, "a")]


def test_an_upstream_model_is_read_through_views_and_its_changes_start_the_next_run(lake: Warehouse) -> None:
    lake.load("s", [(1, "eu", "a"), (2, "us", "b")], COLUMNS)
    upstream = lake.model("up", "select id, region, v from {s}", primary_key="id", merge="on_read")
    lake.run(upstream)
    lake.spark.sql(f"create view {lake.sql_name('between')} as select region, v from {lake.sql_name('up')}")
    counts = lake.model("counts", "select region, count(*) as n from {between} group by region", primary_key="region")
    lake.run(counts)
    assert lake.run(counts, refuse).mode == "unchanged"
    lake.load("s", [(1, "eu", "a"), (2, "us", "b"), (3, "us", "c")], COLUMNS)
    assert lake.run(counts, refuse).mode == "unchanged"
    lake.run(upstream)
    assert lake.actions(lake.run(counts)) == (0, 1, 0)
    assert lake.rows(counts) == [("eu", 1), ("us", 2)]
    assert lake.broken(counts) == []


@pytest.mark.parametrize("most", [IncrementalThresholds().single_task_rows, pytest.param(0, marks=pytest.mark.slow)])
def test_few_rows_are_compared_and_merged_without_moving_them(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], most: int
) -> None:
    lake = lake.under(incremental={"single_task_rows": most})
    plans: list[str] = []

    def explained(rows: Any) -> None:
        rows.explain()
        plans.append(capsys.readouterr().out)

    def compared(*arguments: Any) -> Any:
        changes = compute_changes(*arguments)
        explained(changes)
        return changes

    def merged(rows: Any, *arguments: Any) -> None:
        explained(rows)
        overwrite(rows, *arguments)

    compute_changes, overwrite = compute.diff_states, merging.overwrite_table
    monkeypatch.setattr(compute, "diff_states", compared)
    monkeypatch.setattr(merging, "overwrite_table", merged)
    model = lake.model("m", "select id, region, v from {s}", primary_key="id", refresh="full")
    lake.load("s", [(1, "eu", "a"), (2, "eu", None)], COLUMNS)
    lake.run(model)
    plans.clear()
    lake.load("s", [(1, "eu", "A"), (3, "us", None)], COLUMNS)
    assert lake.actions(lake.run(model)) == (1, 1, 1)
    assert lake.rows(model) == [(1, "eu", "A"), (3, "us", None)]
    assert ["Exchange" in plan for plan in plans] == [not most, False]


@pytest.mark.slow
def test_an_upstream_that_was_made_again_as_a_plain_table_is_read_though_its_change_table_stays(
    lake: Warehouse,
) -> None:
    lake.append("s", [(1, 10)], "id int, v int")
    upstream = lake.model("upstream", "select * from {s}", primary_key="id")
    model = lake.model("m", "select id, v from {upstream}", primary_key="id")
    for each in (upstream, model):
        lake.run(each)
    lake.spark.sql(f"drop table {lake.sql_name('upstream')}")
    lake.append("upstream", [(2, 20)], "id int, v int")
    outcome = lake.run(model)
    assert (outcome.mode, outcome.reason, lake.rows(model)) == ("full", "SOURCE_REPLACED", [(2, 20)])
    lake.append("upstream", [(3, 30)], "id int, v int")
    assert (lake.run(model).mode, lake.rows(model)) == ("incremental", [(2, 20), (3, 30)])
