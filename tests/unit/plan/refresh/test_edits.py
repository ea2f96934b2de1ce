# ruff: noqa: E501
"""Edits of queries: when a run derives the new rows from the table, and what it says if it can't."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.ivm.algebra.refusal import Refusal
from arctic_runtime.ivm.frontend.reads import Reads
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import GIVEN_UP, JUDGED, QUERY, QUERY_TEXT, SESSION
from arctic_runtime.model.query_text import QueryText, read_query_text
from arctic_runtime.model.state import SourceState, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.decide import Decision, decide_refresh
from arctic_runtime.plan.refresh.edits import list_former_sources
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint, hash_query_reading
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.plan.refresh.request import Request
from tests.unit.plan.refresh.test_decide import OTHER, READ_ONE, RUN_AGAIN, UP, a_model, a_source, built, v

OLD, NEW = "select id, v from ods.up where v > 1", "select id, v, v * 2 as twice from ods.up where v > 1"
COLUMNS = (Column("id", "bigint"), Column("v", "int"), Column("w", "string"))


def source(*numbers: int, name: TableName = UP, **form: Any) -> SourceState:
    return replace(a_source(*(numbers or (1,)), name=name, **form), columns=COLUMNS, key=("id",))


def reading(*sources: SourceState, **reads: Any) -> Upstreams:
    return Upstreams({str(state.name): state for state in sources or (source(),)}, Reads(**reads))


def table(
    old: Model, offsets: Mapping[str, Version] = READ_ONE, upstreams: Upstreams | None = None, **summary: str
) -> TableState:
    """A table whose last run computed the query of `old`, and stored its text."""
    known = upstreams or reading()
    said = {QUERY: compute_fingerprint(old, known), JUDGED: hash_query_reading(old, known), **summary}
    state = built(old, offsets, **said)
    assert state.changes is not None
    properties = {**state.changes.properties, QUERY_TEXT: QueryText.from_model(old, {}).encode()}
    return replace(state, changes=replace(state.changes, columns=COLUMNS[:2], properties=properties))


def decide(new: str, old: str = OLD, upstreams: Upstreams | None = None, request: Request = RUN_AGAIN) -> Decision:
    return decide_refresh(a_model(new), table(a_model(old)), upstreams or reading(), request)


def test_an_edit_is_made_at_the_versions_of_the_last_run() -> None:
    decision = decide(NEW, upstreams=reading(source(1, 2)))
    assert (decision.mode, decision.reason, decision.because) == ("incremental", "EDITED", "column twice")
    assert decision.windows == {str(UP): Window(str(UP), v(1), v(1))}
    assert decision.edit is not None
    assert decision.edit.describe_plan() == (
        "reads the rows of the table itself",
        "then follows the changes of what the query reads",
    )


def test_a_new_source_is_read_as_of_now() -> None:
    joined = "select u.id, u.v, o.w from ods.up u join ods.other o on o.id = u.id where u.v > 1"
    decision = decide(joined, upstreams=reading(source(1, 2), source(5, 6, name=OTHER)))
    assert decision.reason == "EDITED"
    assert decision.consumed == {str(UP): v(1), str(OTHER): v(6)}


def test_a_query_in_other_words_changes_no_row() -> None:
    decision = decide("with u as (select * from ods.up) select id, v from u where 1 < v")
    assert decision.edit is not None
    assert decision.edit.edit.rows is None


@pytest.mark.parametrize(
    ("new", "upstreams", "request_", "because"),
    [
        ("select id, v, w from ods.other", replace(reading(source(name=OTHER)), former={str(UP): source()}), RUN_AGAIN, "no longer reads lake.ods.up"),
        ("select id, v from ods.up", reading(source(3, 4, form=2)), RUN_AGAIN, "no longer keeps the version"),
        ("select id, v from ods.up", reading(source(1, table="uuid-2")), RUN_AGAIN, "dropped and created again"),
        (NEW, reading(source(3, 4, form=2)), RUN_AGAIN, "no longer keeps the version"),
        (NEW, reading(), Request(given_up=Refusal("INCREMENT_FAILED", "a cast failed")), "a cast failed"),
        (NEW, reading(clocks=("current_date",)), RUN_AGAIN, "reads the clock"),
        (NEW, reading(day_columns=frozenset({"w"})), RUN_AGAIN, "converts texts to times"),
        ("select id + 1 as id, v from ods.up where v > 1", reading(), RUN_AGAIN, "the key column id is computed"),
    ],
)  # fmt: skip
def test_an_edit_that_cannot_be_made_is_a_full_computation_that_says_why(
    new: str, upstreams: Upstreams, request_: Request, because: str
) -> None:
    old = table(a_model(OLD))
    decision = decide_refresh(a_model(new), old, upstreams, request_)
    assert (decision.mode, decision.reason, decision.edit) == ("full", "QUERY_CHANGED", None)
    assert because in decision.because


@pytest.mark.parametrize(
    ("state", "upstreams", "config"),
    [
        (table(a_model(OLD), **{JUDGED: "another"}), reading(), {}),
        (table(a_model(OLD), **{GIVEN_UP: "NOT_SAME_TO_SPARK unlike"}), reading(), {}),
        (table(a_model(OLD), **{QUERY: compute_fingerprint(a_model("select 1"), reading())}), reading(), {}),
        (table(a_model(OLD), **{SESSION: "another"}), replace(reading(), settings={"spark.sql.x": "1"}), {}),
        (table(a_model(OLD)), replace(reading(), settings={"spark.sql.x": "1"}), {}),
        (table(a_model(OLD)), reading(), {"refresh": "full"}),
        (table(a_model(OLD)), reading(), {"keep_deleted": False}),
        (table(a_model(OLD)), reading(unstable=("RAND",)), {}),
        (replace(table(a_model(OLD)), base=None), reading(), {}),
    ],
)  # fmt: skip
def test_more_than_an_edit_is_a_full_computation(
    state: TableState, upstreams: Upstreams, config: dict[str, Any]
) -> None:
    decision = decide_refresh(a_model(NEW, **config), state, upstreams, RUN_AGAIN)
    assert (decision.mode, decision.reason) == ("full", "QUERY_CHANGED")


@pytest.mark.parametrize(
    ("contract", "reason"),
    [
        ({"contract": COLUMNS[:2]}, "EDITED"),
        ({"contract": COLUMNS[:2], "not_null": ("id",)}, "QUERY_CHANGED"),
        ({"contract": COLUMNS[:2], "checks": ("v > 0",)}, "QUERY_CHANGED"),
    ],
)
def test_columns_of_a_contract_may_change_with_the_query_and_rules_may_not(
    contract: dict[str, Any], reason: str
) -> None:
    decision = decide_refresh(replace(a_model(NEW), **contract), table(a_model(OLD)), reading(), RUN_AGAIN)
    assert decision.reason == reason


def test_a_column_that_the_table_drops_or_does_not_have_is_not_read() -> None:
    old = "select id, v, w from ods.up where v > 1"
    new = "select id, v, upper(w) as big from ods.up where v > 1"
    decision = decide_refresh(a_model(new), table(a_model(old)), reading(), RUN_AGAIN)
    assert decision.edit is not None
    assert decision.edit.edit.sources == {UP}


def test_texts_too_long_for_a_property_are_not_stored() -> None:
    model = replace(a_model("select 1"), contract=COLUMNS, not_null=("id",), checks=("id > 0",))
    text = QueryText.from_model(model, {"lake.ods.view": "select 2"})
    assert read_query_text({QUERY_TEXT: text.encode()}) == text
    assert QueryText.from_model(a_model("x" * 200_000), {}).encode() == ""
    assert [read_query_text(properties) for properties in ({}, {QUERY_TEXT: "{"}, {QUERY_TEXT: "[1]"})] == [None] * 3


def test_the_sources_of_the_last_query_are_those_of_its_views_too() -> None:
    text = QueryText.from_model(
        a_model("select * from ods.view join ods.up"), {"lake.ods.view": "select * from ods.other"}
    )
    assert set(list_former_sources(a_model(), text)) == {UP, OTHER}
