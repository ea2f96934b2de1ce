"""Which models a run of dbt for a window of time restates, and which it only brings up to date."""

from __future__ import annotations

from typing import Any

import pytest

from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.plan.refresh.restate import EventsGone
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.spark.refresh import restate
from dbt.adapters.arctic.materialize import maintain
from tests.unit.plan.refresh.test_decide import CHANGES


def test_a_model_whose_events_are_gone_is_only_brought_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise EventsGone("orders can't be restated.", actual="ods.up may no longer have all events")

    monkeypatch.setattr(restate, "restate_part", refuse)
    monkeypatch.setattr("arctic_runtime.spark.refresh.run.Refresh.from_model", lambda *_: None)
    done = Refreshed(outcome=Outcome("incremental", "CHANGES"))
    warnings: list[str] = []
    monkeypatch.setattr(maintain.logger, "warning", warnings.append)
    assert maintain.restate_rows(CHANGES, None, None, done, "day > 1") is done  # type: ignore[arg-type]
    assert "ods.up may no longer have all events" in warnings[0]
