"""The history of tables: when samples are taken, of what, and what happens if they can't be written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from arctic_runtime.catalog.table_samples import TableSample
from arctic_runtime.errors import CatalogError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.freshness import Freshness
from arctic_runtime.service.history import TableHistory, list_samples
from arctic_runtime.service.view.live_data import TableOverview
from arctic_runtime.service.view.table_details import build_table_trend
from tests.unit.service.unreached import unreached_state

NOW = datetime(2026, 1, 1, 23, 40, tzinfo=timezone.utc)
ORDERS = TableOverview(
    TableName("lake", "dwd", "orders"), "model", "behind", 1, rows=7, freshness=Freshness("behind", NOW)
)
LATER = timedelta(minutes=15)


class Store:
    """Keeps samples as the service's table does."""

    def __init__(self) -> None:
        self.kept: list[TableSample] = []
        self.oldest: list[datetime] = []
        self.fails = False

    def read_samples(self, since: datetime, table: str | None = None) -> list[TableSample]:
        return [sample for sample in self.kept if sample.sampled_at >= since]

    def replace_days(self, samples: Sequence[TableSample], oldest: datetime) -> None:
        if self.fails:
            raise CatalogError("the catalog does not answer")
        day = samples[0].sampled_at.date()
        self.kept = [sample for sample in self.kept if sample.sampled_at.date() != day] + list(samples)
        self.oldest.append(oldest)


def make_history(store: Any, tables: Sequence[TableOverview] = (ORDERS,)) -> TableHistory:
    return TableHistory(store, unreached_state(), lambda: tables)


def test_a_sample_has_the_age_of_what_a_table_shows_and_leaves_out_tables_of_others() -> None:
    unknown = replace(ORDERS, freshness=Freshness("behind", None))
    foreign = replace(ORDERS, kind="source", freshness=None)
    samples = list(list_samples([ORDERS, unknown, foreign], NOW + timedelta(seconds=90)))
    assert [(sample.rows, sample.stale_seconds, sample.state) for sample in samples] == [
        (7, 90.0, "behind"),
        (7, None, "behind"),
    ]


def test_samples_are_taken_at_intervals_also_over_a_restart() -> None:
    store = Store()
    history = make_history(store)
    assert history.perform_sample(NOW) == 900
    assert history.perform_sample(NOW + LATER / 3) == 600
    assert make_history(store).perform_sample(NOW + LATER / 3) == 600
    assert make_history(store).perform_sample(NOW + LATER) == 900
    assert [sample.sampled_at for sample in store.kept] == [NOW, NOW + LATER]
    assert store.oldest[-1] == NOW + LATER - timedelta(days=14)


def test_a_new_day_begins_a_file_of_its_own() -> None:
    store = Store()
    history = make_history(store)
    for n in range(4):
        history.perform_sample(NOW + n * LATER)
    assert [sample.sampled_at.day for sample in store.kept] == [1, 1, 2, 2]


def test_a_sample_that_can_not_be_written_is_shown_and_tried_again_soon() -> None:
    store = Store()
    history = make_history(store)
    store.fails = True
    pause = history.perform_sample(NOW)
    assert pause < 60
    assert history._shared.get_state().errors == {"history": "the catalog does not answer"}
    store.fails = False
    history.perform_sample(NOW + timedelta(seconds=pause))
    assert history._shared.get_state().errors == {}
    assert [sample.sampled_at for sample in store.kept] == [NOW + timedelta(seconds=pause)]


def test_a_service_without_tables_is_asked_again_soon_and_a_clock_set_back_does_no_harm() -> None:
    assert make_history(Store(), ()).perform_sample(NOW) < 10
    store = Store()
    history = make_history(store)
    history.perform_sample(NOW)
    history.perform_sample(NOW - timedelta(hours=2))
    assert len(store.kept) == 2


def test_a_trend_has_the_samples_of_a_table_in_lists() -> None:
    samples = [TableSample(NOW, "t", 5, None, "failed"), TableSample(NOW + LATER, "t", 6, 1.5, "fresh")]
    trend = build_table_trend(ORDERS.table, samples)
    assert (trend.at, trend.rows) == ((NOW, NOW + LATER), (5, 6))
    assert (trend.stale_seconds, trend.states) == ((None, 1.5), ("failed", "fresh"))
