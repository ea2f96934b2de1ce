"""Trino returns the rows that Spark returns, or refuses to read; `docs/readers.md` shows which, from these runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.maintenance.compaction import compact_table
from docs.generate_readers import SAME, TRINO_READS
from tests.java import INTERPRETED
from tests.open.catalog_servers import CATALOGS
from tests.open.trino_server import CATALOG, OLDEST_JAVA, VERSION, TrinoServer, find_trino_java, run_trino
from tests.spark.tables.test_readers import FIRST_READ, LAID_OUT, Row, Shop, comparable, files, source_row
from tests.spark.warehouse import Warehouse
from tests.thresholds import STEADY

pytestmark = pytest.mark.skipif(
    find_trino_java() is None, reason=f"Trino {VERSION} needs Java {OLDEST_JAVA} or newer, and none is installed"
)

WRONG = "other rows than Spark"
REFUSED_VECTORS = "Unexpected PUFFIN file format"
REFUSED_VIEW = "Cannot read unsupported dialect 'spark' for view"
CONFIGS: dict[str, dict[str, Any]] = {
    f"{merge}_{version}": {**LAID_OUT, "merge": merge, "format_version": version}
    for merge in ("on_write", "on_read")
    for version in (3, 2)
} | {"small_3": {"primary_key": "id"}, "small_2": {"primary_key": "id", "format_version": 2}}
RELATIONS = {
    "on_write": {"base": "", "change table": "changes"},
    "on_read": {"view": "", "base": "base", "change table": "changes"},
    "small": {"base": ""},
}
"""The relations of a model by the beginning of its name, each with its name in `Shop.relation`."""


def select_europe(rows: list[Row]) -> list[Row]:
    return [{name: row[name] for name in ("id", "a b.c")} for row in rows if row["region"] == "eu"]


@dataclass(frozen=True)
class Asked:
    """A query of Trino's with the rows that it must return, computed from all rows of the table."""

    sql: str
    expect: Callable[[list[Row]], list[Row]]


QUERIES = (
    Asked("select * from {table}", lambda rows: rows),
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


@pytest.fixture(scope="module")
def shop_and_trino(
    spark_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Shop, TrinoServer]]:
    """A shop in a REST catalog, in which all bases have deleted rows and views read unmerged changes, and a Trino."""
    folder = tmp_path_factory.mktemp("trino")
    (folder / "lake").mkdir()
    with CATALOGS["rest"].run(folder / "lake") as properties, run_trino(folder / "server", properties) as trino:
        settings = {**spark_settings, **INTERPRETED}
        environment = SparkEnvironment(Profile("lake", properties, settings=settings, thresholds=STEADY))
        spark, reader = environment.new_session(), CatalogReader(environment.profile)
        reader.create_namespace("dev")
        shop = Shop(Warehouse(environment, reader, spark, "dev"), CONFIGS)
        merge_unmerged(shop)
        shop.rows |= {3: source_row(3, 4), 2000: source_row(2000, 4)}
        del shop.rows[7]
        shop.run("cast(n as bigint) as n, n * 2L as twice")
        yield shop, trino
        environment.stop_spark()


def merge_unmerged(shop: Shop) -> None:
    for model in shop.models.values():
        session = shop.lake.session_of(model)
        session.reconcile_until_done(session.observe_state(), fold=True)


@pytest.fixture(scope="module")
def findings(shop_and_trino: tuple[Shop, TrinoServer]) -> list[dict[str, Any]]:
    """What Trino answers, by relation, before and after a full compaction."""
    shop, trino = shop_and_trino
    assert_readers_stumble(shop)
    before = read_all(shop, trino, compacted=False)
    for model in shop.models.values():
        compact_table(shop.lake.session_of(model), "full")
    return before + read_all(shop, trino, compacted=True)


