"""Details of a table: what is shown of its query, its columns and its tests, and what is cut or masked."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from arctic_runtime.model.columns import Column
from arctic_runtime.model.masking import Mask
from arctic_runtime.model.names import TableName
from arctic_runtime.service.cron_schedules import DataTestOutcome
from arctic_runtime.service.project import DataTestRuns, LastDataTest, TableDocs
from arctic_runtime.service.telemetry.lineage.columns import ColumnLineage, SourceColumnRead, Use
from arctic_runtime.service.view.table_details import DetailInputs, build_table_details, build_table_rows
from arctic_runtime.thresholds import ServiceThresholds

ODS, DWD = TableName("lake", "ods", "orders"), TableName("lake", "dwd", "orders")
NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
COLUMNS = (Column("Id", "bigint"), Column("total", "decimal(18,2)"))


def make_inputs(**changed: Any) -> DetailInputs:
    given = {"sql": "select 1", "key": ("id",), "columns": COLUMNS, "docs": TableDocs(), "lineage": None}
    return DetailInputs(DWD, **{**given, **changed})


def test_columns_have_key_type_description_and_origins_whose_values_come_first() -> None:
    docs = TableDocs("All orders", "", {"total": "Net"}, masks={"total": True})
    summed = frozenset({Use("AGGREGATION"), Use("CONDITIONAL")})
    uses = {SourceColumnRead(ODS, "status"): frozenset({Use("CONDITIONAL")}), SourceColumnRead(ODS, "value"): summed}
    lineage = ColumnLineage({"TOTAL": uses}, {SourceColumnRead(ODS, "day"): frozenset({Use("GROUP_BY")})})
    details = build_table_details(make_inputs(docs=docs, lineage=lineage), ServiceThresholds())
    key, total = details.columns
    assert (key.name, key.type, key.is_key, key.origins) == ("Id", "bigint", True, ())
    assert (total.is_key, total.is_masked, total.description) == (False, True, "Net")
    assert [(origin.column, origin.uses) for origin in total.origins] == [
        ("value", ("aggregation", "conditional")),
        ("status", ("conditional",)),
    ]
    assert [(origin.column, origin.uses) for origin in details.row_origins] == [("day", ("group by",))]
    assert (details.has_lineage, details.is_cut) == (True, False)


def test_a_table_without_an_analysed_query_says_that_its_origins_are_not_known() -> None:
    details = build_table_details(make_inputs(), ServiceThresholds())
    assert (details.has_lineage, details.row_origins) == (False, ())


def test_secrets_in_a_query_are_masked() -> None:
    sql = "select * from read('https://reader:hunter2@files/x')"
    assert "hunter2" not in build_table_details(make_inputs(sql=sql), ServiceThresholds()).sql


def test_long_parts_are_cut() -> None:
    limits = ServiceThresholds(shown_sql_characters=5, shown_columns=1, shown_origins=1)
    details = build_table_details(make_inputs(), limits)
    assert (details.sql, len(details.columns), details.is_cut) == ("selec", 1, True)
    many = {SourceColumnRead(ODS, name): frozenset({Use("FILTER")}) for name in "ab"}
    cut = build_table_details(make_inputs(lineage=ColumnLineage({}, many)), ServiceThresholds(shown_origins=1))
    assert (len(cut.row_origins), cut.is_cut) == (1, True)


def test_a_test_has_its_newest_result_whether_dbt_or_the_service_ran_it() -> None:
    known = (
        LastDataTest("not_run"),
        LastDataTest("only_dbt", "warn", "Got 1 result", NOW),
        LastDataTest("older_by_dbt", "pass", "", NOW - timedelta(hours=1)),
        LastDataTest("newer_by_dbt", "pass", "", NOW + timedelta(hours=1)),
    )
    runs = DataTestRuns()
    runs.record_run(
        DWD,
        (
            DataTestOutcome("older_by_dbt", "fail", "Got 2 results"),
            DataTestOutcome("newer_by_dbt", "fail", "Got 3 results"),
            DataTestOutcome("gone", "fail"),
        ),
        NOW,
    )
    results = runs.add_results(DWD, TableDocs("All orders", tests=known)).tests
    assert [(test.name, test.status, test.at) for test in results] == [
        ("older_by_dbt", "fail", NOW),
        ("only_dbt", "warn", NOW),
        ("not_run", "unknown", None),
        ("newer_by_dbt", "pass", NOW + timedelta(hours=1)),
    ]
    assert runs.add_results(ODS, TableDocs(tests=known[:1])).tests == known[:1]


ORDERS = TableName("lake", "dwd", "orders")
PLAIN, MASK = Mask(b"k", {}), Mask(b"k", {"email": True}, ["hunter2"])


def test_values_become_texts_and_null_stays_null() -> None:
    row = {
        "id": 9007199254740993,
        "price": Decimal("1.50"),
        "at": datetime(2026, 1, 1, tzinfo=timezone.utc),
        "tags": ["a", "\u00e4"],
        "raw": b"\x00\xff",
        "none": None,
        "is_new": True,
    }
    shown = build_table_rows(ORDERS, [row], PLAIN, 100)
    assert shown.columns == tuple(row)
    assert shown.rows == (
        ("9007199254740993", "1.50", "2026-01-01T00:00:00+00:00", '["a", "\u00e4"]', "00ff", None, "true"),
    )


def test_long_values_are_cut() -> None:
    (row,) = build_table_rows(ORDERS, [{"note": "x" * 50}], PLAIN, 10).rows
    assert row == ("x" * 9 + "\u2026",)


def test_masked_values_are_hashes_that_tell_only_whether_they_are_equal() -> None:
    rows = [{"email": email} for email in ("a@x", "b@x", "a@x", None)]
    shown = build_table_rows(ORDERS, rows, MASK, 100)
    first, second, third, absent = (row[0] for row in shown.rows)
    assert first == third != second
    assert absent is None
    assert first is not None
    assert "a@x" not in first
    assert build_table_rows(ORDERS, rows, Mask(b"other", MASK.columns), 100).rows[0][0] != first
    assert shown.masked == ("email",)


def test_secrets_are_hidden_in_other_columns() -> None:
    (row,) = build_table_rows(ORDERS, [{"password": "p", "urls": ["https://me:hunter2@host"]}], MASK, 100).rows
    assert row[0] == MASK.hide_value("password", "p")
    assert row[1] is not None
    assert row[1].startswith('["https://me:masked:')
    assert "hunter2" not in row[1]


def test_a_table_without_rows_has_no_columns_to_show() -> None:
    assert build_table_rows(ORDERS, [], MASK, 100).columns == ()
