"""Refreshes a followed model: only by the runtime if this gives the result of `dbt run`, else by dbt's runner."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, get_args

from dbt_common.exceptions import DbtBaseException

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.step import Reason
from arctic_runtime.model.table import Model
from arctic_runtime.operations.refreshing import Refreshed, refresh_parts
from arctic_runtime.plan.refresh.decide import COMPUTED_EACH_TIME
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.service.refreshing.refresh_task import Refresher, RefreshResult, Task, plan_task
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.spark.engine.session_pool import get_pool
from dbt.adapters.arctic.materialize import maintain
from dbt.adapters.arctic.materialize.readers import Readers
from dbt.adapters.arctic.materialize.row_conditions import RowConditions
from dbt.adapters.arctic.project.compiled_project import build_compiled_model, build_relation
from dbt.adapters.arctic.project.loaded_project import LoadedProject
from dbt.adapters.arctic.project.sources import map_source_tables

_CHANGING = re.compile(
    r"\b(run_query|statement|load_result|is_incremental|run_started_at|invocation_id|modules)\b"
    r"|\badapter\s*\.\s*(?!dispatch\b|quote\b|changes_of\b|quarantine_of\b)"
)
"""Pattern of Jinja whose result depends on the warehouse, the invocation or the clock."""

_OWN_MACROS = ("macro.dbt_arctic.changes", "macro.dbt_arctic.quarantine")
"""Macros that call the adapter, but return the same text at each compilation."""


def needs_dbt(node: Any) -> bool:
    """Whether a refresh of a model needs dbt for more than its rows: hooks, Python or a set `full_refresh`."""
    config = node.config
    return bool(node.language == "python" or config.pre_hook or config.post_hook or config.get("full_refresh"))


def is_persisting_docs(node: Any) -> bool:
    """Whether the model's descriptions are stored in the catalog (`persist_docs`)."""
    wanted = node.config.get("persist_docs") or {}
    return bool(wanted.get("relation") or wanted.get("columns"))


def is_volatile(node: Any, manifest: Any) -> bool:
    """Whether a model's compiled query may depend on more than the project's files, such as tables or the clock."""
    return any(_CHANGING.search(text) for text in _list_jinja_texts(node, manifest, set()))


def _list_jinja_texts(node: Any, manifest: Any, seen: set[str]) -> Iterator[str]:
    """Yields the Jinja texts of a node, of the macros that it calls, and of ephemeral models compiled into it.

    Macros whose ids are in `seen` are left out; the ids of yielded macros are added to `seen`.
    """
    yield node.raw_code
    yield from _list_macros(node, manifest, seen)
    for unique_id in node.depends_on_nodes:
        parent = manifest.nodes.get(unique_id)
        if parent is not None and parent.is_ephemeral_model:
            yield from _list_jinja_texts(parent, manifest, seen)


def _list_macros(owner: Any, manifest: Any, seen: set[str]) -> Iterator[str]:
    for unique_id in owner.depends_on.macros:
        macro = manifest.macros.get(unique_id)
        if macro is not None and unique_id not in seen and unique_id not in _OWN_MACROS:
            seen.add(unique_id)
            yield macro.macro_sql
            yield from _list_macros(macro, manifest, seen)


NOTHING_NEW = Refreshed(Outcome("unchanged", "NOTHING_NEW"))


