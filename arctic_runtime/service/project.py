"""The dbt project that a service works for: models, sources and descriptions, and the work that only dbt can do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.upkeep import Maintained
from arctic_runtime.service.cron_schedules import DataTestOutcome, Scheduled
from arctic_runtime.service.refreshing.refresh_task import RefreshResult, Task
from arctic_runtime.service.refreshing.source_relations import FollowedModel

if TYPE_CHECKING:
    from arctic_runtime.query.relations import RelationLookup

LastStatus = Literal["pass", "warn", "fail", "error", "unknown"]
"""Status of a data test's newest run; `unknown` if no run of it is known."""


@dataclass(frozen=True)
class LastDataTest:
    """A data test of a table with its newest known outcome; `at` is the end of that run."""

    name: str
    status: LastStatus = "unknown"
    message: str = ""
    at: datetime | None = None


@dataclass(frozen=True)
class TableDocs:
    """Description of a table in the project; `columns` has those of its columns, by their names in lower case."""

    description: str = ""
    sql: str = ""
    """Source code of the model, with its Jinja; empty for a table that no model of the project computes."""

    columns: Mapping[str, str] = field(default_factory=dict)
    tests: tuple[LastDataTest, ...] = ()
    masks: Mapping[str, bool] = field(default_factory=dict)
    """Masks of columns, as in `Model.masks`."""


@dataclass(frozen=True)
class _Run:
    """A run of a table's data tests: its end, and the outcomes by the tests' names."""

    at: datetime
    outcomes: Mapping[str, DataTestOutcome]


class DataTestRuns:
    """The last run of each table's data tests by the service; may be used by any thread."""

    def __init__(self) -> None:
        self._runs: dict[TableName, _Run] = {}

    def record_run(self, table: TableName, outcomes: Iterable[DataTestOutcome], at: datetime) -> None:
        """Records a run that ended at the time `at`."""
        self._runs[table] = _Run(at, {outcome.name: outcome for outcome in outcomes})

    def add_results(self, table: TableName, docs: TableDocs) -> TableDocs:
        """Returns `docs`, which have the results of dbt, with those of the service where they are newer.

        Failing tests come first.
        """
        run = self._runs.get(table)
        newest = docs.tests if run is None else tuple(_choose_newest(test, run) for test in docs.tests)
        return replace(docs, tests=tuple(sorted(newest, key=lambda test: (_RANK[test.status], test.name))))


def _choose_newest(test: LastDataTest, run: _Run) -> LastDataTest:
    outcome = run.outcomes.get(test.name)
    if outcome is None or (test.at is not None and test.at > run.at):
        return test
    return LastDataTest(test.name, outcome.status, outcome.message, run.at)


_RANK: Mapping[LastStatus, int] = {"error": 0, "fail": 0, "warn": 1, "unknown": 2, "pass": 3}


@dataclass(frozen=True)
class ProjectSource:
    """A source of the project: its name, its connection for people, without secrets, and its declared tables.

    `names` are the names of these tables in the source, and `dead_letters` is the table that stores its progress.
    """

    name: str
    connection: str = ""
    tables: tuple[TableName, ...] = ()
    names: Mapping[TableName, str] = field(default_factory=dict)
    dead_letters: TableName | None = None


class FollowedProject(Protocol):
    """A project whose models a follower refreshes; they may change while it runs."""

    @property
    def name(self) -> str: ...

    @property
    def reader(self) -> CatalogReader:
        """The catalog of the models."""

    @property
    def threads(self) -> int:
        """Number of models that are refreshed in parallel."""

    def prepare_thread(self) -> None:
        """Prepares the calling thread for refreshing models, and for running or testing them with dbt."""

    def has_changed(self) -> bool:
        """Whether files of the project have changed since it was last loaded; cheap to call."""

    def load_models(self) -> Sequence[FollowedModel] | None:
        """Loads the project again and returns its models; if it can't be used, warns the user and returns None."""

    def list_followed(self) -> Sequence[FollowedModel]:
        """Returns the arctic models that are refreshed when their upstreams change."""

    def refresh_model(self, task: Task) -> RefreshResult:
        """Refreshes a model in the calling thread; raises the errors of `RefreshModel`."""


class ServedProject(FollowedProject, Protocol):
    """The project that a service keeps fresh: also the work that dbt does for it, its tables and its sources."""

    # Models that dbt runs, and tests

    def list_scheduled(self) -> Sequence[Scheduled]:
        """Returns the models that dbt runs on a schedule, each after all scheduled models that it reads."""

    def run_scheduled(self, name: str) -> str:
        """Runs the scheduled model `name` in the calling thread; returns dbt's output, or raises the run's error."""

    def list_tested_tables(self) -> Collection[TableName]:
        """Returns the tables whose dbt data tests are run after each refresh."""

    def test_table(self, table: TableName) -> Sequence[DataTestOutcome]:
        """Runs the dbt data tests of a table in the calling thread; returns their outcomes."""

    def describe_table(self, table: TableName) -> TableDocs:
        """Returns the project's description of a table, with its data tests as the service or dbt last ran them."""

    # Tables

    def list_models(self) -> Sequence[Model]:
        """Returns the tables that operations accept: compiled models, tables of ingested sources, landing tables."""

    def list_descendants(self, tables: Collection[TableName]) -> Collection[TableName]:
        """Returns the tables that are computed from any of `tables`, also through others."""

    def build_lookup(self) -> RelationLookup:
        """Builds the lookup of the tables and views that queries name, with the masks of their columns."""

    def list_maintained(self) -> Sequence[Maintained]:
        """Returns the tables whose files the service maintains (compaction, expiry and so on)."""

    def list_sources(self) -> Sequence[ProjectSource]:
        """Returns the ingested sources; ingestion creates their tables when the first rows arrive."""
