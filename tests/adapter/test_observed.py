"""What `dbt build` and `arctic run --once` send and write about models that succeed and fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from arctic_runtime.service.telemetry.metrics_file import parse_series
from dbt.adapters.arctic import cli
from tests.adapter.test_serve import SOURCES, feed
from tests.receivers import Receiver, receive, send_to

pytestmark = pytest.mark.in_turn

GOOD = "{{ config(materialized='arctic', primary_key='id') }} select id, id * 2 as amount from range(3)"
BROKEN = (
    "{{ config(materialized='arctic', primary_key='id') }}"
    " select id, raise_error('no answer of postgresql://me:hunter2@host/db') as amount from range(3)"
)
HOOKED = (
    "{{ config(materialized='arctic', primary_key='id', pre_hook='select * from lake.nowhere.nothing') }}"
    " select id from range(3)"
)


class TestObserved:
    @pytest.fixture(scope="class")
    def landing(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("landing") / "orders"
        folder.mkdir()
        return folder

    @pytest.fixture(scope="class")
    def models(self, landing: Path) -> dict[str, str]:
        sources = SOURCES.replace("PATH", str(landing.parent))
        return {"good.sql": GOOD, "broken.sql": BROKEN, "hooked.sql": HOOKED, "sources.yml": sources}

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, profile_target: dict[str, Any]) -> dict[str, Any]:
        return {**profile_target, "threads": 8, "telemetry": {"metrics_file": "arctic.prom"}}

    @pytest.fixture
    def receiver(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
        with receive() as receiver:
            send_to(monkeypatch, receiver.url)
            yield receiver

    def test_a_build_sends_its_spans_metrics_and_lineage_and_writes_its_file(
        self, project: Any, receiver: Receiver
    ) -> None:
        assert len(run_dbt(["build"], expect_pass=False)) == 3
        schema = project.test_schema
        command, good, broken, hooked = (
            receiver.span(name) for name in ("dbt build", "refresh good", "refresh broken", "refresh hooked")
        )

        assert {good.parent_span_id, broken.parent_span_id, hooked.parent_span_id} == {command.span_id}
        assert [span.status.code for span in (command, good, broken, hooked)] == [2, 0, 2, 2]
        assert {key.key: key.value.string_value for key in good.attributes}["dbt_arctic.mode"] == "create"
        parts = {span.name for span in receiver.spans if span.parent_span_id == good.span_id}
        assert parts, "the steps of a refresh are parts of its span"

        series = parse_series((Path(project.project_root) / "arctic.prom").read_text())
        failed = {
            labels[2]: value for (name, labels), value in series.items() if name == "arctic_model_last_run_failed"
        }
        assert failed == {f"lake.{schema}.good": 0, f"lake.{schema}.broken": 1, f"lake.{schema}.hooked": 1}
        sent = {name: value for (name, labels), value in receiver.metrics.items() if ("command", "dbt build") in labels}
        assert sent["arctic_command_last_run_failed"] == 1
        assert receiver.text.count("hunter2") == 0

        ends = {event["job"]["name"].rpartition(".")[2]: event for event in receiver.events}
        assert {name: event["eventType"] for name, event in ends.items()} == {
            "good": "COMPLETE",
            "broken": "FAIL",
            "hooked": "FAIL",
        }
        (output,) = ends["good"]["outputs"]
        assert output["outputFacets"]["outputStatistics"]["rowCount"] == 3

    def test_a_run_by_arctic_sends_the_same_and_keeps_the_series_of_other_commands(
        self, project: Any, receiver: Receiver
    ) -> None:
        run_dbt(["build", "--select", "good"])
        where = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        assert cli.main(["run", "--once", "--select", "good", "broken", *where]) == 1

        assert receiver.span("arctic run --once").status.message == "failed: broken"
        by_command = {
            labels[2]: value
            for (name, labels), value in parse_series((Path(project.project_root) / "arctic.prom").read_text()).items()
            if name == "arctic_command_last_run_failed"
        }
        assert by_command == {"dbt build": 0, "arctic run --once": 1}
        assert {event["eventType"] for event in receiver.events if event["job"]["name"].endswith("broken")} == {
            "START",
            "FAIL",
        }

    def test_ingestion_sends_its_batches_and_no_lineage(self, project: Any, receiver: Receiver, landing: Path) -> None:
        feed(landing, 1, {1: "a", 2: "b"})
        where = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        assert cli.main(["ingest", "--once", *where]) == 0

        assert receiver.span("ingest shop").parent_span_id == receiver.span("arctic ingest --once").span_id
        source = ("test", "default", "shop")
        series = parse_series((Path(project.project_root) / "arctic.prom").read_text())
        assert series["arctic_ingest_events_total", source] == 2
        assert series["arctic_ingest_rows_total", (*source, "orders", "insert")] == 2
        assert series["arctic_command_last_run_failed", ("test", "default", "arctic ingest --once")] == 0
        assert receiver.events == []
