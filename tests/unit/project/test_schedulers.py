"""Files for schedulers: how the sensor of Airflow reads the answers of the service, and what the folders agree on."""

from __future__ import annotations

import importlib.util
import json
import re
from datetime import datetime, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.freshness import Freshness, FreshnessState
from arctic_runtime.service.http.encoding import encode_json
from arctic_runtime.service.view.live_data import TableOverview
from dbt.adapters.arctic.materialize.maintain import ArcticResponse

DEPLOY = Path(__file__).parents[3] / "deploy"
NOON = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)


def load_module() -> ModuleType:
    file = DEPLOY / "airflow" / "plugins" / "arctic_freshness.py"
    spec = importlib.util.spec_from_file_location("arctic_freshness", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FRESHNESS = load_module()


def build_answer(*tables: TableOverview) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(encode_json({"event": 1, "tables": list(tables)}))
    return answer


def build_table(name: str, state: FreshnessState = "fresh", schema: str = "dws", **given: Any) -> TableOverview:
    freshness = Freshness(state, NOON, **given)
    return TableOverview(TableName("lake", schema, name), "model", state, 0, freshness=freshness)


def describe_late(*tables: TableOverview, as_of: datetime | None = None) -> list[str]:
    lines: list[str] = FRESHNESS.describe_late_tables(FRESHNESS.select_tables(build_answer(*tables), []), as_of)
    return lines


def test_a_table_is_late_until_it_has_the_changes_up_to_the_time_that_is_asked() -> None:
    table = build_table("spend")
    assert describe_late(table) == []
    assert describe_late(table, as_of=NOON) == []
    assert describe_late(table, as_of=NOON.replace(hour=13)) == [
        "lake.dws.spend is fresh, as of 2026-11-25T12:00:00.000Z"
    ]


@pytest.mark.parametrize(("state", "is_late"), [("fresh", False), ("delayed", False), ("behind", True), ("held", True)])
def test_without_a_time_a_table_may_lag_as_its_target_lag_allows(state: FreshnessState, is_late: bool) -> None:
    assert bool(describe_late(build_table("spend", state))) is is_late


def test_a_late_table_has_the_reason_and_what_to_do() -> None:
    (line,) = describe_late(
        build_table("spend", "behind", reason="shop is not ingested", action="start `arctic serve`")
    )
    assert line.endswith(": shop is not ingested\n  what to do: start `arctic serve`")


@pytest.mark.parametrize("name", ["spend", "dws.spend", "lake.dws.spend"])
def test_a_table_is_named_with_or_without_its_catalog_and_schema(name: str) -> None:
    answer = build_answer(build_table("spend"), build_table("customer_spend"))
    (table,) = FRESHNESS.select_tables(answer, [name])
    assert table["table"] == "lake.dws.spend"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("sales", "has no table sales.\n  found: lake.dwd.spend, lake.dws.spend"), ("spend", "may be one of")],
)
def test_a_name_of_no_table_or_of_two_is_refused_with_what_there_is(name: str, expected: str) -> None:
    answer = build_answer(build_table("spend"), build_table("spend", schema="dwd"))
    with pytest.raises(FRESHNESS.ServiceError, match=re.escape(expected)) as refused:
        FRESHNESS.select_tables(answer, [name])
    assert "what to do:" in str(refused.value)


def test_both_folders_have_the_same_program_that_ends_dbt_with_its_task() -> None:
    assert (DEPLOY / "airflow" / "dbt").read_text() == (DEPLOY / "dagster" / "dbt").read_text()


def test_the_metadata_of_dagster_are_fields_of_a_run() -> None:
    (listed,) = re.findall(r"^SHOWN = \((.*)\)$", (DEPLOY / "dagster" / "definitions.py").read_text(), re.MULTILINE)
    assert set(re.findall(r'"(\w+)"', listed)) <= set(ArcticResponse.__dataclass_fields__)
