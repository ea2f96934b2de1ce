"""A follower over a catalog on disk: when it refreshes whom. Refreshes are functions here; there is no Spark."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.catalog.heads import observe_heads
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CommitConflict, ConfigError, DataError, SparkEnded
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.service.refreshing.follower import FollowedModels, Follower
from arctic_runtime.service.refreshing.refresh_task import (
    RefreshListeners,
    RefreshModel,
    RefreshResult,
    RefreshWorkers,
    Report,
    Task,
)
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.shared_state import SharedState
from arctic_runtime.spark.engine.java.process import PROCESS
from tests.thresholds import changed


def t(name: str) -> TableName:
    return TableName("lake", "dwd", name)


def model(name: str, sql: str, declared: tuple[str, ...] = (), **config: Any) -> FollowedModel:
    return FollowedModel(
        Model(t(name), sql, ModelConfig(("id",), **config)), f"model.shop.{name}", frozenset(map(t, declared))
    )


@dataclass
class Shop:
    """A warehouse with two sources, and a refresh that commits a row to the model's table where it has news."""

    warehouse: Any
    tasks: list[Task] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    fails: dict[str, Exception] = field(default_factory=dict)
    meanwhile: Callable[[str], None] = lambda _: None
    news: threading.Condition = field(default_factory=threading.Condition)
    seconds: float = 0.0
    """What the clock of followers shows; it stands until a test sets it."""

    def move(self, name: str) -> None:
        self.warehouse.append(name, [(1, "x")])

    def refresh(self, task: Task) -> RefreshResult:
        name = task.followed.table.name
        self.tasks.append(task)
        self.meanwhile(name)
        if name in self.fails:
            raise self.fails[name]
        if task.has_news:
            self.move(name)
        return RefreshResult(Refreshed(Outcome("incremental" if task.has_news else "unchanged", "CHANGES")))

    def follower(self, *models: FollowedModel, **service: Any) -> Follower:
        profile = self.warehouse.reader.profile
        profile = replace(profile, thresholds=changed(profile.thresholds, service=service))
        shared = SharedState(CatalogReader(profile))
        listeners = RefreshListeners(self.warn, self.report)
        made = Follower(shared, RefreshWorkers(self.refresh, 2), listeners, lambda: self.seconds)
        made.follow_models(models)
        return made

    def let_pass(self, seconds: float, follower: Follower) -> None:
        """Time passes; a look that is under way meanwhile does not count as a long one."""
        self.seconds += seconds
        follower.wake_up()

    def report(self, report: Report) -> None:
        with self.news:
            self.reports.append(report)
            self.news.notify_all()

    def warn(self, text: str) -> None:
        with self.news:
            self.warnings.append(text)
            self.news.notify_all()

    def wait(self, until: Callable[[], bool]) -> None:
        with self.news:
            assert self.news.wait_for(until, 30), "it did not come to hold"

    def list_statuses(self, name: str) -> list[str]:
        return [report.status for report in self.reports if report.followed.table.name == name]

    def asked(self) -> list[tuple[str, bool]]:
        """Who was refreshed since this was last asked, and whether there were news."""
        tasks = [(task.followed.table.name, task.has_news) for task in self.tasks]
        self.tasks.clear()
        return sorted(tasks)


@pytest.fixture
def shop(writing: Any, tmp_path: Path) -> Shop:
    warehouse = writing.warehouse(tmp_path)
    for name in ("a", "b", "left", "right", "both"):
        warehouse.create(name)
    for name in ("a", "b"):
        warehouse.append(name, [(1, "x")])
    return Shop(warehouse)


LEFT = model("left", "select id, note from lake.dwd.a")
RIGHT = model("right", "select id, note from a")
BOTH = model("both", "select l.id, r.note from `left` l join `right` r on l.id = r.id")


