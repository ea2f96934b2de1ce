"""What a service has dbt do: run the models that are scheduled, and the tests of tables that were refreshed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any

from dbt_common.exceptions import DbtBaseException

from arctic_runtime.model.names import TableName
from arctic_runtime.service.schedules import DataTestOutcome, DataTestStatus, Scheduled
from dbt.adapters.arctic.following.loaded_project import LoadedProject
from dbt.adapters.arctic.materialize.maintain import node_table
from dbt.adapters.arctic.materialize.served_keys import served_keys


class DbtWork:
    """Runs models and tests of a project by dbt's own runners, in the calling thread."""

    def __init__(self, project: LoadedProject) -> None:
        self.project = project
        self.scheduled: Sequence[Scheduled] = tuple(_scheduled(project))
        """Each after all that it reads."""

        self._tests = _tests(project)

    def run(self, name: str) -> str:
        """Runs a scheduled model; what dbt says of it. Raises why it failed."""
        from dbt.task.run import ModelRunner

        project = self.project
        compiled = project.compiled(project.scheduled[name])
        runner = ModelRunner(project.config, project.adapter, compiled, 1, 1)
        with project.connected(compiled):
            return str(runner.run(compiled, project.manifest).message)

    def tested(self) -> Collection[TableName]:
        """The tables whose tests are run after each refresh, of those that have any."""
        return self._tests.keys()

    def test(self, table: TableName) -> Sequence[DataTestOutcome]:
        """Runs the tests of a table, one after the other."""
        return tuple(self._outcome(node) for node in self._tests.get(table, ()))

    def _outcome(self, node: Any) -> DataTestOutcome:
        from dbt.task.test import TestRunner

        project = self.project
        try:
            compiled = project.compiled(node)
            runner = TestRunner(project.config, project.adapter, compiled, 1, 1)
            with project.connected(compiled):
                result = runner.run(compiled, project.manifest)
        except DbtBaseException as error:
            return DataTestOutcome(str(node.name), "error", str(error))
        return DataTestOutcome(str(node.name), _STATUS[str(result.status)], str(result.message or ""))


_STATUS: Mapping[str, DataTestStatus] = {"pass": "pass", "warn": "warn", "fail": "fail", "error": "error"}


def _scheduled(project: LoadedProject) -> Iterator[Scheduled]:
    above = {name: _above(project, node) & project.scheduled.keys() for name, node in project.scheduled.items()}
    for name in TopologicalSorter({of: sorted(above[of]) for of in sorted(above)}).static_order():
        node = project.scheduled[name]
        cron = served_keys(node).schedule
        assert cron is not None
        yield Scheduled(name, node_table(node), cron, frozenset(above[name]), frozenset(_read(project, node)))


def _read(project: LoadedProject, node: Any) -> Iterator[TableName]:
    """The tables that a node reads, those behind views among them."""
    for parent in project.parents(node):
        is_source = str(parent.resource_type) == "source"
        if not is_source and parent.config.materialized == "view" and parent.unique_id not in project.scheduled:
            yield from _read(project, parent)
        else:
            name = parent.identifier if is_source else parent.alias
            yield TableName(str(parent.database), str(parent.schema), str(name))


def _above(project: LoadedProject, node: Any) -> set[str]:
    """The ids of all that a node reads, however many nodes lie in between."""
    found, waiting = set[str](), list(node.depends_on_nodes)
    while waiting:
        name = waiting.pop()
        parent = project.manifest.nodes.get(name)
        if name not in found and parent is not None:
            found.add(name)
            waiting.extend(parent.depends_on_nodes)
    return found


def _tests(project: LoadedProject) -> dict[TableName, list[Any]]:
    """Table → its tests, by their names; a test of several tables is one of each."""
    asked = {
        name: node_table(node)
        for name, node in ({**project.nodes, **project.scheduled}).items()
        if served_keys(node).test_after_refresh
    }
    found: dict[TableName, list[Any]] = {}
    nodes = project.manifest.nodes.values()
    for node in sorted((of for of in nodes if str(of.resource_type) == "test"), key=lambda of: str(of.unique_id)):
        for name in asked.keys() & set(node.depends_on_nodes):
            found.setdefault(asked[name], []).append(node)
    return found
