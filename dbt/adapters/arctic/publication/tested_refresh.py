"""Refreshes of a service that become visible after their tests: each on a branch of its thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from arctic_runtime.catalog.branch.catalog_branch import CatalogBranch
from arctic_runtime.catalog.branch.catalog_pointers import BranchScope
from arctic_runtime.errors import DataError
from arctic_runtime.model.names import TableName
from arctic_runtime.operations.refreshing import expire_after_publication
from arctic_runtime.profile import Profile
from arctic_runtime.service.cron_schedules import DataTestOutcome
from arctic_runtime.service.refreshing.refresh_task import RefreshResult, Task
from arctic_runtime.spark.engine.session_pool import get_pool, lend_session
from dbt.adapters.arctic.connections.thread_reader import use_reader

Readers = Callable[[TableName], Sequence[TableName]]


class TestedRefreshes:
    """Refreshes models on branches, and publishes each one whose tests pass.

    Each thread has one branch, which begins anew with each refresh, so that the number of its Spark sessions and
    connections does not grow. `folder` is a folder for the files of the branches, and `get_scope` returns the
    relations of the project.
    """

    def __init__(self, profile: Profile, folder: Path, get_scope: Callable[[], BranchScope]) -> None:
        self._profile = profile
        self._get_scope = get_scope
        self._folder = folder
        self._of_thread = threading.local()

    def refresh_model(
        self,
        task: Task,
        refresh: Callable[[Task], RefreshResult],
        run_tests: Callable[[TableName], Sequence[DataTestOutcome]],
        readers: Readers,
    ) -> RefreshResult:
        """Refreshes the model of a task by `refresh`, and publishes it if all tests of `run_tests` pass.

        Raises DataError if one fails, and CommitConflict if another writer was faster; then nothing is visible.
        """
        model = task.followed.model
        branch = self._get_branch()
        branch.begin_branch(self._get_scope())
        branch.prepare_tables(model.relations)
        try:
            with use_reader(branch.reader):
                done = refresh(task)
                outcomes = run_tests(model.table) if done.refreshed.is_changed else ()
            failed = [outcome for outcome in outcomes if outcome.has_failed]
            if failed:
                raise _build_error(model.table, failed, len(outcomes))
            branch.publish_changes(branch.complete_tables(branch.list_changes()))
        finally:
            branch.remove_copies(())
        if done.refreshed.is_changed and task.with_upkeep:
            with lend_session(get_pool(self._profile)) as session:
                for part in model.parts:
                    expire_after_publication(part, branch.origin, session, readers)
        return done

    def _get_branch(self) -> CatalogBranch:
        if not hasattr(self._of_thread, "branch"):
            file = self._folder / f"refresh-{threading.get_ident()}.db"
            self._of_thread.branch = CatalogBranch(self._profile, file)
        branch: CatalogBranch = self._of_thread.branch
        return branch


def _build_error(table: TableName, failed: Sequence[DataTestOutcome], count: int) -> DataError:
    return DataError(
        f"{table} is not published, since {len(failed)} of {count} tests failed; readers see its rows from before.",
        expected="rows that pass the tests of the model",
        actual="; ".join(map(str, failed)),
        fix="correct the rows where they come from, or the test; then the next refresh reads the same changes again",
    )
