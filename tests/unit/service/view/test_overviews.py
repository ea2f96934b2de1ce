"""What is shown of tables: layers, how stale they are, how far readers are behind, and their states."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from arctic_runtime.catalog.service_table import Paused
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.freshness import Freshness, OriginStatus, TableFacts
from arctic_runtime.model.sources.ingestion import ChangeSource, Failure, to_millis
from arctic_runtime.model.sources.positions import ParsedPosition
from arctic_runtime.model.state import Commit
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.model.version import Version
from arctic_runtime.operations.inspect import IngestionStatus, Status
from arctic_runtime.service.cron_schedules import Scheduled
from arctic_runtime.service.http.application import list_unready_tables
from arctic_runtime.service.project import ProjectSource
from arctic_runtime.service.view.live_data import Lag, TableOverview
from arctic_runtime.service.view.live_warehouse import build_source_overviews
from arctic_runtime.service.view.overviews import (
    IngestionRun,
    ObservedTable,
    OverviewInputs,
    Refreshing,
    build_overviews,
    is_news,
)
from tests.unit.service.late_sources import TROUBLES

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def t(name: str) -> TableName:
    return TableName("lake", "shop", name)


def observed(
    name: str, commits: int, ingestion: IngestionStatus | None = None, origin: OriginStatus | None = None, **read: int
) -> ObservedTable:
    """A table with so many commits of ten rows, one each minute up to now, and what it has read of others."""
    made = tuple(
        Commit(
            version=Version(name, 100 + at, at),
            parent=None,
            operation="append",
            bytes=0,
            at_ms=to_millis(NOW - timedelta(minutes=commits - 1 - at)),
            rows=10,
            summary={"arctic.run": str(at)},
        )
        for at in range(commits)
    )
    offsets = {str(t(key)): Version(key, 100 + at, at) for key, at in read.items()}
    facts = TableFacts(name, made, offsets or None, origin)
    return ObservedTable(facts, Status(str(t(name)), True, rows=10, ingestion=ingestion))


def model(name: str, lag: int = 0, ingested: str | None = None) -> Model:
    return Model(t(name), "", ModelConfig(("id",), target_lag=lag), ingested_from=ingested)


READS = {t("ods"): [], t("left"): [t("ods")], t("right"): [t("ods")], t("both"): [t("left"), t("right")]}


def make_shown(**changed: Any) -> OverviewInputs:
    """A diamond that is up to date."""
    result = {
        t("ods"): observed("ods", 5),
        t("left"): observed("left", 3, ods=4),
        t("right"): observed("right", 3, ods=4),
        t("both"): observed("both", 2, left=2, right=2),
    }
    names = ("left", "right", "both")
    base = OverviewInputs(
        NOW, {name: READS[name] for name in map(t, names)}, {t(name): model(name) for name in names}, result
    )
    return replace(base, **changed)


def by_name(given: OverviewInputs) -> dict[str, Any]:
    return {overview.table.name: overview for overview in build_overviews(given)}


def test_layers_count_the_longest_way_from_a_source() -> None:
    assert {name: value.layer for name, value in by_name(make_shown()).items()} == {
        "ods": 0,
        "left": 1,
        "right": 1,
        "both": 2,
    }


def test_changes_that_were_not_applied_are_those_of_the_status() -> None:
    base = make_shown()
    left = base.observed[t("left")]
    kept = replace(left, status=replace(left.status, frozen=1, frozen_total=7))
    shown = by_name(replace(base, observed={**base.observed, t("left"): kept}))
    assert [shown[name].frozen_changes for name in ("left", "right")] == [7, 0]


def test_a_table_that_shows_all_that_is_above_it_is_fresh() -> None:
    tables = by_name(make_shown())
    assert {name: value.state for name, value in tables.items()} == {
        "ods": "unknown", "left": "fresh", "right": "fresh", "both": "fresh",
    }  # fmt: skip
    assert [tables[name].freshness for name in ("ods", "left", "both")] == [None, *[Freshness("fresh", NOW)] * 2]


def test_a_table_is_as_stale_as_the_oldest_change_that_it_does_not_show_however_far_above() -> None:
    base = make_shown()
    behind = {**base.observed, t("left"): observed("left", 3, ods=1)}
    tables = by_name(replace(base, observed=behind))
    late = NOW - timedelta(minutes=2)
    assert [(tables[name].freshness.as_of, tables[name].freshness.since) for name in ("left", "both")] == [
        (late, late)
    ] * 2
    assert tables["right"].freshness.as_of == NOW
    assert tables["both"].freshness.reason == "lake.shop.ods has 3 commits more: lake.shop.left has yet to read them"
    assert (tables["left"].state, tables["both"].state) == ("behind", "behind")


def test_each_reader_of_a_table_has_a_lag_of_its_own() -> None:
    base = make_shown()
    behind = {**base.observed, t("left"): observed("left", 3, ods=1)}
    assert by_name(replace(base, observed=behind))["ods"].readers == (
        Lag("lake.shop.left", 3, 30),
        Lag("lake.shop.right", 0, 0),
    )


def test_a_source_that_was_recreated_has_no_lag_by_an_old_offset() -> None:
    base = make_shown()
    ods = base.observed[t("ods")]
    renewed = {**base.observed, t("ods"): replace(ods, facts=replace(ods.facts, log="another"))}
    name = by_name(replace(base, observed=renewed))
    assert [lag.commits for lag in name["ods"].readers] == [0, 0]
    assert (name["both"].state, name["both"].freshness.as_of) == ("behind", None)


@pytest.mark.parametrize(
    ("refreshing", "is_stale", "state"),
    [
        (Refreshing(is_running=True), True, "refreshing"),
        (Refreshing(error="broken"), True, "failed"),
        (Refreshing(held_by=t("left")), True, "held"),
        (Refreshing(), True, "behind"),
    ],
)
def test_the_state_of_a_model_is_what_keeps_it_from_being_fresh(
    refreshing: Refreshing, is_stale: bool, state: str
) -> None:
    above = {t("left"): Refreshing(error="broken")} if refreshing.held_by else {}
    base = make_shown(refreshing={t("both"): refreshing, **above})
    stale = {**base.observed, t("both"): observed("both", 2, left=0, right=2)}
    name = by_name(replace(base, observed=stale) if is_stale else base)
    assert name["both"].state == state


def test_a_model_is_held_no_longer_than_the_one_above_fails() -> None:
    refreshing = {t("both"): Refreshing(held_by=t("left")), t("left"): Refreshing()}
    assert by_name(make_shown(refreshing=refreshing))["both"].state == "fresh"


def test_a_paused_table_is_shown_as_paused_in_any_other_state() -> None:
    paused = Paused(tables=frozenset({str(t("left"))}))
    name = by_name(make_shown(paused=paused, refreshing={t("left"): Refreshing(error="broken")}))
    assert name["left"].state == "paused"
    assert all(table.state == "paused" for table in by_name(make_shown(paused=Paused(everything=True))).values())


def test_a_model_without_a_table_is_loading_until_its_first_refresh_runs_or_fails() -> None:
    base = make_shown()
    without = {name: value for name, value in base.observed.items() if name != t("both")}
    assert by_name(replace(base, observed=without))["both"].state == "loading"
    for refreshing, state in ((Refreshing(is_running=True), "refreshing"), (Refreshing(error="1 / 0"), "failed")):
        shown = replace(base, observed=without, refreshing={t("both"): refreshing})
        assert by_name(shown)["both"].state == state
    assert by_name(replace(base, observed=without, paused=Paused(everything=True)))["both"].state == "missing"


@pytest.mark.parametrize(
    ("run", "states"),
    [
        (IngestionRun(True), ["loading", "loading", "loading"]),
        (IngestionRun(True, Failure("no such host", NOW)), ["failed", "held", "held"]),
        (None, ["missing", "missing", "missing"]),
    ],
)
def test_nothing_is_missing_while_a_source_is_loaded_for_the_first_time(
    run: IngestionRun | None, states: list[str]
) -> None:
    sources = [ProjectSource("shop", "postgresql db1:5432/shop", (t("ods"), t("unread")))]
    shown = make_shown(observed={}, sources=sources, ingestions={} if run is None else {"shop": run})
    tables = by_name(shown)
    assert [tables[name].state for name in ("ods", "left", "both")] == states
    assert (tables["unread"].kind, tables["unread"].source, tables["unread"].state) == ("ingested", "shop", states[0])
    assert tables["ods"].error == ("no such host" if states[0] == "failed" else "")
    (source,) = build_source_overviews(sources, tables.values(), shown.ingestions)
    assert (source.connection, source.tables, source.loaded_tables) == ("postgresql db1:5432/shop", 2, 0)
    assert (source.is_running, source.error) == (run is not None, tables["ods"].error)
    assert len(list_unready_tables(tables.values())) == 5


def test_a_source_is_as_far_as_the_table_that_is_last() -> None:
    tables = below_source(SOURCE, None)
    later = replace(tables["ods"], table=t("more"), ingestion=replace(tables["ods"].ingestion, as_of=NOW))
    (source,) = build_source_overviews([ProjectSource("shop")], [*tables.values(), later], {})
    assert (source.is_running, source.ingested_by, source.as_of) == (False, "process 3 on a", SOURCE.as_of)
    assert (source.tables, source.loaded_tables, source.lag_seconds, source.dead_letters) == (2, 2, 7, 2)


def test_a_quarantine_stands_below_its_model_and_is_as_the_refreshes_of_that() -> None:
    base = make_shown()
    models = {**base.models, t("left").quarantine: replace(model("left__quarantine"), tested_table=t("left"))}
    shown = replace(base, models=models, refreshing={t("left"): Refreshing(error="division by zero")})
    quarantine = by_name(shown)["left__quarantine"]
    assert (quarantine.layer, quarantine.reads, quarantine.tested_table) == (2, (t("ods"),), t("left"))
    assert (quarantine.state, quarantine.error) == ("failed", "division by zero")


UNREADY = {
    "the database is down": 1,
    "the database is down, between two attempts": 1,
    "an error repeats, and this service can't write it down": 1,
    "the process that ingests is dead": 1,
    "the model in the middle fails": 1,
    "the table waits alone": 1,
    "the table is not loaded in full": 3,
}
"""Number of tables that are not ready, by trouble; those that are only late, or that users paused, are."""


@pytest.mark.parametrize("name", TROUBLES)
def test_a_table_is_ready_unless_it_is_not_loaded_or_an_error_keeps_it_behind(name: str) -> None:
    tables = [replace(table, version="1") for table in TROUBLES[name].overviews(NOW)]
    assert len(list_unready_tables(tables)) == UNREADY.get(name, 0)


def test_a_table_that_does_not_exist_yet_is_not_ready_while_it_is_refreshed() -> None:
    base = make_shown(refreshing={t("both"): Refreshing(is_running=True)})
    without = {name: value for name, value in base.observed.items() if name != t("both")}
    unready = list_unready_tables(build_overviews(replace(base, observed=without)))
    assert t("both") in {table.table for table in unready}


SOURCE = OriginStatus("shop", NOW - timedelta(seconds=7), ingested_by="process 3 on a")
DOWN = Failure("no such host.\n  what to do: correct `host`", NOW - timedelta(seconds=90))
LATER = NOW + timedelta(seconds=20)
LONG_AGO = NOW - timedelta(seconds=1500)


def below_source(origin: OriginStatus, run: IngestionRun | None = None, **changed: Any) -> dict[str, TableOverview]:
    """The diamond, below a table that is ingested."""
    ingestion = IngestionStatus("shop", "public.orders", dead_letters=2)
    base = make_shown(**changed)
    ods = observed("ods", 5, ingestion, origin)
    return by_name(
        replace(
            base,
            models={**base.models, t("ods"): model("ods", ingested="public.orders")},
            observed={**base.observed, t("ods"): ods},
            ingestions={} if run is None else {"shop": run},
        )
    )


def test_a_position_is_shown_as_the_source_writes_it() -> None:
    source = ChangeSource("shop", t("shop__dead"), parse_position=lambda text: ParsedPosition(text, f"LSN {text}"))
    ods = replace(model("ods", ingested="public.orders"), source=source)
    seen = observed("ods", 5, IngestionStatus("shop", "public.orders", position="0/16B3748"), SOURCE)
    base = make_shown()
    known = replace(base, models={**base.models, t("ods"): ods}, observed={**base.observed, t("ods"): seen})
    assert by_name(known)["ods"].ingestion.position == "LSN 0/16B3748"


@pytest.mark.parametrize(
    ("origin", "run", "states", "reason"),
    [
        (replace(SOURCE, ingested_until=LATER), None, ("fresh", "fresh"), ""),
        (SOURCE, IngestionRun(True), ("fresh", "fresh"), ""),
        (replace(SOURCE, failure=DOWN), None, ("failed", "behind"), "ingestion of source shop fails: no such host"),
        (SOURCE, IngestionRun(True, DOWN), ("failed", "behind"), "ingestion of source shop fails: no such host"),
        (replace(SOURCE, as_of=LONG_AGO), None, ("behind", "behind"), "no process ingests source shop"),
        (
            replace(SOURCE, as_of=LONG_AGO),
            IngestionRun(True),
            ("behind", "behind"),
            "ingestion of source shop by this service has come no further",
        ),
        (replace(SOURCE, wait=DOWN), IngestionRun(True), ("held", "behind"), "lake.shop.ods waits: no such host"),
        (OriginStatus("shop"), IngestionRun(True), ("loading", "loading"), "lake.shop.ods is not loaded in full yet"),
    ],
)
def test_tables_below_a_source_are_as_its_ingestion_through_all_layers(
    origin: OriginStatus, run: IngestionRun | None, states: tuple[str, str], reason: str
) -> None:
    source = below_source(origin, run)
    assert source["ods"].kind == "ingested"
    assert [source[name].state for name in ("ods", "left", "both")] == [states[0], states[1], states[1]]
    for name in ("ods", "left", "both"):
        freshness = source[name].freshness
        assert freshness is not None
        assert (freshness.as_of, freshness.reason) == (origin.as_of, reason)
    assert source["ods"].ingestion is not None
    assert source["ods"].ingestion.dead_letters == 2
    assert source["ods"].error == (DOWN.message if states[0] == "failed" else "")


@pytest.mark.parametrize(
    ("changed", "reason", "action"),
    [
        ({"refreshing": {t("left"): Refreshing(error="broken\n  what to do: mend")}}, "fails: broken", "mend"),
        ({"paused": Paused(tables=frozenset({str(t("left"))}))}, "is paused", "resume lake.shop.left"),
    ],
)
def test_a_table_names_the_model_above_that_fails_or_is_paused(
    changed: dict[str, Any], reason: str, action: str
) -> None:
    base = make_shown(**changed)
    behind = {**base.observed, t("left"): observed("left", 3, ods=3)}
    freshness = by_name(replace(base, observed=behind))["both"].freshness
    assert freshness.state == "behind"
    assert freshness.reason == f"lake.shop.ods has 1 commit more: lake.shop.left {reason}"
    assert freshness.action == action


def test_a_change_that_may_wait_delays_a_model_and_those_below_it() -> None:
    base = make_shown()
    left = observed("left", 3, ods=3)
    behind = {**base.observed, t("left"): replace(left, facts=replace(left.facts, target_lag_seconds=300.0))}
    tables = by_name(replace(base, observed=behind))
    assert [tables[name].state for name in ("left", "both", "right")] == ["delayed", "delayed", "fresh"]


@pytest.mark.parametrize("name", TROUBLES)
def test_every_layer_reports_problems_of_its_source(name: str) -> None:
    trouble = TROUBLES[name]
    overviews = trouble.overviews(NOW)
    assert tuple(table.state for table in overviews) == trouble.states
    last = overviews[-1].freshness
    assert last is not None
    assert last.reason == trouble.reason
    late = timedelta(minutes=30 if trouble.commits > 1 else trouble.as_of_minutes or 0)
    assert last.as_of == (None if trouble.as_of_minutes is None else NOW - late)
    assert (last.state == "fresh") == (last.since is None and last.source == "") or trouble.as_of_minutes is None


def test_time_that_passes_is_news_now_and_then_and_everything_else_at_once() -> None:
    (first,) = (overview for overview in build_overviews(make_shown()) if overview.table.name == "both")
    assert first.freshness is not None

    def later(seconds: float, **changed: Any) -> TableOverview:
        freshness = replace(first.freshness, as_of=NOW + timedelta(seconds=seconds))
        return replace(first, freshness=freshness, **changed)

    assert is_news(None, first, 30)
    assert not is_news(first, later(29), 30)
    assert is_news(first, later(30), 30)
    assert is_news(first, later(1, rows=11), 30)
    assert is_news(first, replace(first, freshness=replace(first.freshness, as_of=None)), 30)


def test_rows_of_the_last_minute_are_recent() -> None:
    assert by_name(make_shown())["ods"].recent_rows == 20


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
    base = make_shown()
    given = replace(
        base,
        reads={**base.reads, t("above"): [t("mart")]},
        models={**base.models, t("above"): model("above")},
        scheduled={t("mart"): mart},
        refreshing={t("mart"): refreshing},
        readable={t("mart")} if is_there else (),
    )
    tables = by_name(given)
    assert (tables["mart"].kind, tables["mart"].state, tables["mart"].schedule) == ("scheduled", state, "0 6 * * *")
    assert tables["mart"].reads == (t("both"), t("raw"))
    assert tables["mart"].error == refreshing.error
    assert {name: tables[name].layer for name in ("raw", "both", "mart", "above")} == {
        "raw": 0, "both": 2, "mart": 3, "above": 4,
    }  # fmt: skip
    assert tables["raw"].kind == "source"
