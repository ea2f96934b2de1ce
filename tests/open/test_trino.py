"""Trino returns the rows that Spark returns, or refuses to read; `docs/readers.md` shows which, from these runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import JARS_SETTING, Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.maintenance.expiry import expire_if_due
from docs.generate_readers import SAME, TRINO_READS
from tests.java import INTERPRETED
from tests.open.catalog_servers import CATALOGS
from tests.open.trino_server import OLDEST_JAVA, VERSION, TrinoServer, find_trino_java, run_trino
from tests.spark.tables.test_readers import (
    FIRST_READ,
    LAID_OUT,
    Row,
    Shop,
    comparable,
    files,
    source_row,
    write_two_specs,
)
from tests.spark.tables.test_streaming_reads import later
from tests.spark.warehouse import Warehouse
from tests.thresholds import STEADY

if TYPE_CHECKING:
    from arctic_runtime.model.names import TableName

pytestmark = pytest.mark.skipif(
    find_trino_java() is None, reason=f"Trino {VERSION} needs Java {OLDEST_JAVA} or newer, and none is installed"
)

WRONG = "other rows than Spark"
REFUSED_VECTORS = "ICEBERG_BAD_DATA: Unexpected PUFFIN file format"
REFUSED_VIEW = "ICEBERG_UNSUPPORTED_VIEW_DIALECT: Cannot read unsupported dialect 'spark' for view 'dev.m'"
KINDS = {"rest": "rest", "postgresql": "jdbc_postgresql"}
"""The catalogs that Trino has, each with its name in `CATALOGS`."""

CONFIGS: dict[str, dict[str, Any]] = {
    f"{merge}_{version}": {**LAID_OUT, "merge": merge, "format_version": version}
    for merge in ("on_write", "on_read")
    for version in (3, 2)
}
CONFIGS |= {f"small_{version}": {"primary_key": "id", "format_version": version} for version in (3, 2)}
TRIMMED = {
    f"trimmed_{version}": {**LAID_OUT, "retention": {"changes": "1d", "versions": "1d"}, "format_version": version}
    for version in (3, 2)
}
RELATIONS = {
    "on_write": {"base": "", "change table": "changes"},
    "on_read": {"view": "", "base": "base", "change table": "changes"},
    "small": {"base": ""},
    "trimmed": {"change table": "changes"},
}
"""The relations of a model by the beginning of its name, each with its name in `Shop.relation`."""

QUERY_WITH_ALL = "cast(n as bigint) as n, n * 2L as twice"


def select_europe(rows: list[Row]) -> list[Row]:
    return [{name: row[name] for name in ("id", "a b.c")} for row in rows if row["region"] == "eu"]


@dataclass(frozen=True)
class Asked:
    """A query of Trino's with the rows that it must return, computed from all rows of the table."""

    sql: str
    expect: Callable[[list[Row]], list[Row]]


EVERY_ROW = Asked("select * from {table}", lambda rows: rows)
QUERIES = (
    EVERY_ROW,
    Asked(
        f"select * from {{table}} where id >= {FIRST_READ}",
        lambda rows: [row for row in rows if row["id"] >= FIRST_READ],
    ),
    Asked("select id, \"a b.c\" from {table} where region = 'eu'", select_europe),
    Asked("select 0 as id, count(*) as n from {table}", lambda rows: [{"id": 0, "n": len(rows)}]),
    Asked(
        "select 0 as id, count(*) as n from {table} where region = 'eu'",
        lambda rows: [{"id": 0, "n": len(select_europe(rows))}],
    ),
)


def sort_rows(rows: list[Row]) -> list[Row]:
    """Sorts rows by all their values, since a change table has several of one key."""
    return sorted(comparable(rows), key=lambda row: repr(sorted(row.items())))


@dataclass(frozen=True)
class Served:
    """A Trino with a schema in each of its catalogs, which Spark writes."""

    trino: TrinoServer
    lakes: dict[str, Warehouse]

    def ask(self, catalog: str, asked: Asked, table: TableName, rows: list[Row]) -> str:
        """Describes what Trino answers to a query of a table that has these rows: `SAME`, an error, or `WRONG`."""
        from trino.exceptions import TrinoQueryError

        try:
            answer = self.trino.query(asked.sql.format(table=f'{catalog}.{table.schema}."{table.name}"'))
        except TrinoQueryError as error:
            return f"{error.error_name}: {error.message}"
        return SAME if sort_rows(answer) == sort_rows(asked.expect(rows)) else f"{asked.sql}: {WRONG}"

    def ask_all(self, catalog: str, table: TableName, rows: list[Row]) -> str:
        """Describes Trino's answer to all queries, or all its answers if they differ."""
        return "; ".join({self.ask(catalog, asked, table, rows): None for asked in QUERIES})


