"""One build of dbt that writes to a branch of the catalog and publishes it at its end."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger
from dbt.constants import RUN_RESULTS_FILE_NAME
from dbt.flags import get_flags
from dbt_common.events.event_manager_client import add_callback_to_manager
from dbt_common.exceptions import DbtRuntimeError

from arctic_runtime.catalog.branch.branch_file import remove_branch_file
from arctic_runtime.catalog.branch.catalog_branch import CatalogBranch, Properties
from arctic_runtime.catalog.branch.catalog_pointers import BranchScope, PointerChange, sort_changes
from arctic_runtime.errors import CommitConflict, ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.refs import format_cut
from arctic_runtime.model.table import Model
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session_pool import get_pool, lend_session
from dbt import selected_resources
from dbt.adapters.arctic.materialize.maintain import get_node_table, is_arctic, read_declared_model
from dbt.adapters.arctic.publication.blockers import (
    find_blockers,
    list_blocked,
    list_unpublished,
    mark_unpublished,
    read_graph,
    sort_nodes,
    write_unpublished,
)
from dbt.adapters.arctic.publication.row_tests import RowTests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = AdapterLogger("Arctic")

ErrorHandler = Callable[[str], AbstractContextManager[None]]
"""Converts errors to those of dbt; its argument says what is done."""

BRANCH_COMMANDS = frozenset({"build", "run", "seed", "snapshot", "retry"})
"""Commands of dbt that write to a branch with `publish: build`."""

BRANCH_VARIABLE = "ARCTIC_BRANCH"
"""Environment variable with the file of a branch, which a command then reads in the place of the catalog."""

_RELATIONAL = frozenset({"model", "seed", "snapshot"})
_KINDS = _RELATIONAL | {"test", "unit_test"}
FOLDER = "arctic_branches"
"""Folder below dbt's target folder with the files of branches."""

OPERATIONS_AFTER_BUILDS = frozenset({"expire", "forget"})
"""Operations that delete files, which readers of the catalog may still need while a build writes to its branch."""


