"""How rows follow from events: another way computes all rows again, is refused, or applies to later events alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.properties import DECLARED, QUERY, RESTORED
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.plan.refresh.decide import decide_refresh
from arctic_runtime.plan.refresh.event_rules import find_changed_rules, hash_event_rules
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint
from arctic_runtime.plan.refresh.increment import Upstreams
from tests.unit.plan.refresh.test_decide import READ_ONE, RUN_AGAIN, UP, a_model, a_source, built, reading, v

FUNCTIONS = st.dictionaries(
    st.sampled_from(["total", "high", "tags"]), st.sampled_from(["sum", "max", "old.a + new.a"]), max_size=3
)
RULES: dict[str, st.SearchStrategy[Any]] = {
    "sequence_by": st.sampled_from([None, "lsn", "at"]),
    "delete_when": st.sampled_from([None, "op = 'd'"]),
    "truncate_when": st.sampled_from([None, "op = 't'"]),
    "on_match": st.sampled_from(["replace", "update"]),
    "valid_time": st.sampled_from([None, "at"]),
    "keep_deleted": st.booleans(),
    "merge_columns": FUNCTIONS,
}


def of_events(**config: Any) -> Model:
    return a_model("select * from `changes(lake.ods.up)`", input="changes", **config)


SUMS = of_events(merge_columns={"total": "sum"}, sequence_by="lsn")


@given(st.fixed_dictionaries(RULES), st.fixed_dictionaries(RULES))
def test_only_keys_with_different_values_are_reported(before: dict[str, Any], after: dict[str, Any]) -> None:
    then, now = (of_events(**config).config for config in (before, after))
    expected = {key for key in RULES if key != "merge_columns" and before[key] != after[key]}
    expected |= {
        f"merge_columns: {column}"
        for column in {*before["merge_columns"], *after["merge_columns"]}
        if before["merge_columns"].get(column) != after["merge_columns"].get(column)
    }
    assert set(find_changed_rules(now, hash_event_rules(then))) == expected


def test_a_renamed_column_keeps_its_function_and_the_case_of_names_is_none_of_it() -> None:
    then = hash_event_rules(SUMS.config)
    renamed = of_events(merge_columns={"sums": "sum"}, renamed_columns={"sums": "TOTAL"}, sequence_by="lsn")
    assert find_changed_rules(renamed.config, then) == ()
    assert find_changed_rules(of_events(merge_columns={"Total": "sum"}, sequence_by="lsn").config, then) == ()
    other = of_events(merge_columns={"sums": "max"}, renamed_columns={"sums": "total"}, sequence_by="lsn")
    assert find_changed_rules(other.config, then) == ("merge_columns: sums",)


def decided(model: Model, then: Model, source: SourceState | None = None, **summary: str) -> tuple[str, str, bool]:
    """Mode, reason, and whether all events are read, of a run that finds a table that another model has left."""
    state = built(then, READ_ONE, **summary)
    decision = decide_refresh(model, state, reading(source or a_source(1, 2)), RUN_AGAIN)
    return decision.mode, decision.because or decision.reason, decision.windows[str(UP)].start is None


@pytest.mark.parametrize(
    ("changed", "because"),
    [
        ({"merge_columns": {"total": "max"}}, "merge_columns: total"),
        ({"merge_columns": {}}, "merge_columns: total"),
        ({"merge_columns": {"total": "sum", "n": "sum"}}, "merge_columns: n"),
        ({"truncate_when": "op = 't'"}, "truncate_when"),
        ({"delete_when": "op = 'd'"}, "delete_when"),
        ({"on_match": "update"}, "on_match"),
        ({"sequence_by": "at"}, "sequence_by"),
        ({"keep": "all"}, None),
        ({"changelog": "input"}, None),
    ],
)
def test_all_rows_are_computed_from_all_events_where_they_follow_in_another_way(
    changed: Mapping[str, Any], because: str | None
) -> None:
    model = replace(SUMS, config=replace(SUMS.config, **changed))
    decision = decided(model, SUMS)
    assert decision == (("full", f"{because} changed", True) if because else ("incremental", "CHANGES", False))
    assert decided(model, model) == ("incremental", "CHANGES", False)
    assert decided(model, model, a_source(1)) == ("unchanged", "NOTHING_NEW", False)


def test_rows_that_a_query_said_are_computed_from_all_events_once_events_say_them() -> None:
    assert decided(SUMS, a_model()) == ("full", "input changed", True)


def test_a_table_without_stored_rules_continues() -> None:
    """Earlier versions recorded none."""
    assert decided(SUMS, SUMS, **{QUERY: '{"query": "1"}'}) == ("incremental", "CHANGES", False)
    assert decided(SUMS, SUMS, **{QUERY: "one hash of everything"}) == ("incremental", "CHANGES", False)


HIGHEST = of_events(merge_columns={"total": "max"}, sequence_by="lsn")
LOSES = replace(a_source(1, 2, 3), trimmed=1)


@pytest.mark.parametrize(
    ("source", "summary", "message"),
    [
        (LOSES, {}, "lake.ods.up may no longer have all events"),
        (a_source(1, 2, 3, operations={2: "delete"}), {}, "lake.ods.up may no longer have all events"),
        (a_source(2, 3), {}, "lake.ods.up may no longer have all events"),
        (a_source(1, 2, 3), {RESTORED: "7"}, "the table was restored"),
        (a_source(1, 2, 3), {DECLARED: "2026-01-01"}, "rows were declared"),
    ],
)
def test_rows_that_can_not_be_computed_again_refuse_other_rules(
    source: SourceState, summary: dict[str, str], message: str
) -> None:
    state = built(SUMS, {str(UP): v(2)}, **summary)
    with pytest.raises(ConfigError) as raised:
        decide_refresh(HIGHEST, state, reading(source), RUN_AGAIN)
    assert f"found: {message}" in str(raised.value)
    assert "`merge_columns: total` changed" in str(raised.value)
    assert "set `on_configuration_change: continue`" in str(raised.value)
    later = replace(HIGHEST, config=replace(HIGHEST.config, on_configuration_change="continue"))
    assert decide_refresh(later, state, reading(source), RUN_AGAIN).mode == "incremental"


def test_deleted_events_are_those_of_frozen_rows_if_the_model_has_some() -> None:
    model = replace(HIGHEST, config=replace(HIGHEST.config, frozen_where="day < current_date"))
    state = built(SUMS, {str(UP): v(2)})
    plain = a_source(1, 2, 3, operations={2: "delete"})
    assert decide_refresh(model, state, reading(plain), RUN_AGAIN).mode == "full"
    with pytest.raises(ConfigError, match="may no longer have all events"):
        decide_refresh(model, state, reading(replace(plain, kind="changes", trimmed=1)), RUN_AGAIN)


def test_another_order_of_events_never_continues_from_the_old_one() -> None:
    model = of_events(merge_columns={"total": "sum"}, sequence_by="at", on_configuration_change="continue")
    assert decided(model, SUMS) == ("full", "sequence_by changed", True)
    with pytest.raises(ConfigError, match="`sequence_by` changed") as raised:
        decided(model, SUMS, LOSES)
    assert "continue" not in str(raised.value)


def test_a_model_that_asks_to_fail_says_what_changed() -> None:
    model = replace(HIGHEST, config=replace(HIGHEST.config, on_configuration_change="fail"))
    with pytest.raises(ConfigError, match="`merge_columns: total` changed, and `on_configuration_change` is `fail`"):
        decided(model, SUMS)


def test_versions_follow_from_what_is_tracked_and_kept() -> None:
    history: dict[str, Any] = {"sequence_by": "lsn", "history": "scd2", "primary_key": ("id", "_valid_from")}
    then = of_events(**history)
    for changed in ({"track": ("a",)}, {"keep_deleted": False}):
        assert decided(of_events(**history, **changed), then) == ("full", f"{next(iter(changed))} changed", True)


def test_the_part_of_events_is_null_for_rows_that_a_query_says() -> None:
    assert '"events": null' in compute_fingerprint(a_model(), Upstreams())
    assert hash_event_rules(ModelConfig(primary_key=("id",))) == {}