def test_a_look_tells_of_all_relations_at_once_which_exist_and_what_they_are(shop: Shop) -> None:
    shop.warehouse.create_view("v", "select 1 as id")
    heads = observe_heads(shop.warehouse.reader, [t("a"), t("v"), t("nothing")])
    assert set(heads.heads) == {t("a"), t("v")}
    assert heads.views == {t("v")}
    shop.move("a")
    after = observe_heads(shop.warehouse.reader, [t("a"), t("v")])
    assert [head for head in after.heads if after.heads[head] != heads.heads[head]] == [t("a")]


def test_a_source_that_moves_before_it_is_pinned_is_news_to_all_its_readers(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model below reads `a` at its pin, so the model above must not be left out with an older version."""
    mixed = model("both", "select l.id from `left` l join a on l.id = a.id join b on b.id = a.id")
    pin_sources, moves = FollowedModels.pin_sources, ["a"]

    def move_before_the_pin(self: FollowedModels, *arguments: Any) -> None:
        if moves and any(shop.reports):
            shop.move(moves.pop())
        pin_sources(self, *arguments)

    monkeypatch.setattr(FollowedModels, "pin_sources", move_before_the_pin)
    with shop.follower(LEFT, mixed) as follower:
        for _ in range(2):
            follower.run_once()
        moves[:] = ["a"]
        shop.asked()
        shop.move("b")
        follower.run_once()
        assert shop.asked() == [("both", True), ("left", True)]


def test_models_are_refreshed_until_nothing_is_new(shop: Shop) -> None:
    with shop.follower(LEFT, RIGHT, BOTH) as follower:
        follower.run_once()
        assert [task.followed.table.name for task in shop.tasks][-1] == "both"
        assert shop.asked() == [("both", True), ("left", True), ("right", True)]
        follower.run_once()
        assert shop.asked() == [("both", False), ("left", False), ("right", False)]
        follower.run_once()
        assert shop.asked() == []
        shop.move("b")
        follower.run_once()
        assert shop.asked() == []
        shop.move("a")
        follower.run_once()
        assert shop.asked() == [("both", True), ("left", True), ("right", True)]


def test_a_pass_reads_one_version_of_a_source_although_it_moves_on(shop: Shop) -> None:
    before = shop.warehouse.version("a")
    shop.meanwhile = lambda name: shop.move("a") if name == "left" else None
    with shop.follower(LEFT, RIGHT, BOTH) as follower:
        follower.run_once()

    def refuse() -> None:
        raise AssertionError("the source was read again")

    versions = [task.pins.get_first(t("a"), refuse) for task in shop.tasks]
    assert [version.version for version in versions if version is not None] == [before] * 3


def test_a_failed_model_is_reported_with_its_pause_and_those_below_are_skipped(shop: Shop) -> None:
    shop.fails = {"right": DataError("two rows have one key", fix="drop one")}
    with shop.follower(LEFT, RIGHT, BOTH) as follower:
        follower.run_once()
    reports = {report.followed.table.name: report for report in shop.reports}
    assert {name: report.status for name, report in reports.items()} == {
        "left": "refreshed",
        "right": "failed",
        "both": "skipped",
    }
    assert (reports["right"].error_details, reports["right"].retry_seconds) == ({"fix": "drop one"}, 1.0)
    assert reports["right"].error == "two rows have one key\n  what to do: drop one"
    assert reports["both"].held_by == t("right")


def test_refreshes_are_called_as_they_are_traced(shop: Shop) -> None:
    traced: list[str] = []

    def trace(refresh: RefreshModel) -> RefreshModel:
        def refresh_traced(task: Task) -> RefreshResult:
            traced.append(task.followed.name)
            return refresh(task)

        return refresh_traced

    shared, workers = SharedState(shop.warehouse.reader), RefreshWorkers(shop.refresh, 1)
    with Follower(shared, workers, RefreshListeners(report=shop.report, trace=trace)) as follower:
        follower.follow_models([LEFT])
        follower.run_once()
    assert traced == [LEFT.name]
    assert shop.list_statuses("left") == ["refreshed"]


def test_a_lost_race_is_tried_again_within_one_run(shop: Shop) -> None:
    shop.fails = {"left": CommitConflict("Another writer committed first")}
    shop.meanwhile = lambda name: shop.fails.clear() if len(shop.tasks) > 3 else None
    with shop.follower(LEFT, BOTH) as follower:
        follower.run_once()
    assert {report.followed.table.name: report.status for report in shop.reports} == {
        "left": "refreshed",
        "both": "refreshed",
    }


def test_views_are_looked_into_as_they_are_now(shop: Shop) -> None:
    shop.warehouse.create_view("v", "select id, note from a")
    with shop.follower(model("left", "select * from v")) as follower:
        follower.run_once()
        follower.run_once()
        shop.asked()
        shop.move("a")
        follower.run_once()
        assert ("left", True) in shop.asked()


def test_a_query_that_nobody_can_parse_is_followed_by_what_dbt_says_of_it(shop: Shop) -> None:
    with shop.follower(model("left", "from a |> nonsense !!", declared=("b",))) as follower:
        follower.run_once()
        follower.run_once()
        shop.asked()
        shop.move("b")
        follower.run_once()
        assert shop.asked() == [("left", True)]


def test_only_a_model_that_was_edited_is_planned_anew(shop: Shop) -> None:
    with shop.follower(LEFT, RIGHT) as follower:
        follower.run_once()
        follower.run_once()
        shop.asked()
        follower.follow_models([LEFT, model("right", "select id, upper(note) as note from a"), BOTH])
        follower.run_once()
        assert shop.asked() == [("both", True), ("right", True)]


def test_models_that_read_each_other_are_refused_and_the_old_ones_stay(shop: Shop) -> None:
    with shop.follower(LEFT) as follower:
        with pytest.raises(ConfigError, match="in a circle"):
            follower.follow_models([model("left", "select * from `right`"), model("right", "select * from `left`")])
        follower.run_once()
        assert shop.asked() == [("left", True)]


class Edited:
    """A project that is edited once, when a test says so."""

    def __init__(self, *models: FollowedModel) -> None:
        self.edited, self.models = models, list[FollowedModel]()

    def edit(self) -> None:
        self.models = list(self.edited)

    def has_changed(self) -> bool:
        return bool(self.models)

    def load_models(self) -> list[FollowedModel]:
        models, self.models = self.models, []
        return models


@contextmanager
def running(follower: Follower, project: Any = None) -> Iterator[None]:
    """A follower that runs in a thread of its own meanwhile."""
    thread = threading.Thread(target=follower.run_until_stopped, args=(project,))
    thread.start()
    try:
        yield
    finally:
        follower.stop_following()
        thread.join(30)
    assert not thread.is_alive()


def test_whoever_wakes_a_follower_ends_its_pause(shop: Shop) -> None:
    with shop.follower(LEFT, poll_seconds=1000.0) as follower, running(follower):
        shop.wait(lambda: "refreshed" in shop.list_statuses("left"))
        shop.move("a")
        follower.wake_up()
        shop.wait(lambda: shop.list_statuses("left").count("refreshed") == 2)


def test_a_model_that_is_added_while_it_runs_is_followed(shop: Shop) -> None:
    project = Edited(LEFT, BOTH)
    with shop.follower(RIGHT, poll_seconds=0.02, project_poll_seconds=60.0) as follower, running(follower, project):
        shop.wait(lambda: "refreshed" in shop.list_statuses("right"))
        project.edit()
        shop.move("a")
        shop.wait(lambda: shop.list_statuses("right").count("refreshed") == 2)
        assert shop.list_statuses("both") == [], "the project was looked at before its time"
        shop.let_pass(60.0, follower)
        shop.wait(lambda: "refreshed" in shop.list_statuses("both"))


def test_a_model_that_is_removed_while_it_runs_is_refreshed_no_more(shop: Shop) -> None:
    removed = Edited(replace(RIGHT, name="right without left"))
    with shop.follower(LEFT, RIGHT, poll_seconds=0.02, project_poll_seconds=60.0) as follower:
        with running(follower, removed):
            shop.wait(lambda: "refreshed" in shop.list_statuses("left") and "refreshed" in shop.list_statuses("right"))
            removed.edit()
            shop.let_pass(60.0, follower)
            shop.wait(lambda: "right without left" in [report.followed.name for report in shop.reports])
            shop.tasks.clear()
            before = shop.list_statuses("right").count("refreshed")
            shop.move("a")
            shop.wait(lambda: shop.list_statuses("right").count("refreshed") > before)
        assert "left" not in [task.followed.table.name for task in shop.tasks]


def test_a_source_that_is_dropped_and_made_again_is_read_again(shop: Shop) -> None:
    with shop.follower(LEFT) as follower:
        follower.run_once()
        follower.run_once()
        shop.asked()
        shop.warehouse.reader.catalog.drop_table(("dwd", "a"))
        shop.fails = {"left": DataError("there is no table a")}
        follower.run_once()
        assert shop.asked() == [("left", True)]
        shop.fails = {}
        shop.warehouse.create("a")
        shop.move("a")
        shop.seconds += 60.0
        with running(follower):
            shop.wait(lambda: shop.list_statuses("left").count("refreshed") == 2)


def test_a_failure_is_tried_again_when_its_pause_is_over_and_not_before(shop: Shop) -> None:
    other = model("right", "select id, note from b")
    shop.fails = {"left": DataError("no")}
    with shop.follower(LEFT, other, poll_seconds=0.02, retry_seconds=60.0) as follower, running(follower):
        shop.wait(lambda: shop.list_statuses("left") == ["failed"] and "refreshed" in shop.list_statuses("right"))
        shop.move("b")
        shop.wait(lambda: shop.list_statuses("right").count("refreshed") == 2)
        assert shop.list_statuses("left") == ["failed"]
        shop.let_pass(60.0, follower)
        shop.wait(lambda: shop.list_statuses("left") == ["failed", "failed"])
        shop.fails.clear()
        shop.let_pass(120.0, follower)
        shop.wait(lambda: "refreshed" in shop.list_statuses("left"))


@pytest.mark.parametrize("url", ["", "sc://spark.internal"])
def test_a_refresh_is_tried_again_if_a_server_of_others_ended_and_else_ends_the_follower(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(PROCESS, "server", url)
    monkeypatch.setattr(PROCESS, "is_server_kept", False)
    shop.fails = {"left": SparkEnded("Spark is gone.")}
    with shop.follower(LEFT, poll_seconds=0.02, retry_seconds=60.0) as follower:
        if not url:
            with pytest.raises(SparkEnded):
                follower.run_until_stopped()
            return
        with running(follower):
            shop.wait(lambda: shop.list_statuses("left") == ["failed"])
            shop.fails.clear()
            shop.let_pass(60.0, follower)
            shop.wait(lambda: "refreshed" in shop.list_statuses("left"))


def test_a_catalog_that_does_not_answer_is_reported_and_asked_again(shop: Shop) -> None:
    def rename(table: str, to: str) -> None:
        with closing(sqlite3.connect(shop.warehouse.profile.sqlite_file)) as database, database:
            database.execute(f"alter table {table} rename to {to}")

    with shop.follower(LEFT, poll_seconds=0.02, retry_seconds=60.0) as follower:
        follower.run_once()
        rename("iceberg_tables", "elsewhere")
        with running(follower):
            shop.wait(lambda: bool(shop.warnings))
            rename("elsewhere", "iceberg_tables")
            shop.move("a")
            shop.seconds += 60.0
            shop.wait(lambda: shop.list_statuses("left").count("refreshed") == 2)
    (warning,) = shop.warnings
    assert "tried again in 60 s" in warning
