"""Passes over models: what starts, what waits, and that no model ever shows two states of one source."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.model.names import TableName
from arctic_runtime.service.refreshing.model_records import Record, pause_after
from arctic_runtime.thresholds import ServiceThresholds
from tests.unit.service.world import World, t

THRESHOLDS = ServiceThresholds()


def world(lags: dict[str, float] | None = None, **reads: str) -> World:
    of = {t(model): frozenset(map(t, tables.split())) for model, tables in reads.items()}
    return World(of, {model: (lags or {}).get(model.name, 0.0) for model in of})


def diamond(**lags: float) -> World:
    found = world(lags, left="a", right="a b", both="left right", alone="left c")
    found.run_pass()
    found.run_pass()
    found.started.clear()
    return found


def started(of: World) -> list[str]:
    names = [model.name for model in of.started]
    of.started.clear()
    return names


def settle(of: World, passes: int = 3) -> None:
    for _ in range(passes):
        of.run_pass()


def test_nothing_starts_where_nothing_moved() -> None:
    found = diamond()
    found.run_pass()
    assert started(found) == []


def test_what_moved_and_what_lies_below_it_starts_and_nothing_else() -> None:
    found = diamond()
    found.move(t("b"))
    found.run_pass()
    assert started(found) == ["right", "both"]
    found.move(t("c"))
    found.run_pass()
    assert started(found) == ["alone"]


def test_models_that_do_not_depend_on_each_other_start_side_by_side() -> None:
    found = diamond()
    found.move(t("a"))
    progress, _ = found.begin(found.graph.list_groups()[0])
    assert [start.model.name for start in progress.take_ready()] == ["left", "right"]
    progress.end_model(t("left"), "changed")
    assert [start.model.name for start in progress.take_ready()] == ["alone"]


def test_a_model_below_one_without_new_rows_is_left_alone() -> None:
    found = diamond()
    found.move(t("a"))
    progress, _ = found.begin(found.graph.list_groups()[0])
    for start in progress.take_ready():
        progress.end_model(start.model, "unchanged")
    assert progress.take_ready() == []
    assert progress.is_over


def test_a_failed_model_holds_back_what_is_below_it_and_nothing_else() -> None:
    found = diamond()
    found.fails = {t("right")}
    found.move(t("a"))
    found.run_pass()
    assert started(found) == ["left", "right", "alone"]
    found.run_pass()
    assert "right" not in started(found)
    found.now += THRESHOLDS.retry_seconds
    found.run_pass()
    assert "right" in started(found)
    found.fails = set()
    found.now += 2 * THRESHOLDS.retry_seconds
    settle(found)
    assert found.behind() == []


def test_pauses_grow_up_to_a_limit() -> None:
    record, pauses = Record(), []
    for _ in range(12):
        record = record.record_failure(0.0, THRESHOLDS)
        pauses.append(record.retry_at)
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert pauses[-3:] == [256.0] * 3
    assert pause_after(10_000, THRESHOLDS) == 256.0


def test_a_lost_race_is_tried_again_at_once() -> None:
    found = diamond()
    found.loses = {t("left")}
    found.move(t("a"))
    found.run_pass()
    assert set(started(found)) == {"left", "right"}
    found.loses = set()
    found.run_pass()
    assert set(started(found)) == {"left", "both", "alone"}
    assert found.behind() == []


def test_a_lag_delays_a_model_and_what_would_mix_with_it() -> None:
    found = diamond(left=30)
    found.now = 10
    found.move(t("a"))
    found.move(t("c"))
    found.run_pass()
    assert set(started(found)) == {"right", "alone"}
    found.now = 40
    found.run_pass()
    assert {"left", "both"} <= set(started(found))
    assert found.behind() == []


def test_two_lags_that_never_fall_together_do_not_hold_a_model_back_for_ever() -> None:
    found = diamond(left=30, right=31)
    ages = []
    for second in range(1, 200):
        found.now = float(second)
        found.move(t("a"))
        found.run_pass()
        (version,) = found.shows[t("both")][t("a")]
        ages.append(found.heads[t("a")] - version)
    assert max(ages) <= 32


def test_the_clock_is_news_for_a_model_that_is_recomputed_as_often_as_its_lag_says() -> None:
    found = diamond()
    tables, heads = found.tables[t("left")], found.texts()
    record = Record(heads, refreshed_at=100.0, is_recomputed=True)
    assert record.find_news(tables, heads, 129.0, 30.0) == "none"
    assert record.find_news(tables, heads, 130.0, 30.0) == "reads"
    assert record.find_news(tables, heads, 1000.0, 0.0) == "none"


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Up to eight models over up to three sources, each reading sources and models before it."""
    sources = [t(f"s{number}") for number in range(draw(st.integers(1, 3)))]
    reads: dict[TableName, frozenset[TableName]] = {}
    for number in range(draw(st.integers(1, 8))):
        known = [*sources, *reads]
        reads[t(f"m{number}")] = frozenset(draw(st.sets(st.sampled_from(known), min_size=1, max_size=3)))
    lags = {model: float(draw(st.sampled_from([0, 0, 0, 3, 5, 30]))) for model in reads}
    return World(reads, lags)


@given(worlds(), st.data())
def test_no_model_ever_shows_two_states_of_a_source_and_all_catch_up(found: World, data: st.DataObject) -> None:
    models, sources = list(found.reads), found.sources

    def pick(count: int) -> int:
        return data.draw(st.integers(0, count - 1))

    def between() -> None:
        for source in data.draw(st.sets(st.sampled_from(sources), max_size=2)):
            found.move(source)

    for _ in range(data.draw(st.integers(1, 8))):
        between()
        found.fails = data.draw(st.sets(st.sampled_from(models), max_size=2))
        found.loses = data.draw(st.sets(st.sampled_from(models), max_size=1)) - found.fails
        found.now += data.draw(st.sampled_from([0.5, 1.0, 4.0, 40.0]))
        found.run_pass(pick, between)
        assert found.mixed() == []
    found.fails = found.loses = set()
    for _ in range(len(models) + 1):
        found.now += 1000.0
        found.run_pass()
    assert found.behind() == []
    found.started.clear()
    found.now += 1000.0
    found.run_pass()
    assert found.started == []