class Build:
    """A build: its branch, dbt's status of each node that has ended, its tests, and the models that it refreshed."""

    def __init__(self, origin: Profile, folder: Path) -> None:
        """Describes a build on the catalog of `origin`, whose branch will be a file in `folder`; creates nothing."""
        self.branch = CatalogBranch(origin, folder / f"{os.getpid()}-{os.urandom(4).hex()}.db")
        self._statuses: dict[str, str] = {}
        self._failed_hook = ""
        self.unpublished: dict[str, str] = {}
        """Why nodes were not published, by their ids; known after `finish_build`."""

        self._refreshed: dict[TableName, tuple[Model, Callable[[TableName], Iterable[TableName]]]] = {}
        self._lock = threading.Lock()

    def begin_build(self, scope: BranchScope) -> None:
        """Creates the branch, and follows dbt's events from now on; removes the files of builds that have ended.

        If the publication of an earlier build was interrupted, it is completed before.
        """
        remove_old_branches(self.branch.file.parent)
        completed = self.branch.complete_publications(scope)
        if completed:
            logger.info(f"Completed the publication of an earlier build: {', '.join(map(str, completed))}")
        self.branch.begin_branch(scope)
        self.tests = RowTests(self.branch.reader)
        add_callback_to_manager(self._note_event)

    def prepare_nodes(self, nodes: Iterable[Any], manifest: Any) -> None:
        """Prepares the tables of nodes of the manifest for changes on the branch, and those that they read.

        The latter too, since the catalog may delete the metadata of a table that others write to while the build runs.
        """
        nodes = tuple(nodes)
        read = list_read(nodes, manifest)
        self.branch.prepare_tables(list(dict.fromkeys([*_list_tables(nodes), *_list_tables(read)])))

    def note_refresh(self, model: Model, readers: Callable[[TableName], Iterable[TableName]]) -> None:
        """Notes that the build refreshes a model, whose old versions may expire after the publication."""
        self._refreshed[model.table] = (model, readers)

    def note_status(self, node: str, status: str) -> None:
        """Notes dbt's status, such as `success`, of the node with the id `node`, which has ended."""
        with self._lock:
            self._statuses[node] = status
        self.tests.note_status(node, status)

    def give_up(self) -> None:
        """Ends the build without a publication, since it was interrupted."""
        logger.warning("Nothing of this build is published, since it was interrupted")
        self.branch.remove_branch()

    def finish_build(self, manifest: Any, selected: Collection[str], spark: Callable[[], SparkSession]) -> None:
        """Publishes what may be published, and says what was not, and why.

        `selected` are the ids of the nodes that the build was to run. `spark` returns a session on the catalog itself.
        Raises CommitConflict if another writer has changed one of the tables since the build began.
        """
        graph = read_graph(manifest)
        if self._failed_hook:
            why = f"the hook {self._failed_hook} failed"
            logger.warning(f"Nothing of this build is published, since {why}")
            self.unpublished = dict.fromkeys(selected, f"not published, since {why}")
            self._say_where(self.branch.list_changes())
            return
        blockers = find_blockers(graph, selected, self._statuses)
        owners = map_owners(manifest)
        order = {node: place for place, node in enumerate(sort_nodes(graph))}
        places = {table: order[node] for table, node in owners.items()}
        changes = sort_changes(self.branch.list_changes(), places)
        to_publish = [change for change in changes if owners.get(change.table) not in blockers]
        others = [change for change in changes if owners.get(change.table) in blockers]
        unchanged = [table for table, node in owners.items() if node in selected and node not in blockers]
        properties = self.tests.list_properties(
            [node.unique_id for node in manifest.nodes.values() if str(node.resource_type) == "test"]
        )
        names = {owners.get(change.table, str(change.table)) for change in to_publish}
        published = self._publish_changes(to_publish, unchanged, names, properties)
        reasons = {node: _describe_cause(node, cause) for node, cause in list_blocked(blockers, selected)}
        self.unpublished = {
            node: f"not published, since {why}" for node, why in list_unpublished(graph, reasons.items())
        }
        for node, why in reasons.items():
            logger.warning(
                f"{_get_name(node)} is not published, since {why}; readers see its rows from before this build"
            )
        self._say_where(others)
        self._expire_versions(published, spark)

    def _publish_changes(
        self,
        changes: Sequence[PointerChange],
        unchanged: Iterable[TableName],
        names: Collection[str],
        properties: Properties,
    ) -> set[TableName]:
        """Publishes changes of the branch, and tags the tables that it has not changed; returns what was published.

        `properties` are those that tables of both kinds get.
        """
        if not changes:
            logger.info("Nothing to publish")
            self.branch.tag_tables((table for table in unchanged if table in properties), "", properties)
            return set()
        cut = format_cut(round(1000 * time.time()), os.urandom(2).hex())
        try:
            at_once = self.branch.publish_changes(self.branch.complete_tables(changes, cut, properties))
        except CommitConflict:
            self.branch.remove_branch()
            raise
        self.branch.tag_tables(unchanged, cut, properties)
        how = "in one commit" if at_once else "one after another"
        logger.info(f"Published {', '.join(sorted(map(_get_name, names)))} {how}, as {cut}")
        return {change.table for change in changes}

    def _say_where(self, changes: Sequence[PointerChange]) -> None:
        """Says where rows are that were not published; without any, removes the branch."""
        self.branch.remove_copies(change.table for change in changes)
        if not changes:
            self.branch.remove_branch()
            return
        logger.warning(
            f"The rows that are not published are on a branch until the next build: look at them with "
            f"{BRANCH_VARIABLE}={self.branch.file} dbt show --select …"
        )

    def _note_event(self, message: Any) -> None:
        """Notes dbt's status of a node that has ended, and completes the file of all; a callback for dbt's events."""
        name = message.info.name
        if name == "NodeFinished":
            self.note_status(message.data.node_info.unique_id, str(message.data.run_result.status))
        elif name == "LogHookEndLine" and str(message.data.status) != "success":
            self._failed_hook = self._failed_hook or str(message.data.statement)
        elif name == "ArtifactWritten" and message.data.artifact_type == "RunExecutionResult" and self.unpublished:
            mark_unpublished(Path(message.data.artifact_path), self.unpublished)

    def _expire_versions(self, published: set[TableName], spark: Callable[[], SparkSession]) -> None:
        """Expires old versions of the published models, as their runs would have done."""
        from arctic_runtime.operations.refreshing import expire_after_publication, format_upkeep_warning

        for table, (model, readers) in self._refreshed.items():
            if published.intersection((table, model.table.changes)):
                failures = expire_after_publication(model, self.branch.origin, spark, readers)
                for part, text in failures.items():
                    logger.warning(format_upkeep_warning(table, part, text))


