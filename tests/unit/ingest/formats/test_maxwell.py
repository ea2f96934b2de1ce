"""Maxwell's tables are declared, and its events of rows and of bootstraps have their meaning."""

from __future__ import annotations

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.ingest.formats.maxwell import MAXWELL, build_maxwell_format


def test_columns_are_declared_by_their_types_in_mysql() -> None:
    columns = {"id": "int", "torvalds": "bigint unsigned", "c": "timestamp(6)", "s": "set('a','b')", "b": "binary(4)"}
    assert build_maxwell_format().declare(columns, ["id"]) == SourceSchema(
        (
            SourceColumn("id", "int"),
            SourceColumn("torvalds", "decimal(20,0)"),
            SourceColumn("c", "timestamp", "zoneless_timestamp"),
            SourceColumn("s", "string", "set_array"),
            SourceColumn("b", "binary", "base64", padded_to=4),
        ),
        ("id",),
    )


def test_a_type_that_maxwell_writes_wrong_is_refused_by_the_columns_name() -> None:
    with pytest.raises(ConfigError, match=r"Column at (?s:.*)modulo a day"):
        build_maxwell_format().declare({"id": "int", "at": "time"}, ["id"])
    assert build_maxwell_format().declare({"id": "int", "at": "string"}, ["id"]).columns[1] == SourceColumn(
        "at", "string"
    )


def test_events_tell_no_schema() -> None:
    assert (build_maxwell_format().read_event_schema, MAXWELL.schema) == (None, ())


def test_rows_of_a_bootstrap_are_those_of_a_snapshot_and_its_marks_say_nothing() -> None:
    assert MAXWELL.changes["bootstrap-insert"] == "read"
    assert {MAXWELL.changes[kind] for kind in ("bootstrap-start", "bootstrap-complete")} == {"ignored"}
