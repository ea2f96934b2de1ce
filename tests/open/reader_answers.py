"""Tables of all kinds, and the answers of engines other than Spark that read them, for the page on readers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.maintenance.expiry import expire_if_due
from docs.generate_readers import SAME
from tests.spark.tables.test_readers import FIRST_READ, LAID_OUT, Row, Shop, comparable, files, source_row
from tests.spark.tables.test_streaming_reads import later
from tests.spark.warehouse import Warehouse
from tests.thresholds import STEADY

if TYPE_CHECKING:
    from arctic_runtime.model.names import TableName

WRONG = "other rows than Spark"

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
    """A query of a reader's with the rows that it must return, computed from all rows of the table.

    In `sql` stand `{table}`, and `{quote}` for the sign around names.
    """

    sql: str
    expect: Callable[[list[Row]], list[Row]]


EVERY_ROW = Asked("select * from {table}", lambda rows: rows)
QUERIES = (
    EVERY_ROW,
    Asked(
        f"select * from {{table}} where id >= {FIRST_READ}",
        lambda rows: [row for row in rows if row["id"] >= FIRST_READ],
    ),
    Asked("select id, {quote}a b.c{quote} from {table} where region = 'eu'", select_europe),
    Asked("select 0 as id, count(*) as n from {table}", lambda rows: [{"id": 0, "n": len(rows)}]),
    Asked(
        "select 0 as id, count(*) as n from {table} where region = 'eu'",
        lambda rows: [{"id": 0, "n": len(select_europe(rows))}],
    ),
)


def sort_rows(rows: list[Row]) -> list[Row]:
    """Sorts rows by all their values, since a change table has several of one key."""
    return sorted(comparable(rows), key=lambda row: repr(sorted(row.items())))


class Refused(Exception):
    """A reader's refusal of a query; the text is its error as it is recorded."""


@dataclass(frozen=True)
class ReadingEngine:
    """An engine other than Spark, by its function that runs a query or raises Refused, and its sign around names."""

    query: Callable[[str], list[Row]]
    quote: str

    def ask(self, catalog: str, asked: Asked, table: TableName, rows: list[Row]) -> str:
        """Describes the answer to a query of a table that has these rows: `SAME`, an error, or `WRONG`."""
        quoted = f"{catalog}.{table.schema}.{self.quote}{table.name}{self.quote}"
        try:
            answer = self.query(asked.sql.format(table=quoted, quote=self.quote))
        except Refused as error:
            return str(error)
        return SAME if sort_rows(answer) == sort_rows(asked.expect(rows)) else f"{asked.sql}: {WRONG}"

    def ask_all(self, catalog: str, table: TableName, rows: list[Row]) -> str:
        """Describes the answer to all queries, or all answers if they differ."""
        return "; ".join({self.ask(catalog, asked, table, rows): None for asked in QUERIES})


def open_schema(properties: dict[str, str], settings: dict[str, str]) -> Warehouse:
    """Creates the schema `dev` in a catalog."""
    environment = SparkEnvironment(Profile("lake", properties, settings=settings, thresholds=STEADY))
    spark, reader = environment.new_session(), CatalogReader(environment.profile)
    reader.create_namespace("dev")
    return Warehouse(environment, reader, spark, "dev")


def build_shop(lake: Warehouse) -> Shop:
    """Builds a shop whose bases have deleted rows, and whose views read changes that are not merged yet."""
    shop = Shop(lake, CONFIGS | TRIMMED)
    for model in shop.models.values():
        session = shop.lake.session_of(model)
        session.reconcile_until_done(session.observe_state(), fold=True)
    shop.rows |= {3: source_row(3, 4), 2000: source_row(2000, 4)}
    del shop.rows[7]
    shop.run(QUERY_WITH_ALL)
    assert_readers_stumble(shop)
    return shop


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


def list_findings(engine: ReadingEngine, catalog: str, shop: Shop) -> list[dict[str, Any]]:
    """Lists an engine's answers by relation and by what was done to its model; the shop's tables are compacted."""
    after_runs = read_all(engine, catalog, shop, [*CONFIGS, *TRIMMED], "runs")
    for name in TRIMMED:
        expire_if_due(later(shop.lake, shop.models[name]), [])
        assert 1 in {row["content"] for row in files(shop.lake, shop.models[name].table.changes)}
    trimmed = read_all(engine, catalog, shop, TRIMMED, "changelog compaction")
    for name in CONFIGS:
        compact_table(shop.lake.session_of(shop.models[name]), "full")
    return [*after_runs, *trimmed, *read_all(engine, catalog, shop, CONFIGS, "full compaction")]


def read_all(engine: ReadingEngine, catalog: str, shop: Shop, names: Iterable[str], after: str) -> list[dict[str, Any]]:
    """Reads the relations of models by an engine, and compares each with what Spark reads."""
    findings = []
    for name in names:
        kind, _, version = name.rpartition("_")
        for relation, part in RELATIONS[kind].items():
            table, rows = shop.relation(f"{name} {part}".strip())
            answer = engine.ask_all(catalog, table, rows)
            for prefix in ("dev.", ""):
                answer = answer.replace(f"'{prefix}{table.name}'", f"'{prefix}m'")
            described = {"relation": relation, "model": kind, "format_version": int(version), "after": after}
            findings.append({**described, "answer": answer})
    return findings


def select_answers(findings: list[dict[str, Any]], **wanted: Any) -> set[str]:
    answers = {row["answer"] for row in findings if wanted.items() <= row.items()}
    assert answers, wanted
    return answers


def assert_recorded(file: Path, reader: str, findings: list[dict[str, Any]]) -> None:
    """Fails the test if the findings are others than the page shows, and records them for the page."""
    recorded = {"reader": reader, "reads": findings}
    if not file.exists() or json.loads(file.read_text()) != recorded:
        file.write_text(json.dumps(recorded, indent=1) + "\n")
        pytest.fail(f"{reader} answers otherwise than {file.name} said, which is rewritten: run `make docs`")


def assert_without_default_values(shop: Shop) -> None:
    """Raises AssertionError if a column has a default value, which some readers take for null."""
    for model in shop.models.values():
        for table in (model.base, model.table.changes):
            schemas = shop.lake.reader.load_table(table.schema, table.name).metadata.schemas
            assert {field.initial_default for schema in schemas for field in schema.fields} == {None}


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
