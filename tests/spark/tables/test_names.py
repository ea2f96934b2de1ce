"""Names are names, whatever they look like: they work or are refused, and are never run as SQL."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.spark.engine.statement import quote_name as quoted
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.spark.engine.session import SparkEnvironment

COLUMN_NAMES = (
    "two words",
    "it's",
    'a "quote"',
    "back`tick",
    "dot.ted",
    "select",
    "订单",
    "order by 1; drop table s --",
    "{s}",
    "%s $x \\n",
    "a0",
    "b1",
    "seq",
    "order",
    "deleted",
    "flaw",
    "ts",
    "rank",
)
TABLE_NAMES = ("two words", "back`tick", "dot.ted", "select", "订单", "it's; drop table y --", "%41")


@pytest.fixture
def odd(environment: SparkEnvironment, reader: CatalogReader, spark: SparkSession, namespace: str) -> Warehouse:
    """A namespace whose own name needs quotes."""
    schema = f"{namespace.split('.')[1]} o'dd`; --"
    spark.sql(f"create namespace {quoted('lake', schema)}")
    return Warehouse(environment, reader, spark, schema)


@pytest.mark.parametrize("merge", ["on_read", pytest.param("on_write", marks=pytest.mark.slow)])
def test_columns_of_any_name_are_compared_merged_and_reported(lake: Warehouse, merge: str) -> None:
    key, extra = COLUMN_NAMES[:4], COLUMN_NAMES[4:]
    config: dict[str, Any] = {
        "primary_key": list(key),
        "hash_key": key[3],
        "merge": merge,
        "sort_key": [extra[0]],
        "partition_by": [quoted(extra[1]), f"bucket(2, {quoted(extra[2])})"],
        "column_comments": {name: f"it's {name}" for name in COLUMN_NAMES},
        "comment": 'it\'s; a \\ "comment"',
    }
    for shift in (0, 1):
        values = ", ".join(f"'{i + (shift if i == 9 else 0)}' as {quoted(c)}" for i, c in enumerate(COLUMN_NAMES))
        other = ", ".join(f"'x{i}{shift}' as {quoted(c)}" for i, c in enumerate(COLUMN_NAMES))
        sql = f"select {values} union all select {other}".replace("{", "{{").replace("}", "}}")
        model = lake.model("m", sql, **config)
        outcome = lake.run(model)
    assert lake.actions(outcome) == (1, 1, 1)
    assert lake.spark.table(lake.sql_name("m")).columns == list(COLUMN_NAMES)
    before = [row["_before"] for row in lake.log(model) if row["_action"] == "update"]
    assert [sorted(image) for image in before] == [sorted(extra)]
    assert before[0][COLUMN_NAMES[9]] == "9"
    assert lake.broken(model) == []


@pytest.mark.in_turn
def test_event_columns_of_any_name_are_folded(lake: Warehouse) -> None:
    columns = ", ".join(f"{quoted(name)} string" for name in COLUMN_NAMES)
    lake.append("s", [[f"{i}" for i in range(len(COLUMN_NAMES))]], columns)
    listed = ", ".join(quoted(name) for name in COLUMN_NAMES).replace("{", "{{").replace("}", "}}")
    model = lake.model(
        "m",
        f"select {listed} from {{changes(s)}}",
        primary_key=list(COLUMN_NAMES[:2]),
        input="changes",
        sequence_by="订单",
        on_match="update",
        delete_when="`select` = 'gone'",
        merge="on_read",
    )
    lake.run(model)
    newer = [f"{i}" for i in range(len(COLUMN_NAMES))]
    newer[6], newer[7] = "7", "changed"
    lake.append("s", [newer], columns)
    assert lake.actions(lake.run(model)) == (0, 1, 0)
    assert lake.rows(model)[0][7] == "changed"
    assert lake.broken(model) == []


@pytest.mark.in_turn
def test_tables_of_any_name_are_made_and_read_for_their_changes(odd: Warehouse) -> None:
    for name in TABLE_NAMES:
        model = odd.model(name, "select 1 as id, 'a' as v", primary_key="id")
        assert odd.actions(odd.run(model)) == (1, 0, 0)
        assert odd.rows(model) == [(1, "a")]
    upstream = "back`tick"
    down = odd.model(
        "down: it's",
        f"select id, v, _action from {odd.changes(upstream)}",
        primary_key="id",
        input="changes",
        merge="on_read",
    )
    assert odd.actions(odd.run(down)) == (1, 0, 0)
    changed = odd.model(upstream, "select 1 as id, 'b' as v", primary_key="id")
    odd.run(changed)
    assert odd.actions(odd.run(down)) == (0, 1, 0)
    assert odd.rows(down) == [(1, "b")]
    assert odd.broken(down) == []


def test_a_table_named_like_changes_is_still_its_own(odd: Warehouse) -> None:
    model = odd.model("changes(a.b.c)", "select 1 as id", primary_key="id")
    odd.run(model)
    down = odd.model("down", f"select id from {odd.changes('changes(a.b.c)')}", primary_key="id", input="changes")
    assert odd.actions(odd.run(down)) == (1, 0, 0)


@pytest.mark.parametrize("name", ["", "a/b", "a\\b", "a\nb", "..", "a\x00b"])
def test_names_that_no_catalog_keeps_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid part of a table name"):
        TableName("lake", "s", name)


def test_names_that_spark_would_change_are_refused(lake: Warehouse) -> None:
    with pytest.raises(ConfigError, match="even inside quotes"):
        lake.run(lake.model("a${x}b", "select 1 as id", primary_key="id"))
    assert lake.reader.list_relations(lake.namespace) == {}


def test_columns_that_change_rows_reserve_are_refused(lake: Warehouse) -> None:
    for reserved in ("_action", "_TS", "_before", "_position"):
        with pytest.raises(ConfigError, match="reserve"):
            lake.run(lake.model("m", f"select 1 as id, 2 as {reserved}", primary_key="id"))
    with pytest.raises(ConfigError, match="two columns named"):
        lake.run(lake.model("m", "select 1 as id, 2 as ID", primary_key="id"))
    with pytest.raises(ConfigError, match=r"a field named .*, which can't be written"):
        lake.run(lake.model("m", "select 1 as id, named_struct(concat('a$', '{{b}}'), 1) as r", primary_key="id"))
    assert lake.reader.list_relations(lake.namespace) == {}


def test_configured_names_that_look_like_sql_are_only_names(lake: Warehouse) -> None:
    lake.load("victim", [(1, "a")], "id int, v string")
    attack = "id) ; drop table victim --"
    for config in ({"primary_key": attack}, {"primary_key": "id", "sort_key": [attack]}):
        with pytest.raises(ConfigError, match="which the query does not have"):
            lake.run(lake.model("m", "select 1 as id", **config))
    with pytest.raises(ConfigError, match="not an Iceberg transform"):
        read_configuration({"primary_key": "id", "partition_by": "bucket(2, id)) ; drop table victim --"}, "m")
    tricky = lake.model(
        "m", "select 1 as id", primary_key="id", tblproperties={"it's'); drop table victim; --": "x'); drop --"}
    )
    lake.run(tricky)
    properties = lake.reader.load_table(lake.namespace, "m").properties
    assert properties["it's'); drop table victim; --"] == "x'); drop --"
    assert "victim" in lake.reader.list_relations(lake.namespace)


def nested_names(seed: int) -> list[str]:
    """Names of fields: crafted ones, and some at random."""
    chance = random.Random(seed)
    sharp = "ab `<>:,.()'\"\\;-{}日%/#"
    made = ("".join(chance.choice(sharp) for _ in range(chance.randrange(1, 8))) for _ in range(12))
    crafted = f"a:string>) IS NULL OR {SET_PROPERTY} IS NULL OR named_struct('b','') = CAST(NULL AS struct<b"
    return list(dict.fromkeys(("unit price", "select", "map<", crafted, *made)))


SET_PROPERTY = "reflect('java.lang.System','setProperty','arctic.pwned','yes')"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_fields_of_any_name_are_followed_and_never_run(lake: Warehouse, seed: int) -> None:
    fields = nested_names(seed)
    kind = f"struct<{','.join(f'{quoted(field)}:string' for field in fields)}>"
    columns = f"id int, g string, r {kind}, l array<{kind}>, m map<string,{kind}>"

    def rows(*values: str) -> list[tuple[Any, ...]]:
        image = {value: tuple(f"{value}{i}" for i in range(len(fields))) for value in values}
        return [(i, "ab"[i % 2], image[value], [image[value]], {"k": image[value]}) for i, value in enumerate(values)]

    def write(*values: str) -> None:
        table = lake.frame(rows(*values), columns).coalesce(1).writeTo(lake.sql_name("s"))
        table.tableProperty("format-version", "3").createOrReplace()

    write("x", "y", "z")
    config = {"primary_key": "id", "refresh": "strict"}
    models = [
        lake.model("up", "select * from {s}", primary_key="id", merge="on_read"),
        lake.model("plain", "select id, r from {up} where r.`unit price` <> 'n0'", **config),
        lake.model("pairs", "select u.id, u.r, v.l from {up} u join {up} v on u.id = v.id", **config),
        lake.model("grouped", "select g, max(r) as r, count(*) as n from {up} group by g", primary_key="g"),
    ]
    for run, values in enumerate((("x", "y", "z"), ("x", "Y", "n", "new"), ("w", "Y", "z"))):
        write(*values)
        for model in models:
            outcome = lake.run(model)
            assert outcome.mode == ("incremental" if run and model != models[0] else outcome.mode), f"seed {seed}"
    wider = lake.model("plain", "select id, r, l from {up} where r.`unit price` <> 'n0'", **config)
    lake.run(wider)
    for model in (models[0], wider, *models[2:]):
        assert lake.broken(model) == [], f"seed {seed}"
    said = lake.spark.sql("select reflect('java.lang.System', 'getProperty', 'arctic.pwned')").collect()
    assert said[0][0] == "null"
