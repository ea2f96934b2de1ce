"""What is shown of tables: layers, how stale they are, how far readers are behind, and their states."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from arctic_runtime.catalog.service_table import Paused
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import Commit
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.model.version import Version
from arctic_runtime.operations.inspect import Ingestion, Status
from arctic_runtime.service.live import Lag
from arctic_runtime.service.observed_tables import ObservedTable
from arctic_runtime.service.overviews import IngestionRun, Refreshing, Shown, overviews
from arctic_runtime.service.schedules import Scheduled

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def t(name: str) -> TableName:
    return TableName("lake", "shop", name)


def observed(name: str, commits: int, ingestion: Ingestion | None = None, **read: int) -> ObservedTable:
    """A table with so many commits of ten rows, one each minute up to now, and what it has read of others."""
    made = tuple(
        Commit(
            version=Version(name, 100 + at, at),
            parent=None,
            operation="append",
            bytes=0,
            at_ms=round(1000 * (NOW - timedelta(minutes=commits - 1 - at)).timestamp()),
            rows=10,
            summary={},
        )
        for at in range(commits)
    )
    offsets = {str(t(of)): Version(of, 100 + at, at) for of, at in read.items()}
    return ObservedTable(name, made, offsets, Status(str(t(name)), True, rows=10, ingestion=ingestion))


def model(name: str, lag: int = 0, ingested: str | None = None) -> Model:
    return Model(t(name), "", ModelConfig(("id",), target_lag=lag), ingested_from=ingested)


READS = {t("ods"): [], t("left"): [t("ods")], t("right"): [t("ods")], t("both"): [t("left"), t("right")]}


def shown(**changed: Any) -> Shown:
    """A diamond that is up to date."""
    found = {
        t("ods"): observed("ods", 5),
        t("left"): observed("left", 3, ods=4),
        t("right"): observed("right", 3, ods=4),
        t("both"): observed("both", 2, left=2, right=2),
    }
    names = ("left", "right", "both")
    base = Shown(NOW, {of: READS[of] for of in map(t, names)}, {t(of): model(of) for of in names}, found)
    return replace(base, **changed)


def by_name(given: Shown) -> dict[str, Any]:
    return {of.table.name: of for of in overviews(given)}


def test_layers_count_the_longest_way_from_a_source() -> None:
    assert {name: of.layer for name, of in by_name(shown()).items()} == {"ods": 0, "left": 1, "right": 1, "both": 2}


def test_a_table_that_shows_all_that_is_above_it_is_fresh() -> None:
    found = by_name(shown())
    assert {name: of.state for name, of in found.items()} == {
        "ods": "unknown", "left": "fresh", "right": "fresh", "both": "fresh",
    }  # fmt: skip
    assert all(of.stale_since is None for of in found.values())


def test_a_table_is_as_stale_as_the_oldest_change_that_it_does_not_show_however_far_above() -> None:
    base = shown()
    behind = {**base.observed, t("left"): observed("left", 3, ods=1)}
    found = by_name(replace(base, observed=behind))
    assert found["left"].stale_since == NOW - timedelta(minutes=2)
    assert found["both"].stale_since == NOW - timedelta(minutes=2)
    assert found["right"].stale_since is None
    assert (found["left"].state, found["both"].state) == ("behind", "behind")


def test_each_reader_of_a_table_has_a_lag_of_its_own() -> None:
    base = shown()
    behind = {**base.observed, t("left"): observed("left", 3, ods=1)}
    assert by_name(replace(base, observed=behind))["ods"].readers == (
        Lag("lake.shop.left", 3, 30),
        Lag("lake.shop.right", 0, 0),
    )


def test_a_source_that_was_made_anew_has_no_lag_by_an_old_offset() -> None:
    base = shown()
    renewed = {**base.observed, t("ods"): replace(base.observed[t("ods")], log="another")}
    found = by_name(replace(base, observed=renewed))
    assert [lag.commits for lag in found["ods"].readers] == [0, 0]


@pytest.mark.parametrize(
    ("refreshing", "is_stale", "state"),
    [
        (Refreshing(is_running=True), True, "refreshing"),
        (Refreshing(error="broken"), True, "failed"),
        (Refreshing(held_by=t("left")), True, "held"),
        (Refreshing(is_delayed=True), True, "delayed"),
        (Refreshing(is_delayed=True), False, "fresh"),
        (Refreshing(), True, "behind"),
    ],
)
def test_the_state_of_a_model_is_what_keeps_it_from_being_fresh(
    refreshing: Refreshing, is_stale: bool, state: str
) -> None:
    above = {t("left"): Refreshing(error="broken")} if refreshing.held_by else {}
    base = shown(refreshing={t("both"): refreshing, **above})
    stale = {**base.observed, t("both"): observed("both", 2, left=0, right=2)}
    found = by_name(replace(base, observed=stale) if is_stale else base)
    assert found["both"].state == state


def test_a_model_is_held_no_longer_than_the_one_above_fails() -> None:
    refreshing = {t("both"): Refreshing(held_by=t("left")), t("left"): Refreshing()}
    assert by_name(shown(refreshing=refreshing))["both"].state == "fresh"


def test_a_paused_table_is_paused_whatever_else_holds() -> None:
    paused = Paused(tables=frozenset({str(t("left"))}))
    found = by_name(shown(paused=paused, refreshing={t("left"): Refreshing(error="broken")}))
    assert found["left"].state == "paused"
    assert all(of.state == "paused" for of in by_name(shown(paused=Paused(everything=True))).values())


def test_a_model_without_a_table_is_missing_until_it_is_refreshed() -> None:
    base = shown()
    without = {name: of for name, of in base.observed.items() if name != t("both")}
    assert by_name(replace(base, observed=without))["both"].state == "missing"
    running = {t("both"): Refreshing(is_running=True)}
    assert by_name(replace(base, observed=without, refreshing=running))["both"].state == "refreshing"


@pytest.mark.parametrize(
    ("run", "state"),
    [
        (IngestionRun(True), "fresh"),
        (IngestionRun(False, "no such host"), "failed"),
        (IngestionRun(False), "unknown"),
    ],
)
def test_an_ingested_table_is_as_its_ingestion(run: IngestionRun, state: str) -> None:
    base = shown()
    of = Ingestion("shop", "orders", as_of=(NOW - timedelta(seconds=7)).isoformat(), dead_letters=2)
    found = by_name(
        replace(
            base,
            models={**base.models, t("ods"): model("ods", ingested="public.orders")},
            observed={**base.observed, t("ods"): observed("ods", 5, of)},
            ingestions={"shop": run},
        )
    )["ods"]
    assert (found.kind, found.state) == ("ingested", state)
    assert found.ingestion is not None
    assert (found.ingestion.lag_seconds, found.ingestion.dead_letters) == (7.0, 2)


def test_rows_of_the_last_minute_are_recent() -> None:
    assert by_name(shown())["ods"].recent_rows == 20


@pytest.mark.parametrize(
    ("refreshing", "is_there", "state"),
    [
        (Refreshing(), True, "unknown"),
        (Refreshing(), False, "missing"),
        (Refreshing(is_running=True), True, "refreshing"),
        (Refreshing(is_running=True), False, "refreshing"),
        (Refreshing(error="no such column"), True, "failed"),
    ],
)
def test_a_model_that_dbt_runs_at_its_times_is_no_source_and_lies_below_what_it_reads(
    refreshing: Refreshing, is_there: bool, state: str
) -> None:
    mart = Scheduled("model.shop.mart", t("mart"), "0 6 * * *", reads=frozenset({t("both"), t("raw")}))
    base = shown()
    given = replace(
        base,
        reads={**base.reads, t("above"): [t("mart")]},
        models={**base.models, t("above"): model("above")},
        scheduled={t("mart"): mart},
        refreshing={t("mart"): refreshing},
        readable={t("mart")} if is_there else (),
    )
    found = by_name(given)
    assert (found["mart"].kind, found["mart"].state, found["mart"].schedule) == ("scheduled", state, "0 6 * * *")
    assert found["mart"].reads == (t("both"), t("raw"))
    assert found["mart"].error == refreshing.error
    assert {name: found[name].layer for name in ("raw", "both", "mart", "above")} == {
        "raw": 0, "both": 2, "mart": 3, "above": 4,
    }  # fmt: skip
    assert found["raw"].kind == "source"
