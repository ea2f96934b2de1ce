"""The interface to the dbt project that a service works for: its models, and the work that only dbt can do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.upkeep import Maintained
from arctic_runtime.service.project_source import ProjectSource
from arctic_runtime.service.refreshing.refresh_task import RefreshResult, Task
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.schedules.cron_schedules import DataTestOutcome, Scheduled
from arctic_runtime.service.table_docs import TableDocs


class ServedProject(Protocol):
    """The project that a service keeps fresh; its models may change while the service runs."""

    @property
    def name(self) -> str: ...

    @property
    def threads(self) -> int:
        """Number of models that are refreshed in parallel."""

    def prepare_thread(self) -> None:
        """Prepares the calling thread for refreshing models, and for running or testing them with dbt."""

    # Models that are refreshed

    def has_changed(self) -> bool:
        """Whether files of the project have changed since it was last loaded; cheap to call."""

    def load_models(self) -> Sequence[FollowedModel] | None:
        """Loads the project again and returns its models; if it can't be used, warns the user and returns None."""

    def list_followed(self) -> Sequence[FollowedModel]:
        """Returns the arctic models that the service refreshes when their upstreams change."""

    def refresh_model(self, task: Task) -> RefreshResult:
        """Refreshes a model in the calling thread; raises the errors of `RefreshModel`."""

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

    def list_maintained(self) -> Sequence[Maintained]:
        """Returns the tables whose files the service maintains (compaction, expiry and so on)."""

    def list_sources(self) -> Sequence[ProjectSource]:
        """Returns the ingested sources; ingestion creates their tables when the first rows arrive."""
