"""What `arctic ingest` shows: batches as lines or JSON, and on a terminal one line per source in place."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from rich.console import Console

from arctic_runtime.ingest.connectors import get_position_parser
from arctic_runtime.ingest.job.reports import BatchReport
from arctic_runtime.ingest.transports.debezium.position import Position
from arctic_runtime.ingest.writing.records import TableResult
from arctic_runtime.model.sources.ingestion import Failure, Progress
from dbt.adapters.arctic.commands.ingest_progress import (
    LineWriter,
    Totals,
    format_counts,
    format_json_line,
    format_line,
    show_in_place,
    show_progress,
)

POSITION = Position({"server": "s"}, {"file": "b.000003", "pos": 4}, None, ["b.000003", 1234], "definitions")


def a_batch(rows: dict[str, int], dead: int = 0, seconds: float = 0.5, **more: Any) -> BatchReport:
    count = sum(rows.values()) + dead
    written = (TableResult("orders", {"insert": 0, **rows}, count, count - dead, 0, dead, None),) if count else ()
    at = datetime.now(timezone.utc) - timedelta(seconds=60)
    position = get_position_parser("mysql")(str(POSITION.progress))
    return BatchReport(written, count, seconds, Progress(POSITION.progress, None, at), position, **more)


def test_a_batch_is_a_line_with_its_lag_and_what_all_tables_have() -> None:
    shown = format_line("shop", a_batch({"insert": 1200, "update": 8}, 2, behind=5000))
    assert re.sub(r"\d+\.\d s behind", "N s behind", shown) == (
        "shop: 1,210 events in 0.5 s (2,420/s), N s behind, 5,000 events behind, at b.000003:1234: "
        "orders +1,200 ~8, 2 dead letters"
    )


def test_a_batch_in_json_has_the_position_without_definitions_of_tables() -> None:
    shown = json.loads(format_json_line("shop", a_batch({"insert": 1})))
    assert set(shown["progress"]) == {"position", "newest", "caught_up"}
    assert json.loads(shown["progress"]["position"]) == json.loads(POSITION.text)
    assert (shown["source"], shown["count"], shown["behind"]) == ("shop", 1, None)
    assert shown["tables"][0]["rows"] == {"insert": 1}
    assert shown["lag_seconds"] >= 60


def test_batches_are_lines_where_the_output_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(["shop"], as_json=False) as say:
        say("shop", a_batch({"insert": 1}))
        say("shop", a_batch({}))
    assert len(capsys.readouterr().out.splitlines()) == 1
    with show_progress(["shop"], as_json=True) as say:
        say("shop", a_batch({}))
    assert json.loads(capsys.readouterr().out)["count"] == 0


def test_a_line_has_the_time_of_its_batch_and_a_failure_is_reported_once() -> None:
    lines: list[str] = []
    writer = LineWriter(lines.append)
    down = replace(a_batch({}).progress, failure=Failure("db1 does not answer", datetime.now(timezone.utc)))
    for batch in (replace(a_batch({}), progress=down), replace(a_batch({}), progress=down), a_batch({"insert": 1})):
        writer.write_line("shop", batch)
    writer.write_line("shop", replace(a_batch({}), progress=down))
    assert [re.sub(r"^\d\d:\d\d:\d\d  ", "", text).split(" in ")[0] for text in lines] == [
        "shop: db1 does not answer",
        "shop: 1 events",
        "shop: db1 does not answer",
    ]
    assert all(re.match(r"\d\d:\d\d:\d\d  ", text) for text in lines)


def test_totals_of_a_source_count_rows_by_table_and_the_rate_of_late() -> None:
    totals = Totals()
    assert totals.describe_totals(0) == "no events yet"
    totals.add_batch(a_batch({"insert": 100}, seconds=2), now=2)
    assert totals.compute_rate(2) == 50
    totals.add_batch(a_batch({"insert": 100, "delete": 50}, dead=1, seconds=1), now=12)
    assert totals.compute_rate(12.5) == pytest.approx(151 / 1.5)
    assert re.sub(r"[\d.]+ s behind", "N s behind", totals.describe_totals(12)) == (
        "251 events, 151/s, N s behind, 1 dead letter, at b.000003:1234, orders +200 -50"
    )


@pytest.mark.parametrize(("width", "shown"), [(80, "other: no events yet"), (18, "other: no events …")])
def test_a_terminal_has_one_line_per_source_that_is_overwritten(width: int, shown: str) -> None:
    output = io.StringIO()
    with show_in_place(
        ["shop", "other"], Console(file=output, force_terminal=True, width=width, color_system=None)
    ) as say:
        for _ in range(3):
            say("shop", a_batch({"insert": 7}))
    written = output.getvalue().split("\x1b[1A\x1b[2K")
    assert len(written) > 3
    first, second, _ = written[-1].splitlines()
    assert first.startswith("shop: 21 events")
    assert second == shown


def test_counts_of_actions_come_in_one_order_whatever_was_counted_first() -> None:
    assert format_counts({"delete": 1, "update": 2000, "upsert": 0, "insert": 3}) == "+3 ~2,000 -1"


def test_a_table_that_a_load_publishes_in_several_steps_stands_once_in_the_line() -> None:
    batch = a_batch({"insert": 1, "delete": 2})
    batch = replace(batch, tables=(*a_batch({}, 1).tables, *batch.tables, *batch.tables))
    assert format_line("shop", batch).endswith(": orders +2 -4, 1 dead letter")
