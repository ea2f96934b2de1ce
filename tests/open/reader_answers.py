"""Tables of all kinds, and the answers of engines other than Spark that read them, for the page on readers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.maintenance.expiry import expire_if_due
from docs.generate_readers import SAME, SAME_BUT_EMPTY
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


@dataclass(frozen=True)
class Asked:
    """A question to a reader, and the rows that answer it.

    `columns` are all if none are named. `where` is a condition that SQL and pyiceberg know, and `keeps` the same one in
    Python.
    """

    columns: tuple[str, ...] = ()
    where: str | None = None
    keeps: Callable[[Row], bool] = lambda row: True
    is_count: bool = False

    def write_sql(self, table: str, quote: str) -> str:
        """Writes the query; `table` stands in it as it is, and `quote` is the sign around names."""
        columns = ", ".join(f"{quote}{name}{quote}" for name in self.columns) or "*"
        selected = "0 as id, count(*) as n" if self.is_count else columns
        return f"select {selected} from {table}" + (f" where {self.where}" if self.where else "")

    def list_expected(self, rows: list[Row]) -> list[Row]:
        """Lists the rows of the answer, computed from all rows of the table."""
        kept = [row for row in rows if self.keeps(row)]
        if self.is_count:
            return [{"id": 0, "n": len(kept)}]
        return [{name: row[name] for name in self.columns or row} for row in kept]


def is_european(row: Row) -> bool:
    return bool(row["region"] == "eu")


EVERY_ROW = Asked()
QUESTIONS = (
    EVERY_ROW,
    Asked(where=f"id >= {FIRST_READ}", keeps=lambda row: row["id"] >= FIRST_READ),
    Asked(("id", "a b.c"), "region = 'eu'", is_european),
    Asked(is_count=True),
    Asked(where="region = 'eu'", keeps=is_european, is_count=True),
)


def sort_rows(rows: list[Row]) -> list[Row]:
    """Sorts rows by all their values, since a change table has several of one key."""
    return sorted(comparable(rows), key=lambda row: repr(sorted(row.items())))


class Refused(Exception):
    """A reader's refusal of a question; the text is its error as it is recorded."""


ReadingEngine = Callable[["TableName", Asked], list[Row]]
"""An engine other than Spark: answers a question about a table, or raises Refused."""


def ask_by_sql(query: Callable[[str], list[Row]], catalog: str, quote: str) -> ReadingEngine:
    """Returns an engine that runs queries over a catalog; `quote` is its sign around names."""

    def answer(table: TableName, asked: Asked) -> list[Row]:
        return query(asked.write_sql(f"{catalog}.{table.schema}.{quote}{table.name}{quote}", quote))

    return answer


def describe_answer(engine: ReadingEngine, asked: Asked, table: TableName, rows: list[Row]) -> str:
    """Describes the answer about a table that has these rows: `SAME`, `SAME_BUT_EMPTY`, an error, or `WRONG`."""
    try:
        answer = sort_rows(engine(table, asked))
    except Refused as error:
        return str(error)
    expected = sort_rows(asked.list_expected(rows))
    if answer == expected:
        return SAME
    if sort_rows(list(map(empty_to_null, answer))) == sort_rows(list(map(empty_to_null, expected))):
        return SAME_BUT_EMPTY
    return f"{asked.write_sql('m', '`')}: {WRONG}"


def empty_to_null(value: Any) -> Any:
    """Returns a row or a value without the difference between null and a list, a map or a struct that has nothing."""
    match value:
        case Mapping():
            parts = {name: empty_to_null(part) for name, part in value.items()}
            return parts if any(part is not None for part in parts.values()) else None
        case list():
            return [empty_to_null(part) for part in value] or None
    return value


def describe_answers(engine: ReadingEngine, table: TableName, rows: list[Row]) -> str:
    """Describes the answer to all questions, or all answers if they differ."""
    answers = dict.fromkeys(describe_answer(engine, asked, table, rows) for asked in QUESTIONS)
    if SAME_BUT_EMPTY in answers:
        answers.pop(SAME, None)
    return "; ".join(answers)


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


Findings = list[dict[str, Any]]


def list_findings(engines: Mapping[str, ReadingEngine], shop: Shop) -> dict[str, Findings]:
    """Lists the answers of each engine by relation and by what was done to its model, which is compacted meanwhile."""
    findings: dict[str, Findings] = {reader: [] for reader in engines}
    read_all(engines, shop, [*CONFIGS, *TRIMMED], "runs", findings)
    for name in TRIMMED:
        expire_if_due(later(shop.lake, shop.models[name]), [])
        assert 1 in {row["content"] for row in files(shop.lake, shop.models[name].table.changes)}
    read_all(engines, shop, TRIMMED, "changelog compaction", findings)
    for name in CONFIGS:
        compact_table(shop.lake.session_of(shop.models[name]), "full")
    read_all(engines, shop, CONFIGS, "full compaction", findings)
    return findings


def read_all(
    engines: Mapping[str, ReadingEngine], shop: Shop, names: Iterable[str], after: str, findings: dict[str, Findings]
) -> None:
    """Adds to `findings` how engines read the relations of models, compared with what Spark reads."""
    for name in names:
        kind, _, version = name.rpartition("_")
        for relation, part in RELATIONS[kind].items():
            table, rows = shop.relation(f"{name} {part}".strip())
            described = {"relation": relation, "model": kind, "format_version": int(version), "after": after}
            for reader, engine in engines.items():
                answer = describe_answers(engine, table, rows)
                findings[reader].append({**described, "answer": re.sub(rf"\b{table.name}\b", "m", answer)})


def select_answers(findings: Findings, **wanted: Any) -> set[str]:
    answers = {row["answer"] for row in findings if wanted.items() <= row.items()}
    assert answers, wanted
    return answers


def assert_recorded(file: Path, findings: Mapping[str, Findings]) -> None:
    """Fails the test if the findings are others than the page shows, and records them for the page."""
    if not file.exists() or json.loads(file.read_text()) != findings:
        file.write_text(json.dumps(findings, indent=1) + "\n")
        readers = ", ".join(findings)
        pytest.fail(f"other answers of {readers} than in {file.name}, which is rewritten: run `make docs`")


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
