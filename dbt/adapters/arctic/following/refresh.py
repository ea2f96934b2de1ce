"""A followed model's refresh: by the runtime alone where a dbt run does no more than that, else by dbt's own runner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from dbt_common.exceptions import DbtBaseException

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.step import Reason
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.plan.decide import COMPUTED_EACH_TIME
from arctic_runtime.service.readings import FollowedModel
from arctic_runtime.service.refresher import Refresher, planned_for
from arctic_runtime.service.task import Done, Task
from arctic_runtime.spark.engine.session_pool import pool_of
from arctic_runtime.spark.refresh.planning import Outcome
from dbt.adapters.arctic.following.loaded_project import LoadedProject
from dbt.adapters.arctic.following.surroundings import is_volatile, needs_dbt, persists_docs
from dbt.adapters.arctic.materialize import maintain
from dbt.adapters.arctic.materialize.readers import Readers
from dbt.adapters.arctic.project import compiled_model, relation_of

NOTHING_NEW = Refreshed(Outcome("unchanged", "NOTHING_NEW"))


class ProjectRefresher:
    """Refreshes models of a project as `dbt run` does, without what dbt does for each invocation.

    Queries are compiled once, those that depend on more than the project's files before each refresh. Models with
    hooks, in Python and the like are run by dbt's runner in this process.
    """

    def __init__(self, project: LoadedProject) -> None:
        manifest = project.manifest
        self._project = project
        self.reader: CatalogReader = project.adapter.catalog_reader
        readers = Readers(manifest.nodes.values(), manifest.sources.values())
        self._runtime = Refresher(self.reader, pool_of(project.profile), readers.of)
        self._volatile = {name for name, node in project.nodes.items() if is_volatile(node, manifest)}
        self.nodes: dict[str, Any] = dict(project.nodes)
        """The models as they were last compiled, by their unique id."""

    def followed(self) -> list[FollowedModel]:
        """The project's models, compiled; a query that can't be compiled now is compiled when it is refreshed."""
        return [self._followed(name, node) for name, node in self._project.nodes.items()]

    def __call__(self, task: Task) -> Done:
        node = self._project.nodes[task.followed.name]
        try:
            return self._python(node, task) if node.language == "python" else self._sql(node, task)
        except DbtBaseException as error:
            ours = next((cause for cause in _causes(error) if isinstance(cause, ArcticError)), None)
            raise error if ours is None else ours from error

    def _followed(self, name: str, node: Any) -> FollowedModel:
        project = self._project
        declared = frozenset(TableName(*map(str, _place(parent))) for parent in project.parents(node))
        try:
            return FollowedModel(compiled_model(self._compiled(name)), name, declared)
        except DbtBaseException:
            # It may ask for a table that is not built yet; else its refresh says what is wrong, as a dbt run does.
            self._volatile.add(name)
            return FollowedModel(maintain.to_model(relation_of(node), node.to_dict(omit_none=True), ""), name, declared)

    def _compiled(self, name: str) -> Any:
        """A model compiled now, which is remembered."""
        self.nodes[name] = self._project.compiled(self._project.nodes[name])
        return self.nodes[name]

    def _python(self, node: Any, task: Task) -> Done:
        return self._by_dbt(node, task) if task.has_news else Done(NOTHING_NEW)

    def _sql(self, node: Any, task: Task) -> Done:
        name, model = task.followed.name, task.followed.model
        if name in self._volatile:
            model = compiled_model(self._compiled(name) if task.has_news else self.nodes[name])
        planner = self._runtime.planner(task, model)
        planned = planned_for(task, planner)
        if needs_dbt(node):
            unchanged = planner.unchanged(planned) if task.is_known else None
            return self._by_dbt(node, task) if unchanged is None else Done(Refreshed(unchanged))
        done = self._runtime.perform(task, planner, planned)
        if (done.refreshed.is_changed or not task.is_known) and self._lacks_docs(node):
            self._by_dbt(node, task)
        return done

    def _by_dbt(self, node: Any, task: Task) -> Done:
        """Runs a model as dbt does, hooks and all, with the versions of sources that its pass reads."""
        from dbt.task.run import ModelRunner

        project = self._project
        compiled = self._compiled(node.unique_id)
        runner = ModelRunner(project.config, project.adapter, compiled, 1, 1)
        with maintain.pinned(task.pins), project.connected(compiled):
            response = runner.run(compiled, project.manifest).adapter_response
        outcome = _outcome(response)
        return Done(Refreshed(outcome, response.get("failures", {})), outcome.reason in COMPUTED_EACH_TIME)

    def _lacks_docs(self, node: Any) -> bool:
        """Whether the catalog has other descriptions than those that dbt would write."""
        if not persists_docs(node) or node.config.get("merge") == "on_read":
            return False
        wanted = node.config.persist_docs
        description = node.description or None if wanted.get("relation") else None
        columns = {name: of.description or "" for name, of in node.columns.items()} if wanted.get("columns") else {}
        differing = self._project.adapter.comments_to_change(relation_of(node), description, columns)
        return bool(differing["relation"] is not None or differing["columns"])


def _place(node: Any) -> tuple[str, str, str]:
    return (node.database, node.schema, getattr(node, "identifier", None) or node.alias)


def _outcome(response: Mapping[str, Any]) -> Outcome:
    """What a run did, as its response tells it."""
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
    )


_ACTIONS = ("insert", "update", "delete", "upsert")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
