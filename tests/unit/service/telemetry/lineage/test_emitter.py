"""Lineage of refreshes: what is sent, and that no refresh waits for it or fails by it."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde

from arctic_runtime.errors import CatalogError, ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.service.refreshing.refresh_task import RefreshResult, Report
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.telemetry.configured import is_lineage_sent
from arctic_runtime.service.telemetry.lineage.configured import build_lineage_emitter
from arctic_runtime.service.telemetry.lineage.emitter import JobIdentity, LineageEmitter
from arctic_runtime.service.telemetry.lineage.observed import ModelLineage, observe_lineage
from arctic_runtime.service.telemetry.lineage.parent_run import PARENT_VARIABLE, ROOT_VARIABLE, read_parent_run
from arctic_runtime.thresholds import LineageThresholds

IDENTITY = JobIdentity("warehouse", "shop")
BEGAN = datetime(2026, 11, 25, 12, 0, 0, 500_000, tzinfo=timezone.utc)
SQL = "select o.id, upper(p.note) as note from ods o join plain p on o.id = p.id where o.note <> 'x'"


def t(name: str) -> TableName:
    return TableName("lake", "dwd", name)


def followed(sql: str = SQL, name: str = "dwd", **config: Any) -> FollowedModel:
    return FollowedModel(Model(t(name), sql, ModelConfig(("id",), **config)), f"model.shop.{name}")


def report(status: Any = "refreshed", error: str = "", model: FollowedModel | None = None, **rows: int) -> Report:
    outcome = Outcome("incremental", "CHANGES", rows=rows, version=77, consumed={"lake.dwd.ods": 55})
    done = RefreshResult(Refreshed(outcome)) if status == "refreshed" else None
    return Report(model or followed(), status, BEGAN, 1.5, done, error)


@dataclass
class Receiver:
    """Takes what a client would send; each `answer` may wait or raise."""

    answer: Any = lambda event: None
    events: list[dict[str, Any]] = field(default_factory=list)
    closed: bool = False

    def emit(self, event: RunEvent) -> None:
        self.answer(event)
        self.events.append(json.loads(Serde.to_json(event)))

    def close(self, timeout: float = -1.0) -> bool:
        self.closed = True
        return True


def sent(
    receiver: Receiver, *reports: Report, observe: Any = lambda _: ModelLineage(), **thresholds: float
) -> list[str]:
    """Warnings, after all of these were sent."""
    warnings: list[str] = []
    limits = replace(LineageThresholds(), **thresholds)
    with LineageEmitter(IDENTITY, observe, warnings.append, limits, receiver) as emitter:
        for one in reports:
            emitter(one)
    return warnings


def test_a_refresh_is_a_run_with_a_start_and_an_end() -> None:
    receiver = Receiver()
    assert sent(receiver, report(insert=3, update=2)) == []
    started, ended = receiver.events

    assert (started["eventType"], ended["eventType"]) == ("START", "COMPLETE")
    assert started["run"]["runId"] == ended["run"]["runId"]
    assert (started["eventTime"], ended["eventTime"]) == (
        "2026-11-25T12:00:00.500+00:00",
        "2026-11-25T12:00:02.000+00:00",
    )
    assert (ended["job"]["namespace"], ended["job"]["name"]) == ("warehouse", "shop.dwd.dwd")
    assert ended["job"]["facets"]["sql"]["query"] == SQL
    assert receiver.closed


def test_a_failure_tells_why_without_secrets() -> None:
    receiver = Receiver()
    sent(receiver, report("failed", "no connection to postgresql://me:hunter2@host/db"))
    failed = receiver.events[1]

    assert failed["eventType"] == "FAIL"
    assert failed["run"]["facets"]["errorMessage"]["message"] == "no connection to postgresql://me:***@host/db"


def test_what_changed_nothing_is_not_sent() -> None:
    receiver = Receiver()
    sent(receiver, report("unchanged"), report("conflict"), report("skipped"))

    assert receiver.events == []


def test_two_refreshes_are_two_runs() -> None:
    receiver = Receiver()
    later = replace(report(), began=BEGAN.replace(second=1))
    sent(receiver, report(), later, replace(report(), followed=followed(name="ods")))

    assert len({event["run"]["runId"] for event in receiver.events}) == 3


def test_a_receiver_that_does_not_answer_holds_up_nothing() -> None:
    """Reports beyond the limit are left out, and the end of the service does not wait for ever."""
    never = threading.Event()
    receiver = Receiver(lambda event: never.wait(60))
    warnings = sent(receiver, *[report()] * 50, queued_reports=2, close_seconds=0.05)
    never.set()

    assert len(warnings) == 1
    assert "2 events wait already" in warnings[0]


def test_a_receiver_that_refuses_is_reported_once_until_it_takes_events_again() -> None:
    answers = iter([OSError("refused"), OSError("refused"), None, None, OSError("refused")])

    def answer(event: RunEvent) -> None:
        error = next(answers)
        if error is not None:
            raise error

    warnings = sent(Receiver(answer), *[report()] * 4)

    assert len(warnings) == 2
    assert "OSError: refused" in warnings[0]


def test_a_failure_is_sent_although_the_catalog_does_not_answer() -> None:
    def observe(_: FollowedModel) -> ModelLineage:
        raise CatalogError("no answer")

    receiver = Receiver()
    assert sent(receiver, report("failed", "no answer"), observe=observe) == []
    assert [event["eventType"] for event in receiver.events] == ["START", "FAIL"]


# With a catalog


def test_datasets_tell_schema_versions_and_lineage_of_columns(shop: Any) -> None:
    warehouse, _ = shop
    receiver = Receiver()
    assert sent(receiver, report(insert=3, update=2), observe=partial(observe_lineage, warehouse.reader)) == []
    started, ended = receiver.events
    ods, plain = ended["inputs"]
    (output,) = ended["outputs"]
    folder = str(warehouse.directory)

    assert started["outputs"] == []
    assert (ods["namespace"], ods["name"]) == ("file", f"{folder}/dwd/ods")
    assert ods["facets"]["symlinks"]["identifiers"] == [
        {"namespace": f"file:{folder}", "name": "dwd.ods", "type": "TABLE"}
    ]
    assert ods["facets"]["version"]["datasetVersion"] == "55"
    assert [(field["name"], field["type"]) for field in ods["facets"]["schema"]["fields"]] == [
        ("id", "bigint"),
        ("note", "string"),
    ]
    assert output["facets"]["version"]["datasetVersion"] == "77"
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 5
    lineage = output["facets"]["columnLineage"]
    assert uses(lineage["fields"]["id"]["inputFields"]) == {(ods["name"], "id"): [("DIRECT", "IDENTITY", False)]}
    assert uses(lineage["fields"]["note"]["inputFields"]) == {
        (plain["name"], "note"): [("DIRECT", "TRANSFORMATION", False)]
    }
    assert uses(lineage["dataset"]) == {
        (ods["name"], "id"): [("INDIRECT", "JOIN", False)],
        (ods["name"], "note"): [("INDIRECT", "FILTER", False)],
        (plain["name"], "id"): [("INDIRECT", "JOIN", False)],
    }


def uses(inputs: list[dict[str, Any]]) -> dict[tuple[str, str], list[tuple[str, str, bool]]]:
    return {
        (table["name"], table["field"]): [
            (use["type"], use["subtype"], use["masking"]) for use in table["transformations"]
        ]
        for table in inputs
    }


def test_a_model_of_events_has_lineage_of_the_columns_that_its_source_has(shop: Any) -> None:
    warehouse, _ = shop
    sql = "select id, note, _action as action from `changes(lake.dwd.ods)` where _action <> 'delete'"
    lineage = observe_lineage(warehouse.reader, followed(sql, input="changes", sequence_by="id"))

    assert list(lineage.inputs) == [t("ods")]
    assert lineage.columns is not None
    assert {
        name: {str(source.table) + "." + source.column for source in uses}
        for name, uses in lineage.columns.columns.items()
    } == {
        "id": {"lake.dwd.ods.id"},
        "note": {"lake.dwd.ods.note"},
    }
    assert lineage.columns.rows == {}


def test_a_query_that_is_not_understood_has_its_tables(shop: Any) -> None:
    warehouse, _ = shop
    lineage = observe_lineage(warehouse.reader, followed("select id, rand() as note from ods"))

    assert list(lineage.inputs) == [t("ods")]
    assert lineage.columns is None


def test_a_model_without_a_text_has_the_tables_that_dbt_knows(shop: Any) -> None:
    warehouse, _ = shop
    model = FollowedModel(followed("").model, "model.shop.dwd", frozenset({t("ods"), t("nothing")}))

    assert list(observe_lineage(warehouse.reader, model).inputs) == [t("ods")]


def test_a_table_that_does_not_exist_yet_has_no_output(shop: Any) -> None:
    warehouse, _ = shop
    receiver = Receiver()
    new = followed(name="new")
    sent(receiver, report("failed", "no", model=new), observe=partial(observe_lineage, warehouse.reader))

    assert receiver.events[1]["outputs"] == []
    assert len(receiver.events[1]["inputs"]) == 2


def test_a_model_is_looked_at_once_and_again_when_its_query_changes(shop: Any) -> None:
    warehouse, _ = shop
    asked: list[str] = []

    def observe(model: FollowedModel) -> ModelLineage:
        asked.append(model.model.sql)
        return observe_lineage(warehouse.reader, model)

    changed = followed("select id, note from ods")
    sent(Receiver(), report(), report(), report(model=changed), observe=observe)
    assert asked == [SQL, changed.model.sql]


# By OpenLineage's own configuration


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"OPENLINEAGE_URL": "http://marquez:5000"}, True),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "console"}, True),
        ({"OPENLINEAGE_CONFIG": "ol.yml"}, True),
        ({"OPENLINEAGE_URL": "http://marquez:5000", "OPENLINEAGE_DISABLED": "True"}, False),
        ({"OPENLINEAGE_NAMESPACE": "x"}, False),
    ],
)
def test_lineage_is_sent_only_where_openlineage_is_configured(
    environment: dict[str, str], expected: bool, tmp_path: Path
) -> None:
    assert is_lineage_sent(environment, (tmp_path,)) is expected
    (tmp_path / "openlineage.yml").write_text("transport: {type: console}")
    assert is_lineage_sent(environment, (tmp_path,)) is ("OPENLINEAGE_DISABLED" not in environment)


def test_events_go_where_openlineages_configuration_says(
    shop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse, _ = shop
    (tmp_path / "openlineage.yml").write_text("transport: {type: file, log_file_path: events.json, append: true}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "production")
    monkeypatch.setenv(PARENT_VARIABLE, f"air/dag.task/{RUN_OF_TASK}")
    with build_lineage_emitter(warehouse.reader, "shop", pytest.fail) as emitter:
        emitter(report())
    events = [json.loads(line) for line in (tmp_path / "events.json").read_text().splitlines()]

    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    assert events[1]["job"]["namespace"] == "production"
    assert events[0]["run"]["facets"]["parent"]["run"]["runId"] == RUN_OF_TASK


def identify_run(run: dict[str, Any]) -> tuple[str, str, str]:
    return run["job"]["namespace"], run["job"]["name"], run["run"]["runId"]


RUN_OF_TASK, RUN_OF_DAG = "01994d1e-6b6c-7c5a-8d7e-111111111111", "01994d1e-6b6c-7c5a-8d7e-222222222222"


@pytest.mark.parametrize(
    ("more", "root"),
    [({}, ("air", "dag.task", RUN_OF_TASK)), ({ROOT_VARIABLE: f"air/dag/{RUN_OF_DAG}"}, ("air", "dag", RUN_OF_DAG))],
    ids=["parent", "parent and root"],
)
def test_runs_belong_to_the_run_of_the_scheduler_that_started_the_command(
    more: dict[str, str], root: tuple[str, str, str]
) -> None:
    receiver, environment = Receiver(), {PARENT_VARIABLE: f"air/dag.task/{RUN_OF_TASK}", **more}
    identity = replace(IDENTITY, parent=read_parent_run(environment, "urn:test"))
    with LineageEmitter(identity, lambda _: ModelLineage(), pytest.fail, LineageThresholds(), receiver) as emitter:
        emitter(report("failed", "no disk"))
    parents = [event["run"]["facets"]["parent"] for event in receiver.events]
    assert list(map(identify_run, parents)) == [("air", "dag.task", RUN_OF_TASK)] * 2
    assert [identify_run(parent["root"]) for parent in parents] == [root] * 2
    assert "errorMessage" in receiver.events[1]["run"]["facets"]


def test_without_a_scheduler_runs_have_no_parent() -> None:
    assert read_parent_run({ROOT_VARIABLE: f"air/dag/{RUN_OF_DAG}", PARENT_VARIABLE: ""}, "urn:test") is None


@pytest.mark.parametrize(
    "written", ["x", "air/dag.task", "air/dag.task/1", f"/dag/{RUN_OF_TASK}", f"air/{RUN_OF_TASK}"]
)
@pytest.mark.parametrize("variable", [PARENT_VARIABLE, ROOT_VARIABLE])
def test_a_parent_that_can_not_be_read_is_refused_by_its_name(variable: str, written: str) -> None:
    environment = {PARENT_VARIABLE: f"air/dag.task/{RUN_OF_TASK}", variable: written}
    with pytest.raises(ConfigError, match=f"{variable} can't be used"):
        read_parent_run(environment, "urn:test")


def test_a_configuration_that_can_not_be_used_is_refused(
    shop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse, _ = shop
    (tmp_path / "openlineage.yml").write_text("transport: {type: pigeon}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="OpenLineage's configuration can't be used"):
        build_lineage_emitter(warehouse.reader, "shop", pytest.fail)
