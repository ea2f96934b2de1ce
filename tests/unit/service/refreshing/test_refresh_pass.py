"""Passes over models: what starts, what waits, and that no model ever shows two states of one source."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.model.names import TableName
from arctic_runtime.service.refreshing.model_records import Record, compute_retry_pause, compute_source_pause
from arctic_runtime.thresholds import ServiceThresholds
from tests.unit.service.world import World, t

THRESHOLDS = ServiceThresholds()


def world(lags: dict[str, float] | None = None, **reads: str) -> World:
    reads_by_model = {t(model): frozenset(map(t, tables.split())) for model, tables in reads.items()}
    return World(reads_by_model, {model: (lags or {}).get(model.name, 0.0) for model in reads_by_model})


def diamond(**lags: float) -> World:
    result = world(lags, left="a", right="a b", both="left right", alone="left c")
    result.run_pass()
    result.run_pass()
    result.started.clear()
    return result


def start_models(world: World) -> list[str]:
    names = [model.name for model in world.started]
    world.started.clear()
    return names


def settle(world: World, passes: int = 3) -> None:
    for _ in range(passes):
        world.run_pass()


def test_nothing_starts_where_nothing_moved() -> None:
    result = diamond()
    result.run_pass()
    assert start_models(result) == []


def test_what_moved_and_what_lies_below_it_starts_and_nothing_else() -> None:
    result = diamond()
    result.move(t("b"))
    result.run_pass()
    assert start_models(result) == ["right", "both"]
    result.move(t("c"))
    result.run_pass()
    assert start_models(result) == ["alone"]


def test_models_that_do_not_depend_on_each_other_start_side_by_side() -> None:
    result = diamond()
    result.move(t("a"))
    progress, _ = result.begin(result.graph.list_groups()[0])
    assert [start.model.name for start in progress.take_ready()] == ["left", "right"]
    progress.end_model(t("left"), "changed")
    assert [start.model.name for start in progress.take_ready()] == ["alone"]


def test_a_model_below_one_without_new_rows_is_left_alone() -> None:
    world_ = diamond()
    world_.move(t("a"))
    progress, _ = world_.begin(world_.graph.list_groups()[0])
    for start in progress.take_ready():
        progress.end_model(start.model, "unchanged")
    assert progress.take_ready() == []
    assert progress.is_over


def test_a_failed_model_holds_back_what_is_below_it_and_nothing_else() -> None:
    result = diamond()
    result.fails = {t("right")}
    result.move(t("a"))
    result.run_pass()
    assert start_models(result) == ["left", "right", "alone"]
    result.run_pass()
    assert "right" not in start_models(result)
    result.now += THRESHOLDS.retry_seconds
    result.run_pass()
    assert "right" in start_models(result)
    result.fails = set()
    result.now += 2 * THRESHOLDS.retry_seconds
    settle(result)
    assert result.behind() == []


def test_pauses_grow_up_to_a_limit() -> None:
    record, pauses = Record(), []
    for _ in range(12):
        record = record.record_failure(0.0, THRESHOLDS)
        pauses.append(record.retry_at)
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert pauses[-3:] == [256.0] * 3
    assert compute_retry_pause(10_000, THRESHOLDS) == 256.0


def test_a_source_is_soon_read_again_however_long_its_server_was_away() -> None:
    pauses = [compute_source_pause(failures, THRESHOLDS) for failures in (1, 2, 3, 4, 5, 6, 10_000)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]


def test_a_lost_race_is_tried_again_at_once() -> None:
    result = diamond()
    result.loses = {t("left")}
    result.move(t("a"))
    result.run_pass()
    assert set(start_models(result)) == {"left", "right"}
    result.loses = set()
    result.run_pass()
    assert set(start_models(result)) == {"left", "both", "alone"}
    assert result.behind() == []


def test_a_lag_delays_a_model_and_what_would_mix_with_it() -> None:
    result = diamond(left=30)
    result.now = 10
    result.move(t("a"))
    result.move(t("c"))
    result.run_pass()
    assert set(start_models(result)) == {"right", "alone"}
    result.now = 40
    result.run_pass()
    assert {"left", "both"} <= set(start_models(result))
    assert result.behind() == []


def test_two_lags_that_never_fall_together_do_not_hold_a_model_back_for_ever() -> None:
    result = diamond(left=30, right=31)
    ages = []
    for second in range(1, 200):
        result.now = float(second)
        result.move(t("a"))
        result.run_pass()
        (version,) = result.shows[t("both")][t("a")]
        ages.append(result.heads[t("a")] - version)
    assert max(ages) <= 32


def test_the_clock_is_news_for_a_model_that_is_recomputed_as_often_as_its_lag_says() -> None:
    result = diamond()
    tables, heads = result.tables[t("left")], result.texts()
    record = Record(heads, refreshed_at=100.0, is_recomputed=True)
    assert record.find_news(tables, heads, 129.0, 30.0) == "none"
    assert record.find_news(tables, heads, 130.0, 30.0) == "reads"
    assert record.find_news(tables, heads, 1000.0, 0.0) == "none"


def test_the_clock_is_news_when_it_reaches_the_next_bound() -> None:
    result = diamond()
    tables, heads = result.tables[t("left")], result.texts()
    record = Record(heads, refreshed_at=100.0, renew_at=500.0)
    assert [record.find_news(tables, heads, now, 0.0) for now in (499.0, 500.0)] == ["none", "reads"]
    assert record.find_news(tables, heads, 600.0, 1000.0) == "none"


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
def test_no_model_ever_shows_two_states_of_a_source_and_all_catch_up(world: World, data: st.DataObject) -> None:
    models, sources = list(world.reads), world.sources

    def pick(count: int) -> int:
        return data.draw(st.integers(0, count - 1))

    def between() -> None:
        for source in data.draw(st.sets(st.sampled_from(sources), max_size=2)):
            world.move(source)

    for _ in range(data.draw(st.integers(1, 8))):
        between()
        world.fails = data.draw(st.sets(st.sampled_from(models), max_size=2))
        world.loses = data.draw(st.sets(st.sampled_from(models), max_size=1)) - world.fails
        world.now += data.draw(st.sampled_from([0.5, 1.0, 4.0, 40.0]))
        world.run_pass(pick, between)
        assert world.mixed() == []
    world.fails = world.loses = set()
    for _ in range(len(models) + 1):
        world.now += 1000.0
        world.run_pass()
    assert world.behind() == []
    world.started.clear()
    world.now += 1000.0
    world.run_pass()
    assert world.started == []