def assert_readers_stumble(shop: Shop) -> None:
    """Raises AssertionError if the tables lack deleted rows or unmerged changes, which readers may misread."""
    for name, model in shop.models.items():
        kinds = {(row["content"], row["file_format"]) for row in files(shop.lake, model.base)}
        deletes = set() if name.startswith("small") else {(1, "PUFFIN" if name.endswith("3") else "PARQUET")}
        assert kinds == {(0, "PARQUET")} | deletes, name
        view = shop.lake.state(model).view
        assert view is None or view.merged != view.head, name
        assert (view is not None) == name.startswith("on_read")


def read_all(shop: Shop, trino: TrinoServer, compacted: bool) -> list[dict[str, Any]]:
    """Reads all relations by Trino, and compares each with what Spark reads."""
    findings = []
    for name in shop.models:
        merge, _, version = name.rpartition("_")
        for kind, part in RELATIONS[merge].items():
            table, rows = shop.relation(f"{name} {part}".strip())
            answer = describe_answer(trino, table.name, rows)
            described = {"relation": kind, "merge": merge, "format_version": int(version), "compacted": compacted}
            findings.append({**described, "answer": answer.replace(f"'dev.{table.name}'", "'dev.m'")})
    return findings


def describe_answer(trino: TrinoServer, table: str, rows: list[Row]) -> str:
    """Returns Trino's answer to all queries: Spark's rows or a message, or all answers if they differ."""
    answers = {ask(trino, asked, table, rows): None for asked in QUERIES}
    return "; ".join(answers)


def ask(trino: TrinoServer, asked: Asked, table: str, rows: list[Row]) -> str:
    from trino.exceptions import TrinoQueryError

    try:
        answer = trino.query(asked.sql.format(table=f'{CATALOG}.dev."{table}"'))
    except TrinoQueryError as error:
        return f"{error.error_name}: {error.message}"
    return SAME if sort_rows(answer) == sort_rows(asked.expect(rows)) else f"{asked.sql}: {WRONG}"


def select_answers(findings: list[dict[str, Any]], **wanted: Any) -> set[str]:
    answers = {row["answer"] for row in findings if wanted.items() <= row.items()}
    assert answers, wanted
    return answers


def test_trino_returns_no_row_that_spark_does_not_return(findings: list[dict[str, Any]]) -> None:
    assert [row for row in findings if WRONG in row["answer"]] == []


def test_trino_reads_change_tables(findings: list[dict[str, Any]]) -> None:
    assert select_answers(findings, relation="change table") == {SAME}


def test_trino_reads_bases_of_version_2(findings: list[dict[str, Any]]) -> None:
    assert select_answers(findings, relation="base", format_version=2) == {SAME}


def test_trino_refuses_bases_with_deletion_vectors_until_they_are_compacted(findings: list[dict[str, Any]]) -> None:
    for merge in ("on_write", "on_read"):
        base = {"relation": "base", "merge": merge, "format_version": 3}
        assert select_answers(findings, **base, compacted=False) == {f"ICEBERG_BAD_DATA: {REFUSED_VECTORS}"}
        assert select_answers(findings, **base, compacted=True) == {SAME}


def test_trino_reads_small_bases_that_each_run_rewrites(findings: list[dict[str, Any]]) -> None:
    assert select_answers(findings, merge="small") == {SAME}


def test_trino_refuses_views_of_spark(findings: list[dict[str, Any]]) -> None:
    (answer,) = select_answers(findings, relation="view")
    assert answer == f"ICEBERG_UNSUPPORTED_VIEW_DIALECT: {REFUSED_VIEW} 'dev.m'"


def test_the_page_shows_what_trino_answers(findings: list[dict[str, Any]]) -> None:
    recorded = {"trino": VERSION, "reads": findings}
    if not TRINO_READS.exists() or json.loads(TRINO_READS.read_text()) != recorded:
        TRINO_READS.write_text(json.dumps(recorded, indent=1) + "\n")
        pytest.fail(f"Trino answers otherwise than {TRINO_READS.name} said, which is rewritten: run `make docs`")
