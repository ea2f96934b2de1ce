"""The work of dbt beside a service: runs of scheduled models and tests for it, and parts of a project left to dbt."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any

from dbt_common.exceptions import DbtBaseException

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName
from arctic_runtime.service.cron_schedules import DataTestOutcome, DataTestStatus, Scheduled
from dbt.adapters.arctic.materialize.maintain import get_node_table, is_arctic
from dbt.adapters.arctic.materialize.served_keys import read_served_keys
from dbt.adapters.arctic.project.loaded_project import LoadedProject


class DbtWork:
    """Runs models and tests of a project with dbt's own runners, in the calling thread."""

    def __init__(self, project: LoadedProject) -> None:
        self.project = project
        self.scheduled: Sequence[Scheduled] = tuple(_list_scheduled(project))
        """Scheduled models, each after the scheduled models upstream of it."""

        self._tests = _map_tests(project)

    def run_model(self, name: str) -> str:
        """Runs the scheduled model `name` and returns dbt's message about it; raises an error if the run failed."""
        from dbt.task.run import ModelRunner

        project = self.project
        compiled = project.compile_node(project.scheduled[name])
        runner = ModelRunner(project.config, project.adapter, compiled, 1, 1)
        with project.open_connection(compiled):
            return str(runner.run(compiled, project.manifest).message)

    def list_tested_tables(self) -> Collection[TableName]:
        """Returns the tables that have tests to run after each refresh."""
        return self._tests.keys()

    def test_table(self, table: TableName) -> Sequence[DataTestOutcome]:
        """Runs the tests of a table, one after the other; returns their outcomes."""
        return tuple(self._run_test(node) for node in self._tests.get(table, ()))

    def _run_test(self, node: Any) -> DataTestOutcome:
        from dbt.task.test import TestRunner

        project = self.project
        try:
            compiled = project.compile_node(node)
            runner = TestRunner(project.config, project.adapter, compiled, 1, 1)
            with project.open_connection(compiled):
                result = runner.run(compiled, project.manifest)
        except DbtBaseException as error:
            return DataTestOutcome(str(node.name), "error", str(error))
        return DataTestOutcome(str(node.name), _STATUS[str(result.status)], str(result.message or ""))


_STATUS: Mapping[str, DataTestStatus] = {"pass": "pass", "warn": "warn", "fail": "fail", "error": "error"}


def _list_scheduled(project: LoadedProject) -> Iterator[Scheduled]:
    above = {
        name: _list_upstream_ids(project, node) & project.scheduled.keys() for name, node in project.scheduled.items()
    }
    for name in TopologicalSorter({node_id: sorted(above[node_id]) for node_id in sorted(above)}).static_order():
        node = project.scheduled[name]
        cron = read_served_keys(node).schedule
        assert cron is not None
        yield Scheduled(
            name, get_node_table(node), cron, frozenset(above[name]), frozenset(_list_tables_read(project, node))
        )


def _list_tables_read(project: LoadedProject, node: Any) -> Iterator[TableName]:
    """Yields the tables that a node reads, directly or through views; a scheduled view counts as a table."""
    for parent in project.walk_parents(node):
        is_source = str(parent.resource_type) == "source"
        if not is_source and parent.config.materialized == "view" and parent.unique_id not in project.scheduled:
            yield from _list_tables_read(project, parent)
        else:
            name = parent.identifier if is_source else parent.alias
            yield TableName(str(parent.database), str(parent.schema), str(name))


def _list_upstream_ids(project: LoadedProject, node: Any) -> set[str]:
    """Returns the ids of all nodes upstream of a node, directly or through other nodes."""
    upstream_ids, waiting = set[str](), list(node.depends_on_nodes)
    while waiting:
        name = waiting.pop()
        parent = project.manifest.nodes.get(name)
        if name not in upstream_ids and parent is not None:
            upstream_ids.add(name)
            waiting.extend(parent.depends_on_nodes)
    return upstream_ids


def _map_tests(project: LoadedProject) -> dict[TableName, list[Any]]:
    """Maps each table with `test_after_refresh` to its test nodes, ordered by id.

    A test of several tables is listed for each of them.
    """
    asked = {
        name: get_node_table(node)
        for name, node in ({**project.nodes, **project.scheduled}).items()
        if read_served_keys(node).test_after_refresh
    }
    tests_by_table: dict[TableName, list[Any]] = {}
    nodes = project.manifest.nodes.values()
    for node in sorted(
        (test_node for test_node in nodes if str(test_node.resource_type) == "test"),
        key=lambda test_node: str(test_node.unique_id),
    ):
        for name in asked.keys() & set(node.depends_on_nodes):
            tests_by_table.setdefault(asked[name], []).append(node)
    return tests_by_table


_TABLES = ("table", "incremental", "snapshot", "materialized_view")
"""Materializations whose tables change only when dbt runs their models."""


def list_parts_run_by_dbt(project: LoadedProject, reader: CatalogReader) -> Iterator[str]:
    """Yields a line for the user about each part: run hooks, tables of other materializations, missing views."""
    if any(set(node.tags) & {"on-run-start", "on-run-end"} for node in project.manifest.nodes.values()):
        yield "on-run-start and on-run-end hooks are left to `dbt run`"
    upstream = list(_walk_upstream(project))
    for node in sorted(_list_tables(project, upstream), key=lambda node: str(node.unique_id)):
        yield (
            f"{get_node_table(node)} is read as it is: {node.config.materialized} models are refreshed by "
            f"`dbt run --select {node.name}`"
        )
    views = {get_node_table(node) for node in upstream if node.config.materialized == "view"}
    for view in sorted(name for name in views if reader.describe_relation(name.schema, name.name) is None):
        yield f"the view {view} does not exist, and `dbt run --select {view.name}` creates it"


def _list_tables(project: LoadedProject, upstream: list[Any]) -> list[Any]:
    """Selects the upstream nodes with tables that neither refreshes nor schedules of the service keep up to date."""
    return [
        node for node in upstream if node.unique_id not in project.scheduled and node.config.materialized in _TABLES
    ]


def _walk_upstream(project: LoadedProject) -> Iterator[Any]:
    """Yields once each node that the project's arctic models read, directly or through views.

    Arctic models and sources are left out.
    """
    waiting, seen = list(project.nodes.values()), set[str]()
    while waiting:
        for parent in project.walk_parents(waiting.pop()):
            is_source = str(parent.resource_type) == "source"
            if is_source or is_arctic(parent) or parent.unique_id in seen:
                continue
            seen.add(parent.unique_id)
            yield parent
            if parent.config.materialized == "view":
                waiting.append(parent)
