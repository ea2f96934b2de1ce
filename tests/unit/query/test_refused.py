"""What is no query, reads anything but tables, or has another answer in DuckDB, is refused by its name."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from arctic_runtime.errors import ArcticError, ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.query.engine import Limits
from arctic_runtime.query.refusal import NotAnswered
from arctic_runtime.query.statement import write_spark_query
from tests.fuzz.hostile import generate_hostile_texts, is_encodable
from tests.unit.query.asking import ask_reader

FIELDS = (
    NestedField(1, "id", LongType()),
    NestedField(2, "s", StringType()),
    NestedField(3, "d", DecimalType(10, 2)),
    NestedField(4, "x", DoubleType()),
    NestedField(5, "day", DateType()),
    NestedField(6, "at", TimestamptzType()),
    NestedField(7, "f", FloatType()),
    NestedField(8, "b", BooleanType()),
)

OTHERWISE = {
    "d / 2": "division of decimals",
    "avg(d)": "avg",
    "s = 1": "converts",
    "s + 1": "converts",
    "id = '7'": "converts",
    "cast(s as int)": "string to int",
    "cast(x as int)": "double to int",
    "cast(x as string)": "writes a double as text",
    "cast(d as int)": "converts",
    "try_cast(s as int)": "TRY_CAST",
    "s rlike 'a'": "RLIKE",
    "s like 'a\\\\_b'": "backslash",
    "s ilike 'A'": "ILIKE",
    "round(x, 1)": "round",
    "substr(s, -2)": "literals",
    "substr(s, 0)": "position",
    "initcap(s)": "initcap",
    "split(s, ',')": "split",
    "date_format(day, 'y')": "date_format",
    "day = 'yesterday'": "yesterday",
    "day + interval 1 month": "INTERVAL",
    "f + id": "converts",
    "first(s)": "FIRST",
    "stddev(x)": "STDDEV",
    "rand()": "rand",
    "collect_list(s)": "COLLECT_LIST",
    "sum(x) over (order by id)": "depend on the order",
    "explode(array(1))": "explode",
    "array(1, 2)[0]": "ARRAY",
    "getenv('HOME')": "getenv",
    "read_text('/etc/passwd')": "read_text",
    "current_user()": "current_user",
    "input_file_name()": "input_file_name",
    "version()": "version",
}


@pytest.fixture(scope="module")
def ask(tmp_path_factory, writing) -> Callable[..., Any]:
    """Asks a query about an empty table."""
    warehouse = writing.warehouse(tmp_path_factory.mktemp("refused"))
    warehouse.create("m", FIELDS)
    return partial(ask_reader, warehouse.reader)


@pytest.mark.parametrize(("value", "named"), OTHERWISE.items())
def test_an_expression_that_may_differ_is_named(ask, value: str, named: str) -> None:
    with pytest.raises(NotAnswered) as caught:
        ask(f"select {value} v from m")
    assert named.lower() in str(caught.value).lower()
    assert "--engine spark" in str(caught.value)


@pytest.mark.parametrize(
    "query",
    [
        "select distinct x from m",
        "select x, count(*) from m group by x",
        "select count(distinct x) from m",
        "select x from m intersect select x from m",
        "select id from m union all select s from m",
        "select * from m lateral view explode(array(1)) t as a",
        "select * from m tablesample (1 percent)",
        "select row_number() over (partition by x order by id) from m",
    ],
)
def test_a_query_whose_rows_may_differ_is_refused(ask, query: str) -> None:
    with pytest.raises(NotAnswered):
        ask(query)


HOSTILE = [
    "select * from read_csv('/etc/passwd')",
    "select * from read_parquet('/etc/passwd')",
    "select * from glob('/*')",
    "select * from '/etc/passwd'",
    "select * from `/etc/passwd`",
    "select * from csv.`/etc/passwd`",
    "select * from parquet.`/tmp/x.parquet`",
    'select * from "/etc/passwd"',
    "select * from range(5)",
    "select * from duckdb_settings()",
    "select * from information_schema.tables",
    "select * from pg_catalog.pg_tables",
    "select * from `new of lake.dwd.m#0`",
    "copy m to '/tmp/x'",
    "attach '/tmp/x' as y",
    "pragma version",
    "install httpfs",
    "load httpfs",
    "set enable_external_access = true",
    "create table x as select 1",
    "insert into m values (1)",
    "insert overwrite directory '/tmp/x' select 1",
    "drop table m",
    "delete from m",
    "update m set id = 1",
    "merge into m using m n on false when matched then delete",
    "select 1; select 2",
    "select 1; drop table m",
    "select transform(id) using 'sh' as (a) from m",
    "from m insert into n select id",
    "with x as (delete from m returning *) select * from x",
    "call lake.system.expire_snapshots('dwd.m')",
    "explain select 1",
    "describe m",
    "show tables",
    "use lake.dwd",
    "cache table m",
    "",
    ";",
    "-- nothing",
    "select",
    "select (",
    "select 'a",
    'select "a from m',
    "select `a from m",
    "select /* a from m",
    "select * from m where id = (select id from read_csv('/etc/passwd'))",
    "select id from m |> where id > 1",
    "select * from m with (`path` = '/etc/passwd')",
    "select * from lake.dwd.m.files",
    "select * from other.dwd.m",
]


@pytest.mark.parametrize("query", HOSTILE)
def test_a_text_that_is_more_than_a_query_of_tables_is_refused(ask, query: str) -> None:
    with pytest.raises(ConfigError):
        ask(query)


@pytest.mark.parametrize("query", HOSTILE)
def test_spark_is_not_asked_to_do_more_than_read_tables_either(query: str) -> None:
    tables = {"m", "n", "x"}

    def complete(reference) -> TableName:
        if reference.parts[-1] not in tables or len(reference.parts) > 1:
            raise ConfigError("unknown")
        return TableName("lake", "dwd", reference.parts[-1])

    with pytest.raises(ArcticError):
        write_spark_query(query, complete)


@pytest.mark.parametrize("function", ["reflect('java.lang.System', 'exit', 1)", "java_method('a.B', 'c')"])
def test_spark_runs_no_code_of_java_for_a_query(function: str) -> None:
    with pytest.raises(ConfigError, match="Only functions of SQL"):
        write_spark_query(f"select {function}", lambda _: TableName("lake", "dwd", "m"))


def test_spark_gets_full_names_and_the_rest_as_it_is() -> None:
    query = "with a as (select * from m version as of 3) select a.id from a join m with (`start-snapshot-id` = '1') b"
    written = write_spark_query(query, lambda _: TableName("lake", "dwd", "m"))
    assert "FROM `lake`.`dwd`.`m` VERSION AS OF 3" in written.replace("FOR VERSION", "VERSION")
    assert "`lake`.`dwd`.`m` WITH (`start-snapshot-id` = '1') AS b" in written
    assert "FROM a" in written


def test_hostile_texts_are_texts_and_names_are_names(ask) -> None:
    for text in [text for text in generate_hostile_texts(60) if is_encodable(text) and "\\" not in text]:
        literal = "'" + text.replace("'", "''") + "'"
        try:
            rows = ask(f"select {literal} v")
        except ConfigError:
            assert "\0" in text or "$" in text or text != text.strip() or not text.isprintable() or "{" in text, text
        else:
            assert rows == [{"v": text}]
        quoted = "`" + text.replace("`", "``") + "`"
        with pytest.raises(ConfigError):
            ask(f"select {quoted} from m")
        with pytest.raises(ConfigError):
            ask(f"select * from {quoted}")


def test_memory_and_rows_are_limited(ask) -> None:
    assert len(ask("select 1 a union all select 2 a", limits=Limits(max_rows=1))) == 1
    with pytest.raises(ConfigError, match="memory"):
        ask("select 1", limits=Limits(memory="a lot"))


def test_a_time_depends_on_the_zone_of_the_session(ask) -> None:
    for value in ("cast(at as date)", "year(at)", "at > '2024-01-01'", "current_date()", "date_trunc('day', at)"):
        assert ask(f"select {value} v from m") in ([], [{"v": None}])
        with pytest.raises(NotAnswered, match="zone"):
            ask(f"select {value} v from m", is_utc=False)
    assert ask("select at from m", is_utc=False) == []


def test_nothing_is_left_on_the_disk(ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ask("select count(*) n from m")
    assert not list(tmp_path.iterdir())