class CommandBuild:
    """The build of one dbt command, to which the adapter writes from its beginning until the command ends."""

    def __init__(self, config: Any, use_profile: Callable[[Profile], None]) -> None:
        """Describes the build of a project with dbt's `config`; `use_profile` makes the adapter use a profile."""
        self._config = config
        self._use_profile = use_profile
        self.build: Build | None = None

    def begin_build(self, profile: Profile, scope: BranchScope) -> Build:
        """Begins a branch of the catalog of `profile`, and returns the build; or returns the one that has begun."""
        if self.build is None:
            build = Build(profile, self._get_target_folder() / FOLDER)
            build.begin_build(scope)
            self._use_profile(build.branch.reader.profile)
            self.build = build
        return self.build

    def end_build(self, manifest: Any, selected: Collection[str]) -> None:
        """Publishes the build; `selected` are the ids of the nodes that it was to run."""
        build, self.build = self.build, None
        assert build is not None
        self._use_profile(build.branch.origin.profile)
        with lend_session(get_pool(build.branch.origin.profile)) as session:
            build.finish_build(manifest, frozenset(selected), session)

    def end_command(self, manifest: Any, handle_errors: ErrorHandler) -> Mapping[str, str]:
        """Publishes the build of a command that ends, if there is one that was not interrupted.

        What is not published has results by which `dbt retry` runs the whole build again. Returns why nodes were not
        published, by their ids.
        """
        if (build := self.build) is None:
            return {}
        selected = selected_resources.SELECTED_RESOURCES
        if sys.exc_info()[0] is not None:
            self.build = None
            self._use_profile(build.branch.origin.profile)
            build.give_up()
            reason = "not published, since the build was interrupted"
            self._write_unpublished(manifest, selected, reason)
            return dict.fromkeys(selected, reason)
        try:
            with handle_errors("publish the build"):
                self.end_build(manifest, selected)
        except DbtRuntimeError as error:
            self._write_unpublished(manifest, selected, str(error.msg))
            raise
        return build.unpublished

    def _write_unpublished(self, manifest: Any, selected: Collection[str], reason: str) -> None:
        flags = get_flags()
        if getattr(flags, "WRITE_JSON", False):
            write_unpublished(self._get_target_folder() / RUN_RESULTS_FILE_NAME, manifest, selected, flags, reason)

    def _get_target_folder(self) -> Path:
        return Path(self._config.project_root, self._config.target_path)


def list_read(nodes: Iterable[Any], manifest: Any) -> list[Any]:
    """Lists the nodes and sources of the manifest that nodes read, also through views and ephemeral models."""
    waiting, read = list(nodes), dict[str, Any]()
    while waiting:
        for name in waiting.pop().depends_on_nodes:
            other = manifest.nodes.get(name) or manifest.sources.get(name)
            if other is not None and name not in read:
                read[name] = other
                waiting += [other] if _is_read_through(other) else []
    return list(read.values())


def _is_read_through(node: Any) -> bool:
    return str(node.resource_type) == "model" and str(node.config.materialized) in ("view", "ephemeral")


