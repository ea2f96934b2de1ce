"""Which part of a table is computed anew, from which versions, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.errors import ArcticError, ConfigError, PlanError
from arctic_runtime.ivm.algebra.tree import Filter, Scan, walk_tree
from arctic_runtime.model.properties import DECLARED, FORGOTTEN, RESTORED
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.plan.refresh.restate import Restatement, plan_restatement
from tests.unit.plan.refresh.test_decide import READ_ONE, UP, a_model, v
from tests.unit.plan.refresh.test_edits import OLD, reading, source, table

LIMITED = f"select * from ({OLD}) limit 9"


def plan(where: str = "v > 2", sql: str = OLD, upstreams: Upstreams | None = None, **config: Any) -> Restatement:
    model = a_model(sql)
    model = replace(model, config=replace(model.config, **config))
    return plan_restatement(model, table(model), upstreams or reading(), where)


def test_sources_are_read_at_the_versions_of_the_last_run() -> None:
    planned = plan(upstreams=reading(source(1, 2)))
    assert planned.pinned is not None
    assert planned.pinned.windows == {str(UP): Window(str(UP), v(1), v(1))}
    assert (planned.newer, planned.last.offsets) == ((str(UP),), READ_ONE)
    assert planned.describe_reads() == (f"reads {UP} as of version {v(1).snapshot}",)


def test_the_predicate_is_pushed_down_to_the_scan() -> None:
    planned = plan("v > 2 and id < 7", "select id, v from ods.up", reading())
    assert planned.pinned is not None
    tree = planned.pinned.select_part(planned.predicate, {"v": "bigint"})
    (pushed,) = [node for node in walk_tree(tree) if isinstance(node, Filter)]
    assert isinstance(pushed.child, Scan)
    assert "CAST" in pushed.condition.sql(dialect="spark")


@pytest.mark.parametrize(("where", "may_move"), [("id > 2", False), ("ID > 2 and v > 1", True), ("true", False)])
def test_rows_can_leave_the_part_only_by_a_column_outside_of_the_key(where: str, may_move: bool) -> None:
    assert plan(where).may_move_rows(("id",)) is may_move


def test_a_query_that_the_analysis_does_not_know_is_computed_over_the_versions_of_the_last_run_alone() -> None:
    planned = plan(sql=LIMITED)
    assert (planned.pinned, planned.newer) == (None, ())
    assert planned.because
    with pytest.raises(PlanError, match=rf"(?s){UP} at the version that the last run read.*dbt run -s"):
        plan(sql=LIMITED, upstreams=reading(source(1, 2)))


def test_a_version_that_is_not_kept_can_not_be_restated() -> None:
    with pytest.raises(PlanError, match=r"(?s)no longer keeps the version.*dbt run -s"):
        plan(upstreams=reading(source(3, 4, form=2)))


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (a_model("select id, v from ods.up"), PlanError, "query.*changed"),
        (replace(a_model(OLD), ingested_from="shop"), ConfigError, "ingested from shop"),
        (replace(a_model(OLD), config=replace(a_model(OLD).config, history="versions")), ConfigError, "history"),
    ],
)
def test_other_tables_are_refused_by_name(model: Model, error: type[ArcticError], message: str) -> None:
    with pytest.raises(error, match=message):
        plan_restatement(model, table(a_model(OLD)), reading(), "v > 2")


EVENTS = a_model("select id, v from `changes(lake.ods.up)`", input="changes")


def plan_events(
    upstreams: Upstreams, model: Model = EVENTS, properties: dict[str, str] | None = None, **summary: str
) -> Restatement:
    state = table(EVENTS, **summary)
    assert state.changes is not None
    changes = replace(state.changes, properties={**state.changes.properties, **(properties or {})})
    return plan_restatement(model, replace(state, changes=changes), upstreams, "v > 2")


def test_events_are_folded_again_up_to_the_version_that_the_last_run_read() -> None:
    planned = plan_events(reading(source(1, 2)))
    assert planned.events == {str(UP): v(1)}
    assert planned.describe_reads() == (f"reads all events of {UP} as of version {v(1).snapshot}",)
    assert not planned.reads_present


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"upstreams": reading(source(2, 3))}, "up may no longer have all events"),
        ({"upstreams": reading(source(1, 2, operations={2: "delete"}))}, "may no longer have all events"),
        ({"upstreams": reading(replace(source(1), trimmed=1))}, "may no longer have all events"),
        ({"upstreams": reading(source(1, table="uuid-2"))}, "no longer keeps the version"),
        ({"upstreams": reading(), RESTORED: "5"}, "restored to an older version"),
        ({"upstreams": reading(), DECLARED: "5"}, "rows were declared"),
        ({"upstreams": reading(), "properties": {FORGOTTEN: "5"}}, "rows were forgotten"),
    ],
)  # fmt: skip
def test_events_that_may_be_gone_are_not_folded_again(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=rf"(?s)can't be restated.*{message}.*arctic overwrite.*--full-refresh"):
        plan_events(**arguments)


def test_rows_by_other_event_rules_are_not_folded_again_before_a_run() -> None:
    model = replace(EVENTS, config=replace(EVENTS.config, delete_when="v < 0"))
    with pytest.raises(PlanError, match=r"(?s)delete_when changed.*dbt run -s orders` first"):
        plan_events(reading(), model)