@pytest.fixture(scope="module")
def served(spark_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A Trino and a Spark that share a REST catalog and a catalog in PostgreSQL."""
    folder = tmp_path_factory.mktemp("trino")
    settings = {**spark_settings, **INTERPRETED, JARS_SETTING: "postgresql", "spark.hadoop.fs.defaultFS": "file:///"}
    with ExitStack() as stack:
        catalogs = {name: stack.enter_context(CATALOGS[kind].run(folder)) for name, kind in KINDS.items()}
        trino = stack.enter_context(run_trino(folder, catalogs))
        yield Served(trino, {name: open_schema(catalogs[name], settings) for name in catalogs})
        SparkEnvironment(Profile.for_embedded(folder / "end", settings=settings)).stop_spark()


def open_schema(properties: dict[str, str], settings: dict[str, str]) -> Warehouse:
    """Creates the schema `dev` in a catalog."""
    environment = SparkEnvironment(Profile("lake", properties, settings=settings, thresholds=STEADY))
    spark, reader = environment.new_session(), CatalogReader(environment.profile)
    reader.create_namespace("dev")
    return Warehouse(environment, reader, spark, "dev")


@pytest.fixture(scope="module")
def shop(served: Served) -> Shop:
    """A shop whose bases have deleted rows, and whose views read changes that are not merged yet."""
    shop = Shop(served.lakes["rest"], CONFIGS | TRIMMED)
    for model in shop.models.values():
        session = shop.lake.session_of(model)
        session.reconcile_until_done(session.observe_state(), fold=True)
    shop.rows |= {3: source_row(3, 4), 2000: source_row(2000, 4)}
    del shop.rows[7]
    shop.run(QUERY_WITH_ALL)
    assert_readers_stumble(shop)
    return shop


@pytest.fixture(scope="module")
def findings(served: Served, shop: Shop) -> list[dict[str, Any]]:
    """What Trino answers, by relation and by what was done to its model."""
    after_runs = read_all(served, shop, [*CONFIGS, *TRIMMED], "runs")
    for name in TRIMMED:
        expire_if_due(later(shop.lake, shop.models[name]), [])
        assert 1 in {row["content"] for row in files(shop.lake, shop.models[name].table.changes)}
    trimmed = read_all(served, shop, TRIMMED, "changelog compaction")
    for name in CONFIGS:
        compact_table(shop.lake.session_of(shop.models[name]), "full")
    return [*after_runs, *trimmed, *read_all(served, shop, CONFIGS, "full compaction")]


def assert_readers_stumble(shop: Shop) -> None:
    """Raises AssertionError if the tables lack deleted rows or unmerged changes, which readers may misread."""
    for name, model in shop.models.items():
        kinds = {(row["content"], row["file_format"]) for row in files(shop.lake, model.base)}
        deletes = set() if name.startswith("small") else {(1, "PUFFIN" if name.endswith("3") else "PARQUET")}
        assert kinds == {(0, "PARQUET")} | deletes, name
        assert {row["content"] for row in files(shop.lake, model.table.changes)} == {0}, name
        view = shop.lake.state(model).view
        assert view is None or view.merged != view.head, name
        assert (view is not None) == name.startswith("on_read")


def read_all(served: Served, shop: Shop, names: Iterable[str], after: str) -> list[dict[str, Any]]:
    """Reads the relations of models by Trino, and compares each with what Spark reads."""
    findings = []
    for name in names:
        kind, _, version = name.rpartition("_")
        for relation, part in RELATIONS[kind].items():
            table, rows = shop.relation(f"{name} {part}".strip())
            answer = served.ask_all("rest", table, rows).replace(f"'dev.{table.name}'", "'dev.m'")
            described = {"relation": relation, "model": kind, "format_version": int(version), "after": after}
            findings.append({**described, "answer": answer})
    return findings


def select_answers(findings: list[dict[str, Any]], **wanted: Any) -> set[str]:
    answers = {row["answer"] for row in findings if wanted.items() <= row.items()}
    assert answers, wanted
    return answers


def test_trino_returns_no_row_that_spark_does_not_return(findings: list[dict[str, Any]]) -> None:
    assert [row for row in findings if WRONG in row["answer"]] == []


def test_trino_reads_change_tables_until_changelog_compaction_deletes_rows(findings: list[dict[str, Any]]) -> None:
    changes = {"relation": "change table"}
    assert select_answers(findings, **changes, after="runs") == {SAME}
    assert select_answers(findings, **changes, after="changelog compaction") == {REFUSED_VECTORS}
    assert select_answers(findings, **changes, after="full compaction") == {SAME}


def test_trino_reads_bases_of_version_2(findings: list[dict[str, Any]]) -> None:
    assert select_answers(findings, relation="base", format_version=2) == {SAME}


def test_trino_refuses_bases_with_deletion_vectors_until_they_are_compacted(findings: list[dict[str, Any]]) -> None:
    for model in ("on_write", "on_read"):
        base = {"relation": "base", "model": model, "format_version": 3}
        assert select_answers(findings, **base, after="runs") == {REFUSED_VECTORS}
        assert select_answers(findings, **base, after="full compaction") == {SAME}


def test_trino_reads_small_bases_that_each_run_rewrites(findings: list[dict[str, Any]]) -> None:
    assert select_answers(findings, model="small") == {SAME}


def test_trino_refuses_views_of_spark(findings: list[dict[str, Any]]) -> None:
    assert select_answers(findings, relation="view") == {REFUSED_VIEW}


@pytest.mark.parametrize(("version", "answer"), [(3, REFUSED_VECTORS), (2, SAME)])
def test_trino_reads_no_deletes_of_two_partition_specs_wrongly(served: Served, version: int, answer: str) -> None:
    lake = replace(served.lakes["rest"], namespace=f"specs{version}")
    lake.reader.create_namespace(lake.namespace)
    model, rows = write_two_specs(lake, version)
    assert served.ask("rest", EVERY_ROW, model.base, rows) == answer
    compact_table(lake.session_of(model), "full")
    assert served.ask("rest", EVERY_ROW, model.base, rows) == SAME


@pytest.fixture(scope="module")
def orders(served: Served) -> Shop:
    """A shop in PostgreSQL's catalog with one table."""
    return Shop(served.lakes["postgresql"], {"orders": CONFIGS["on_write_2"]})


def test_trino_reads_tables_of_a_catalog_in_postgresql(served: Served, orders: Shop) -> None:
    for name in ("orders base", "orders changes"):
        table, rows = orders.relation(name)
        assert served.ask_all("postgresql", table, rows) == SAME, name


def test_trino_lists_the_change_rows_after_a_version_in_the_order_of_commits(served: Served, orders: Shop) -> None:
    changes = orders.models["orders"].table.changes
    snapshots = orders.lake.reader.load_table(changes.schema, changes.name).metadata.snapshots
    first, last = snapshots[0].snapshot_id, snapshots[-1].snapshot_id
    rows = served.trino.query(
        "select id, _action, _seq, _change_ordinal from "
        f"table(postgresql.system.table_changes('{changes.schema}', '{changes.name}', {first}, {last}))"
    )
    newer = orders.lake.spark.sql(
        "select id, _action, _seq, dense_rank() over (order by _last_updated_sequence_number) - 1 as _change_ordinal "
        f"from {quote_name(*changes.parts)} with (`start-snapshot-id` = {first}, `end-snapshot-id` = {last})"
    )
    assert len({row["_change_ordinal"] for row in rows}) > 1
    assert sort_rows(rows) == sort_rows([row.asDict() for row in newer.collect()])


def test_no_table_has_a_default_value_for_which_trino_reads_nulls(served: Served, shop: Shop) -> None:
    for model in shop.models.values():
        for table in (model.base, model.table.changes):
            schemas = shop.lake.reader.load_table(table.schema, table.name).metadata.schemas
            assert {field.initial_default for schema in schemas for field in schema.fields} == {None}
    add_default_value(shop.lake)
    assert {row["x"] for row in shop.lake.spark.table("lake.dev.foreign").collect()} == {5}
    assert served.trino.query("select x from rest.dev.foreign") == [{"x": None}]


def add_default_value(lake: Warehouse) -> None:
    """Creates a table whose only row is older than a column with a default value, which Spark's SQL can't add."""
    lake.spark.sql(
        "create table lake.dev.foreign using iceberg tblproperties ('format-version' = '3') as select 1 as id"
    )
    java = lake.spark._jvm
    catalog = lake.spark._jsparkSession.sessionState().catalogManager().catalog("lake").icebergCatalog()
    table = catalog.loadTable(java.org.apache.iceberg.catalog.TableIdentifier.parse("dev.foreign"))
    kind = getattr(java.org.apache.iceberg.types, "Types$IntegerType").get()
    default = java.org.apache.iceberg.expressions.Literal.of(5)
    table.updateSchema().addColumn("x", kind, None, default).commit()
    lake.spark.sql("refresh table lake.dev.foreign")


def test_the_page_shows_what_trino_answers(findings: list[dict[str, Any]]) -> None:
    recorded = {"trino": VERSION, "reads": findings}
    if not TRINO_READS.exists() or json.loads(TRINO_READS.read_text()) != recorded:
        TRINO_READS.write_text(json.dumps(recorded, indent=1) + "\n")
        pytest.fail(f"Trino answers otherwise than {TRINO_READS.name} said, which is rewritten: run `make docs`")
