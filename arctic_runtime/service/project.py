"""A project as a service sees it: its models, and the work that only the project's own tool can do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.upkeep import Maintained
from arctic_runtime.service.refreshing.refresh_task import Done, Task
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.schedules.cron_schedules import DataTestOutcome, Scheduled


class Project(Protocol):
    """The project that a service keeps fresh; what it has may change while the service runs."""

    @property
    def name(self) -> str: ...

    @property
    def threads(self) -> int:
        """Number of models that are refreshed side by side."""

    def prepare_thread(self) -> None:
        """Readies a thread that refreshes models, or has dbt run or test them."""

    # Models that are refreshed

    def has_changed(self) -> bool:
        """Whether files of the project are others than when it was last loaded; cheap."""

    def load_models(self) -> Sequence[FollowedModel] | None:
        """The models as the project has them now; None if it can't be used, of which the user was warned."""

    def list_followed(self) -> Sequence[FollowedModel]:
        """The models that are kept fresh."""

    def refresh_model(self, task: Task) -> Done:
        """Refreshes a model in the calling thread; raises what `RefreshModel` raises."""

    # Models that dbt runs, and tests

    def list_scheduled(self) -> Sequence[Scheduled]:
        """The models that dbt runs at times, each after all that it reads."""

    def run_scheduled(self, name: str) -> str:
        """Runs one in the calling thread; what dbt says of it. Raises why it failed."""

    def list_tested_tables(self) -> Collection[TableName]:
        """The tables whose tests are run after each refresh."""

    def test_table(self, table: TableName) -> Sequence[DataTestOutcome]:
        """Runs the tests of a table in the calling thread."""

    # Tables

    def list_models(self) -> Sequence[Model]:
        """The tables that operations take: of models, compiled, of ingested sources, and landing tables."""

    def list_maintained(self) -> Sequence[Maintained]:
        """The tables that are kept up."""

    def list_expected_tables(self) -> Collection[TableName]:
        """The tables that ingestion makes when their first rows come."""
