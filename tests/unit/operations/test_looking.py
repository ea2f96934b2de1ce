"""What `arctic explain` says of the events of a model, as the documentation shows it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import pytest

import arctic_runtime
from arctic_runtime.catalog.lookup import Lookup
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations import looking
from arctic_runtime.operations.looking import LOOKUP, describe_next_run
from arctic_runtime.operations.operation import OperationContext
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.plan.refresh.decide import Decision
from arctic_runtime.refresh_planner import Plan
from arctic_runtime.service.http.encoding import encode_json

PAGE = Path(arctic_runtime.__file__).parents[1] / "docs" / "concepts.md"
EVENTS = {"primary_key": "customer_id", "input": "changes"}


def explained(**config: Any) -> list[str]:
    model = Model(TableName("lake", "dwd", "customers"), "select 1", read_configuration({**EVENTS, **config}, "m"))
    return describe_next_run(model, Plan(Decision("unchanged", "NOTHING_NEW"), ()))[2:]


def test_it_tells_which_columns_an_event_has() -> None:
    shown = PAGE.read_text(encoding="utf-8").split("```text\n", 1)[1].split("```", 1)[0]
    lines = explained(
        sequence_by={"profile_at": ["name", "email"]},
        columns_to_update="changed",
        unavailable_value="__debezium_unavailable_value",
    )
    assert lines == shown.splitlines()
    assert explained(sequence_by="lsn") == []


def test_it_tells_which_rows_are_kept_as_they_are() -> None:
    assert explained(frozen_where="day < current_date - 90") == [
        "  keeps rows as they are where day < current_date - 90"
    ]


def test_a_row_that_is_looked_up_has_hashes_for_masked_values_only_where_values_are_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = {"id": 1, "email": "ana@shop", "api_key": "k-1", "_before": {"email": "eva@shop", "city": "Rome"}}
    monkeypatch.setattr(looking, "look_up_row", lambda *_: Lookup(row, 1, 2))
    model = Model(TableName("lake", "dwd", "m"), "", read_configuration({"primary_key": "id"}, "m"))
    model = replace(model, masks={"email": True})
    context = OperationContext(cast(Any, None), cast(Any, None), ())
    assert LOOKUP.perform(context, [model], {"key": ("1",)}).data["row"] == row
    answer = LOOKUP.perform(replace(context, hides_values=True), [model], {"key": ("1",)})
    assert {"ana@shop", "eva@shop", "k-1"}.isdisjoint(str(answer).split())
    assert "shop" not in str(answer.data)
    assert answer.data["row"]["_before"]["city"] == "Rome"
    assert answer.data["row"]["email"].startswith("masked:")


def test_a_row_that_is_looked_up_keeps_microseconds_and_the_zone_or_its_absence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = datetime(2024, 3, 1, 23, 59, 59, 123456)
    row = {"at": at.replace(tzinfo=timezone.utc), "local": at, "ratio": float("nan"), "raw": b"\x00", "day": at.date()}
    monkeypatch.setattr(looking, "look_up_row", lambda *_: Lookup(row, 1, 2))
    model = Model(TableName("lake", "dwd", "m"), "select 1", read_configuration({"primary_key": "id"}, "m"))
    context = OperationContext(cast(Any, None), cast(Any, None), ())
    assert LOOKUP.perform is not None
    answer = LOOKUP.perform(context, [model], {"key": ("1",)})
    expected = {
        "at": "2024-03-01T23:59:59.123456Z",
        "local": "2024-03-01T23:59:59.123456",
        "ratio": "NaN",
        "raw": "00",
        "day": "2024-03-01",
    }
    assert json.loads(json.dumps(answer.data))["row"] == expected
    assert json.loads(encode_json(answer))["data"]["row"] == expected


def test_it_says_why_a_key_is_one_that_nobody_configured() -> None:
    model = Model(TableName("lake", "dwd", "m"), "select 1", read_configuration({"primary_key": ["a", "b"]}, "m"))
    plan = Plan(Decision("unchanged", "NOTHING_NEW"), ())
    assert len(describe_next_run(model, plan)) == 2
    found = describe_next_run(replace(model, key_origin="test `unique` and not null"), plan)
    assert found[2:] == ["  key: a, b, from test `unique` and not null"]
