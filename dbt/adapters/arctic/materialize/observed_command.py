"""Observes a command of dbt that runs models, if its environment or its target says so."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger
from dbt.flags import get_flags
from dbt_common.events.event_manager_client import add_callback_to_manager

from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName
from arctic_runtime.service.telemetry.configured import read_telemetry
from dbt.adapters.arctic.materialize.maintain import (
    ObserveRefresh,
    is_arctic,
    is_pinned,
    perform_unobserved,
    read_declared_model,
)

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model
    from arctic_runtime.operations.refreshing import Refreshed
    from arctic_runtime.service.refreshing.refresh_task import RefreshListeners
    from arctic_runtime.service.telemetry.observation import Telemetry

logger = AdapterLogger("Arctic")

COMMANDS = frozenset({"build", "run"})
"""Commands of dbt that are observed; `dbt retry` is the one that it repeats."""

_FAILED = frozenset({"error", "fail", "runtime error", "partial success"})
"""dbt's statuses of nodes that make a command fail."""


class ObservedCommand:
    """Observes a command of dbt from its first model, or its failure before, until dbt closes all connections.

    It has no effect if nothing is configured. Its methods may be called by any thread, and raise only errors of the
    work that they observe.
    """

    def __init__(self, config: Any) -> None:
        """Describes the command of an adapter with dbt's `config`; imports and opens nothing."""
        self._config = config
        self._began = time.time()
        self._is_begun = False
        self._beginning = threading.Lock()
        self._telemetry: Telemetry | None = None
        self._listeners: RefreshListeners | None = None
        self._manifest: Any = None
        self._reported: set[str] = set()
        self._failed: list[str] = []

    def begin_command(self, manifest: Any) -> None:
        """Begins to observe the command, once, if it runs models and anything is configured."""
        with self._beginning:
            if not self._is_begun and getattr(get_flags(), "WHICH", None) in COMMANDS:
                self._begin_once(manifest)

    def _begin_once(self, manifest: Any) -> None:
        self._is_begun, self._manifest = True, manifest
        config = self._config
        settings = read_telemetry(config.credentials.telemetry, Path(config.project_root), os.environ)
        if not settings.is_on:
            return
        try:
            self._open_telemetry(settings)
        except Exception as error:
            _warn(f"this command is not observed, since {type(error).__name__}: {error}")
            self._telemetry = None

    def _open_telemetry(self, settings: Any) -> None:
        # Imported here, since most commands are not observed.
        from arctic_runtime.service.refreshing.refresh_task import RefreshListeners
        from arctic_runtime.service.telemetry.command_metrics import Command
        from arctic_runtime.service.telemetry.observation import open_telemetry

        config = self._config
        command = Command(f"dbt {get_flags().WHICH}", str(config.project_name), str(config.target_name))
        limits = config.credentials.thresholds.telemetry
        telemetry = open_telemetry(command, settings, self._build_reader, _warn, limits, began=self._began)
        self._listeners = telemetry.add_to(RefreshListeners())
        self._telemetry = telemetry.__enter__()
        if str(config.credentials.publish) == "build":
            telemetry.hold_reports()
        add_callback_to_manager(self._note_event)

    def _build_reader(self) -> CatalogReader:
        """Builds a reader of the catalog itself, also while the adapter writes to a branch."""
        return CatalogReader(self._config.credentials.to_profile(Path(self._config.project_root)))

    def observe_node(self, node: Mapping[str, Any], manifest: Any) -> ObserveRefresh:
        """Returns the function that observes the refresh of a model, given by its node.

        It observes no refresh that is a part of one of `arctic run` or of a service, which observe it themselves.
        """
        if is_pinned():
            return perform_unobserved
        self.begin_command(manifest)
        if self._telemetry is None:
            return perform_unobserved
        name = str(node["unique_id"])

        def observe_refresh(model: Model, refresh: Callable[[], Refreshed]) -> Refreshed:
            return self._observe_refresh(name, model, refresh)

        return observe_refresh

    def _observe_refresh(self, name: str, model: Model, refresh: Callable[[], Refreshed]) -> Refreshed:
        from arctic_runtime.service.refreshing.refresh_task import RefreshResult, Task, attempt_refresh
        from arctic_runtime.service.refreshing.source_relations import FollowedModel

        assert self._listeners is not None
        task = Task(FollowedModel(model, name, self._list_declared(name)), PinnedSnapshots(), True, False)
        report, error = attempt_refresh(self._listeners.trace(lambda _: RefreshResult(refresh())), task)
        if report.status == "failed":
            self._reported.add(name)
        self._listeners.report(report)
        if error is not None:
            raise error
        assert report.done is not None
        return report.done.refreshed

    def _list_declared(self, name: str) -> frozenset[TableName]:
        """Returns the tables that a model reads by `ref` and `source`."""
        nodes, sources = getattr(self._manifest, "nodes", {}), getattr(self._manifest, "sources", {})
        node = nodes.get(name)
        parents = [nodes.get(other) or sources.get(other) for other in (node.depends_on_nodes if node else ())]
        return frozenset(
            TableName(str(parent.database), str(parent.schema), str(getattr(parent, "identifier", "") or parent.alias))
            for parent in parents
            if parent is not None
        )

    def _note_event(self, message: Any) -> None:
        """Notes nodes and hooks that failed; a callback for dbt's events, which must not raise an error."""
        with suppress(Exception):
            name = message.info.name
            if name == "NodeFinished" and str(message.data.run_result.status) in _FAILED:
                self._note_failure(message.data)
            elif name == "LogHookEndLine" and str(message.data.status) == "error":
                self._failed.append("a hook")

    def _note_failure(self, ended: Any) -> None:
        """Notes a node that failed; reports an arctic model, unless its refresh has been reported as failed."""
        from arctic_runtime.service.refreshing.refresh_task import Report
        from arctic_runtime.service.refreshing.source_relations import FollowedModel

        name = str(ended.node_info.unique_id)
        self._failed.append(name.split(".")[2])
        node = getattr(self._manifest, "nodes", {}).get(name)
        if self._telemetry is None or node is None or not is_arctic(node) or name in self._reported:
            return
        self._reported.add(name)
        seconds = float(ended.run_result.execution_time)
        began = datetime.now(timezone.utc) - timedelta(seconds=seconds)
        followed = FollowedModel(read_declared_model(node), name, self._list_declared(name))
        self._telemetry.report_failure(
            Report(followed, "failed", began, seconds, error=str(ended.run_result.message) or "failed")
        )

    @contextmanager
    def end_command(self) -> Iterator[dict[str, str]]:
        """Ends the command after the work of the context, if it is observed; at most once.

        Yields a mapping for the ids of nodes that were not published, and the reasons.
        """
        unpublished: dict[str, str] = {}
        error = sys.exc_info()[1]
        if error is not None:
            self.begin_command(None)
        try:
            yield unpublished
        except Exception as failure:
            error = failure
            raise
        finally:
            telemetry, self._telemetry = self._telemetry, None
            if telemetry is not None:
                self._close_telemetry(telemetry, error, unpublished)

    def _close_telemetry(
        self, telemetry: Telemetry, error: BaseException | None, unpublished: Mapping[str, str]
    ) -> None:
        if error is None or unpublished:
            telemetry.release_reports(unpublished)
        if self._failed:
            telemetry.fail_command(f"failed: {', '.join(self._failed[:20])}")
        telemetry.__exit__(None if error is None else type(error), error, None)


def _warn(text: str) -> None:
    """Shows a warning; one of dbt's options makes warnings errors, and then it is only shown."""
    try:
        logger.warning(text)
    except Exception:
        logger.info(text)