def _list_tables(nodes: Collection[Any]) -> Iterable[TableName]:
    """Lists the tables of nodes and sources, with the helper tables that their materializations use."""
    own = [node for node in nodes if str(node.resource_type) in _RELATIONAL]
    sources = [node for node in nodes if str(node.resource_type) == "source"]
    tables = [
        *map(get_node_table, own),
        *(TableName(str(n.database), str(n.schema), str(n.identifier)) for n in sources),
    ]
    helper_tables = (name for table in tables for name in table.helper_tables.values())
    return [*map_nodes(own), *tables, *helper_tables]


def check_flags(flags: Any) -> None:
    """Raises DbtRuntimeError if a command that writes to a branch has a flag with which dbt never begins one."""
    command = getattr(flags, "WHICH", None)
    if command in BRANCH_COMMANDS and not getattr(flags, "POPULATE_CACHE", True):
        raise DbtRuntimeError(
            f"`dbt {command} --no-populate-cache` can't be published as a whole, as `publish: build` says.\n"
            "  expected: dbt lists the relations of the project first, at which the build begins\n"
            "  what to do: leave the flag out; --cache-selected-only makes the list short"
        )


def build_operation_error(name: str) -> ConfigError:
    """Builds the error for an operation in a hook that can't be performed on a branch."""
    return ConfigError(
        f"`arctic_{name}` can't run inside a build that is published as a whole.",
        expected="operations that delete no files, for readers need them until the build is published",
        actual=f"arctic_{name} in a hook, and `publish: build` in the target",
        fix=f"remove it from the hook: versions expire after the publication; or run `arctic {name}` by itself",
    )


def open_branch(profile: Profile, file: Path, command: str | None) -> Profile:
    """Returns the profile with the branch `file` in the place of the catalog; raises DbtRuntimeError if that can't be.

    A branch that a build has left is read, and not built upon.
    """
    if not file.is_file():
        raise DbtRuntimeError(
            f"{BRANCH_VARIABLE} names no branch of a build.\n  expected: a file that a build has left\n"
            f"  found: {file}\n  what to do: take the name from the build's last lines; the next build removes it"
        )
    if command in BRANCH_COMMANDS:
        raise DbtRuntimeError(
            f"`dbt {command}` can't write to the branch of an earlier build.\n  what to do: unset {BRANCH_VARIABLE}"
        )
    return CatalogBranch(profile, file.absolute()).reader.profile


def build_scope(nodes: Iterable[Any], sources: Iterable[Any], catalog: str) -> BranchScope:
    """Builds the scope of a build: all relations of the project that are in the catalog, and its schemas."""
    known = [node for node in nodes if str(getattr(node, "database", None)) == catalog]
    read = [_get_source_table(source) for source in sources if str(source.database) == catalog]
    return BranchScope({*map_nodes(known), *read}, {str(node.schema) for node in known})


def _get_source_table(source: Any) -> TableName:
    return TableName(str(source.database), str(source.schema), str(source.identifier))


def map_owners(manifest: Any) -> dict[TableName, str]:
    """Maps each relation that a model, seed or snapshot may write, with its helper tables, to the node's id."""
    return map_nodes(manifest.nodes.values())


def map_nodes(nodes: Iterable[Any]) -> dict[TableName, str]:
    """Maps each relation that a model, seed or snapshot among nodes may write to the node's id."""
    owners: dict[TableName, str] = {}
    for node in nodes:
        if str(node.resource_type) not in _RELATIONAL:
            continue
        tables = read_declared_model(node).relations if is_arctic(node) else (get_node_table(node),)
        owners |= dict.fromkeys(tables, node.unique_id)
    return owners


def remove_old_branches(folder: Path) -> None:
    """Removes the branches of builds whose process has ended."""
    for file in folder.glob("*.db"):
        process = file.name.partition("-")[0]
        if not (process.isdigit() and _is_alive(int(process))) or int(process) == os.getpid():
            remove_branch_file(file)


def _describe_cause(node: str, cause: str) -> str:
    return "it failed" if node == cause else f"{_get_name(cause)} did not pass"


def _get_name(node: str) -> str:
    """Returns the name in the id of a node, such as `orders` in `model.shop.orders`; any other text is returned."""
    parts = node.split(".")
    return parts[2] if parts[0] in _KINDS and len(parts) > 2 else node


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