class DbtRefresher:
    """Refreshes models of a project as `dbt run` does, without the work that dbt repeats in each invocation.

    Queries are compiled once; those that depend on more than the project's files are compiled before each refresh.
    Models that need dbt, such as those with hooks or in Python, are run by dbt's runner in this process.
    """

    def __init__(self, project: LoadedProject) -> None:
        manifest = project.manifest
        self._project = project
        self.reader: CatalogReader = project.adapter.catalog_reader
        self.readers = Readers(manifest.nodes.values(), manifest.sources.values()).list_readers
        """Returns the tables of the models that may read a table."""

        self._tests = RowConditions(manifest)
        self._sources = map_source_tables(manifest.sources.values())
        self._volatile = {name for name, node in project.nodes.items() if is_volatile(node, manifest)}
        self.nodes: dict[str, Any] = dict(project.nodes)
        """Nodes of the models as of their last compilation, by unique id."""

    def list_followed(self) -> list[FollowedModel]:
        """Lists the project's models with compiled queries; if one can't be compiled yet, its refresh compiles it."""
        return [self._build_followed(name, node) for name, node in self._project.nodes.items()]

    def __call__(self, task: Task) -> RefreshResult:
        node = self._project.nodes[task.followed.name]
        try:
            return self._refresh_python(node, task) if node.language == "python" else self._refresh_sql(node, task)
        except DbtBaseException as error:
            ours = next((cause for cause in _walk_causes(error) if isinstance(cause, ArcticError)), None)
            raise error if ours is None else ours from error

    def _build_followed(self, name: str, node: Any) -> FollowedModel:
        project = self._project
        declared = frozenset(TableName(*map(str, _get_relation_parts(parent))) for parent in project.walk_parents(node))
        try:
            return FollowedModel(
                build_compiled_model(self._compile_model(name), self._tests, self._sources), name, declared
            )
        except DbtBaseException:
            # Its Jinja may query a table that is not built yet; any other error is raised again by its refresh.
            self._volatile.add(name)
            return FollowedModel(
                maintain.to_model(build_relation(node), node.to_dict(omit_none=True), "", self._sources), name, declared
            )

    def _compile_model(self, name: str) -> Any:
        """Compiles a model again, stores its node in `nodes`, and returns it."""
        self.nodes[name] = self._project.compile_node(self._project.nodes[name])
        return self.nodes[name]

    def _refresh_python(self, node: Any, task: Task) -> RefreshResult:
        return self._refresh_by_dbt(node, task) if task.has_news else RefreshResult(NOTHING_NEW)

    def _refresh_sql(self, node: Any, task: Task) -> RefreshResult:
        name, model = task.followed.name, task.followed.model
        if name in self._volatile:
            node_to_run = self._compile_model(name) if task.has_news else self.nodes[name]
            model = build_compiled_model(node_to_run, self._tests, self._sources)
        reader = self._project.adapter.catalog_reader
        runtime = Refresher(reader, get_pool(reader.profile), self.readers)
        if needs_dbt(node):
            unchanged = self._find_unchanged(runtime, model, task) if task.is_known else None
            return self._refresh_by_dbt(node, task) if unchanged is None else RefreshResult(Refreshed(unchanged))
        done = self._refresh_parts(runtime, model, task)
        if (done.refreshed.is_changed or not task.is_known) and self._has_outdated_descriptions(node):
            self._refresh_by_dbt(node, task)
        return done

    def _refresh_parts(self, runtime: Refresher, model: Model, task: Task) -> RefreshResult:
        """Refreshes a model, and before it its quarantine."""
        done = RefreshResult(NOTHING_NEW)

        def refresh_part(part: Model) -> Refreshed:
            nonlocal done
            planner = runtime.build_planner(task, part)
            done = runtime.perform_plan(task, planner, plan_task(task, planner))
            return done.refreshed

        refreshed = refresh_parts(model, self._project.adapter.catalog_reader, refresh_part)
        return replace(done, refreshed=refreshed)

    def _find_unchanged(self, runtime: Refresher, model: Model, task: Task) -> Outcome | None:
        """Returns the outcome of a refresh that has nothing to do; None if a part of the model has to be refreshed."""
        outcome = None
        for part in model.parts:
            planner = runtime.build_planner(task, part)
            outcome = planner.report_unchanged(plan_task(task, planner))
            if outcome is None:
                return None
        return outcome

    def _refresh_by_dbt(self, node: Any, task: Task) -> RefreshResult:
        """Runs a model with its hooks by dbt's runner; the run reads the source versions of `task.pins`."""
        from dbt.task.run import ModelRunner

        project = self._project
        compiled = self._compile_model(node.unique_id)
        runner = ModelRunner(project.config, project.adapter, compiled, 1, 1)
        with maintain.use_pinned_snapshots(task.pins), project.open_connection(compiled):
            response = runner.run(compiled, project.manifest).adapter_response
        outcome = _read_outcome(response)
        refreshed = Refreshed(outcome, response.get("failures", {}), int(response.get("quarantined", 0)))
        return RefreshResult(refreshed, outcome.reason in COMPUTED_EACH_TIME)

    def _has_outdated_descriptions(self, node: Any) -> bool:
        """Whether descriptions in the catalog differ from those that dbt would write."""
        if not is_persisting_docs(node) or node.config.get("merge") == "on_read":
            return False
        wanted = node.config.persist_docs
        description = node.description or None if wanted.get("relation") else None
        columns = (
            {name: column.description or "" for name, column in node.columns.items()} if wanted.get("columns") else {}
        )
        differing = self._project.adapter.comments_to_change(build_relation(node), description, columns)
        return bool(differing["relation"] is not None or differing["columns"])


def _get_relation_parts(node: Any) -> tuple[str, str, str]:
    return (node.database, node.schema, getattr(node, "identifier", None) or node.alias)


def _read_outcome(response: Mapping[str, Any]) -> Outcome:
    """Converts dbt's response for a run back to the run's outcome."""
    rows = {action: int(response[f"{action}d" if action.endswith("e") else f"{action}ed"]) for action in _ACTIONS}
    reason = response["reason"]
    assert reason in get_args(Reason)
    return Outcome(
        response["mode"],
        reason,
        response["because"],
        rows,
        int(response["version"]) if response["version"] else None,
        {upstream: int(snapshot) for upstream, snapshot in response["consumed"].items()},
        response["timings"],
        response["estimates"],
        response["frozen"],
    )


_ACTIONS = ("insert", "update", "delete", "upsert")


def _walk_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
