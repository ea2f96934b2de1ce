"""Edits that go forward: rows stay, later changes are followed without aggregate state, and nothing is recomputed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError, PlanError
from arctic_runtime.ivm.algebra.refusal import Refusal
from arctic_runtime.ivm.strategies.aggregate_state import AggregateState
from arctic_runtime.model.forward_edit import ForwardEdit
from arctic_runtime.model.properties import FORWARD_EDIT, SESSION
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.plan.preview.run_cost import classify_way
from arctic_runtime.plan.refresh.decide import Decision, decide_refresh
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.plan.refresh.session_changes import SessionState
from tests.unit.plan.refresh.test_decide import OTHER, REFRESH, RUN_AGAIN, UP, a_model, v
from tests.unit.plan.refresh.test_edits import NEW, OLD, reading, source, table

LEFT = ForwardEdit(v(0, "changes"), 1_800_000_000_000, 3)
GROUPED = "select v as id, count(*) as n from ods.up group by v"
RANKED = "select id, rank() over (order by v, id) as v from ods.up"


def forward(sql: str = NEW, **config: Any) -> Model:
    return a_model(sql, on_query_change="forward", **config)


def left(sql: str = NEW, **summary: str) -> TableState:
    """A table that has rows of earlier queries, and has followed `sql` since."""
    return table(a_model(sql), **{FORWARD_EDIT: LEFT.encode(), **summary})


def decide(
    model: Model, state: TableState, upstreams: Upstreams | None = None, request: Request = RUN_AGAIN
) -> Decision:
    return decide_refresh(model, state, upstreams or reading(source(1, 2)), request)


def test_an_edit_leaves_the_rows_and_follows_later_changes() -> None:
    joined = "select u.id, u.v, o.w from ods.up u join ods.other o on o.id = u.id"
    upstreams = replace(reading(source(1, 2), source(5, 6, name=OTHER)), clock=7_000_000)
    decision = decide(forward(joined), table(a_model(OLD)), upstreams)
    assert (decision.mode, decision.reason, decision.has_later_changes) == ("incremental", "FORWARD", True)
    assert decision.windows == {str(UP): Window(str(UP), v(1), v(1)), str(OTHER): Window(str(OTHER), v(6), v(6))}
    assert decision.forward == ForwardEdit(v(1, "changes"), 7_000, 3)
    assert "the rows stay" in decision.because
    assert (classify_way(decision), decision.leaves_rows) == ("nothing", True)


def test_neither_the_own_result_nor_an_earlier_version_takes_the_place_of_the_rows() -> None:
    assert decide(a_model(NEW), table(a_model(OLD))).reason == "EDITED"
    assert decide(forward(), table(a_model(OLD))).reason == "FORWARD"
    assert decide(a_model(OLD), left(NEW)).reason == "QUERY_CHANGED"


@pytest.mark.parametrize(
    ("model", "state", "upstreams", "request_", "because"),
    [
        (forward(RANKED), table(a_model(OLD)), reading(source(1, 2)), RUN_AGAIN, "EVERYTHING_AFFECTED"),
        (forward(RANKED), table(a_model(OLD)), reading(), RUN_AGAIN, "EVERYTHING_AFFECTED"),
        (forward(), table(a_model(OLD)), reading(source(3, form=2)), RUN_AGAIN, "UPSTREAM_EXPIRED"),
        (forward(), table(a_model(OLD)), replace(reading(), states={str(UP): None}), RUN_AGAIN, "SOURCE_UNKNOWN"),
        (forward(), table(a_model(OLD)), reading(unstable=("RAND",)), RUN_AGAIN, "RAND"),
        (forward(), table(a_model(OLD)), reading(parsed=False), RUN_AGAIN, "UNPARSED"),
        (forward(), table(a_model(OLD)), reading(day_columns=frozenset({"v"})), RUN_AGAIN, "texts to times"),
        (forward(), table(a_model(OLD)), reading(), Request(given_up=Refusal("INCREMENT_FAILED", "oh")), "oh"),
        (forward(), table(a_model(OLD)), replace(reading(), settings={"spark.sql.x": "1"}), RUN_AGAIN, "settings"),
        (forward(), replace(table(a_model(OLD)), base=None), reading(), RUN_AGAIN, "no base"),
        (forward(), left(), reading(unstable=("RAND",)), RUN_AGAIN, "RAND"),
        (forward(), left(), reading(source(3, form=2)), RUN_AGAIN, "UPSTREAM_EXPIRED"),
        (forward(), left(), reading(source(1, 2)), Request(given_up=Refusal("INCREMENT_FAILED", "oh")), "oh"),
        (forward(), left(), replace(reading(), settings={"spark.sql.x": "1"}), RUN_AGAIN, "settings"),
        (forward(refresh="strict"), left(), reading(source(3, form=2)), RUN_AGAIN, "UPSTREAM_EXPIRED"),
    ],
)  # fmt: skip
def test_rows_that_stay_are_never_recomputed_without_a_request(
    model: Model, state: TableState, upstreams: Upstreams, request_: Request, because: str
) -> None:
    with pytest.raises(
        PlanError, match=rf"(?s)on_query_change: forward.*{because}.*--full-refresh -s orders.*recompute"
    ):
        decide(model, state, upstreams, request_)
    assert decide(model, state, upstreams, REFRESH).reason == "FULL_REFRESH"


def test_another_session_is_refused_as_well_unless_rows_are_kept() -> None:
    request = Request(session=SessionState("4.1.0", {}))
    old = table(a_model(OLD), **{SESSION: SessionState("4.0.0", {}).encode()})
    with pytest.raises(PlanError, match=r"Spark 4\.0 -> 4\.1"):
        decide(forward(), old, request=request)
    assert decide(forward(on_session_change="keep"), old, request=request).reason == "FORWARD"


def test_settings_alone_are_no_edit() -> None:
    upstreams = replace(reading(), settings={"spark.sql.x": "1"})
    assert decide(forward(OLD), table(a_model(OLD)), upstreams).reason == "QUERY_CHANGED"


def test_later_changes_are_followed_whatever_they_cost_and_without_aggregate_state() -> None:
    assert decide(forward(), left(), reading()).mode == "unchanged"
    large = reading(replace(source(1, 2), rows=10**9))
    kept = decide(a_model(GROUPED, refresh="incremental"), table(a_model(GROUPED)), large)
    assert kept.increment is not None
    assert isinstance(kept.increment.maintenance, AggregateState)
    for model, state in ((forward(GROUPED), left(GROUPED)), (forward(GROUPED), table(a_model(OLD)))):
        assert decide(model, state, large).mode == "incremental"
    followed = decide(forward(GROUPED), left(GROUPED), large)
    assert followed.increment is not None
    assert not isinstance(followed.increment.maintenance, AggregateState)


def test_the_key_set_back_recomputes_the_rows_that_were_left() -> None:
    decision = decide(a_model(NEW), left(), reading())
    assert (decision.mode, decision.reason) == ("full", "QUERY_CHANGED")
    assert "rows of earlier queries" in decision.because


@pytest.mark.parametrize("config", [{"input": "changes"}, {"refresh": "full"}, {"on_failed_row": "quarantine"}])
def test_what_can_not_go_forward_is_refused_when_it_is_configured(config: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"`on_query_change: forward`"):
        read_configuration({"primary_key": "id", "on_query_change": "forward", **config}, "m")
