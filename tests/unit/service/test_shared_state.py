"""The state that parts of a service share: what of it users see, and what they hear."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.service_table import Paused
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.profile import Profile
from arctic_runtime.service.project import ProjectSource
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.shared_state import Repeats, SharedState
from tests.unit.service.unreached import unreached_state

RAW, SALES = TableName("lake", "ods", "raw"), TableName("lake", "dws", "sales")
MODEL = FollowedModel(Model(SALES, "select 1 as id", ModelConfig(("id",))), "sales", frozenset({RAW}))


def test_an_error_is_said_once_and_shown_until_it_ends() -> None:
    said: list[str] = []
    shared = SharedState(CatalogReader(Profile.for_embedded("/nowhere")), said.append)
    for message in ("no", "no", "never", "", "no"):
        shared.report_error("tests of sales", message)
    assert said == ["tests of sales: no", "tests of sales: never", "tests of sales: no"]
    assert shared.get_state().errors == {"tests of sales": "no"}
    shared.report_error("tests of sales", "")
    assert shared.get_state().errors == {}


def test_an_error_that_stays_the_same_is_one_event() -> None:
    shared = unreached_state()
    for _ in range(3):
        shared.set_error("catalog", "no answer")
    events, _ = shared.events.wait_after(0)
    assert [event.kind for event in events] == ["service"]


def test_tables_that_users_paused_are_shown_with_the_next_change() -> None:
    shared = unreached_state()
    shared.set_tables([MODEL], ())
    shared.paused = Paused(tables=frozenset({str(SALES)}))
    shared.change_state(role="leads")
    assert shared.get_state().paused_tables == (SALES,)
    assert (shared.is_paused(SALES), shared.is_paused(RAW)) == (True, False)


def test_a_model_waits_until_ingestion_has_made_the_table_that_it_reads() -> None:
    shared = unreached_state()
    shared.set_tables([MODEL], (), sources=[ProjectSource("shop", tables=(RAW,))])
    assert shared.is_waiting(SALES)
    shared.readable = {RAW}
    assert not shared.is_waiting(SALES)


def test_a_table_is_new_when_its_first_load_is_held_and_when_it_is_made() -> None:
    shared, sources, raw = unreached_state(), [ProjectSource("shop", tables=(RAW,))], replace(MODEL.model, table=RAW)
    shared.set_tables([MODEL], (), sources)
    assert not shared.has_new_tables()
    shared.held = {RAW}
    assert shared.has_new_tables()
    shared.set_tables([MODEL], [raw], sources)
    assert not shared.has_new_tables()
    shared.held, shared.readable = (), {RAW}
    assert shared.has_new_tables()
    shared.set_tables([MODEL], [raw], sources)
    assert not shared.has_new_tables()


def test_a_table_is_known_by_the_end_of_its_name() -> None:
    shared = unreached_state()
    shared.set_tables([MODEL], ())
    assert {shared.find_table(name) for name in ("sales", "dws.sales", "lake.dws.sales")} == {SALES}
    with pytest.raises(ConfigError, match="did you mean 'sales'"):
        shared.find_table("salse")


def test_a_message_is_new_once_until_another_one_or_a_recovery() -> None:
    repeats = Repeats()
    assert repeats.is_new("orders", "locked")
    assert not repeats.is_new("orders", "locked")
    assert repeats.is_new("customers", "locked")
    assert repeats.is_new("orders", "gone")
    assert repeats.is_new("orders", "locked")
    repeats.clear_subject("orders")
    assert repeats.is_new("orders", "locked")
