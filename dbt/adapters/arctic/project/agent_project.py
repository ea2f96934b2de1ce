"""Answers agents from a project that this process loads when it needs to, and loads again after an edit."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table_diff import Counterpart
from arctic_runtime.operations.operation import Answer, Audit, Operation
from arctic_runtime.service.agents.questions import SQL
from arctic_runtime.service.described_tables import read_table_details
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.view.table_details import TableDetails
from dbt.adapters.arctic.project.cache.inputs import ProjectRequest
from dbt.adapters.arctic.project.cache.known_project import compile_project, load_known_project, observe_inputs
from dbt.adapters.arctic.project.operation_project import find_counterparts, open_operation, open_session
from dbt.adapters.arctic.project.project_tables import CompiledProject
from dbt.adapters.arctic.project.target_folder import get_target_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.profile import Profile


class AgentProject:
    """Implements `AgentWarehouse` for a project; loads dbt and starts Spark only for questions that need them."""

    takes_files = True
    questions = (SQL,)

    def __init__(self, request: ProjectRequest) -> None:
        self._request = request
        self._loading = threading.RLock()
        self._compiled: tuple[Any, CompiledProject, Any] | None = None
        self._session: tuple[Profile, SparkSession] | None = None
        self._starting = threading.Lock()

    def answer_operation(
        self, operation: Operation, names: Sequence[str], arguments: Mapping[str, Any], plan: bool, audit: Audit
    ) -> tuple[tuple[str, ...], Answer]:
        values = operation.read_values(arguments)
        project, context = self._open(operation)
        models = project.select_models(names)
        context = replace(context, audit=audit, hides_values=True)
        answer = operation.run_operation(context, models, values, plan)
        return tuple(str(model.table) for model in models if names), answer

    def describe_table(self, table: str) -> TableDetails:
        from dbt.adapters.arctic.project.table_docs import describe_table

        with self._loading:
            compiled, manifest = self._compile()
        project, context = open_operation(_DESCRIBED, compiled, self._refuse_session, self._find_counterparts)
        model = project.get_model(table)
        docs = describe_table(manifest, self._request.project_dir, model.table)
        followed = FollowedModel(model, model.table.name) if model.sql else None
        return read_table_details(context.reader, model.table, docs, model, followed)

    def _open(self, operation: Operation) -> tuple[CompiledProject, Any]:
        with self._loading:
            loaded = self._load(operation)
        session = partial(self._take_session, loaded)
        return open_operation(operation, loaded, session, self._find_counterparts)

    def _load(self, operation: Operation) -> CompiledProject:
        request = self._request
        # Without that folder nothing is kept, and each question would compile the project.
        is_kept = get_target_folder(request.project_dir).is_dir()
        if operation.is_read_without_queries and self._compiled is None and is_kept:
            return load_known_project(request.project_dir, request.profiles_dir, request.target)
        return self._compile()[0]

    def _compile(self) -> tuple[CompiledProject, Any]:
        """Returns the compiled project and dbt's manifest; those of the last time, if no file has changed since."""
        from dbt.adapters.arctic.project.compiled_project import parse_manifest

        observed = observe_inputs(self._request)
        if self._compiled is not None and observed is not None and self._compiled[0] == observed:
            return self._compiled[1:]
        request = self._request
        manifest = parse_manifest(request.project_dir, request.profiles_dir, request.target)
        project = compile_project(request, manifest)
        self._compiled = (observed, project, manifest)
        return project, manifest

    def _take_session(self, loaded: CompiledProject) -> SparkSession:
        """Returns the session of this process, which the first question that needs one opens."""
        with self._starting:
            if self._session is None or self._session[0] != loaded.profile:
                self._session = loaded.profile, open_session(loaded.profile)
            return self._session[1]

    def _refuse_session(self) -> SparkSession:
        raise ConfigError("the description of a table starts no Spark")

    def _find_counterparts(self, state: str | None, target: str | None) -> Mapping[TableName, Counterpart]:
        """Finds the tables of another environment; raises ConfigError for a state outside of the project's folder."""
        request = self._request
        if state is not None:
            check_state(request.project_dir, state)
        with self._loading:
            compiled, _ = self._compile()
            if target is not None:
                self._compiled = None  # The project is parsed for the target, which replaces dbt's state here.
            return find_counterparts(compiled, request.project_dir, request.profiles_dir, state, target)


def check_state(project_dir: Path, state: str) -> None:
    """Raises ConfigError unless the folder `state` is below that of the project, also where links lead."""
    top = project_dir.resolve()
    folder = (top / state).resolve() if "\0" not in state else top.parent
    if not folder.is_relative_to(top):
        raise ConfigError(
            "Agents read no files outside of the project's folder.",
            where="`state`",
            expected=f"a folder below {top}",
            actual=state,
            fix="copy the manifest.json of the other environment into a folder of the project",
        )


_DESCRIBED = Operation("describe", "", "one", lambda *_: Answer(None, ()), needs_spark=False, changes=False)
