"""Compiles the incremental models of a dbt project for an audit, and writes a patch that makes them arctic models."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from dbt_common.exceptions import DbtBaseException

from arctic_runtime.audit.audited_model import AuditedModel, AuditedProject, KeySource, UpstreamModel
from arctic_runtime.model.names import list_changes_read
from dbt.adapters.arctic.materialize.maintain import get_node_table
from dbt.adapters.arctic.project.loaded_project import LoadedProject


def is_incremental(node: Any) -> bool:
    """Whether a node is a model that dbt materializes as `incremental`."""
    return str(node.resource_type) == "model" and node.config.materialized == "incremental"


def compile_audited_project(project: LoadedProject) -> AuditedProject:
    """Compiles the selected incremental models, and all models upstream of them."""
    above = {name: _list_parents(project, node) for name, node in _walk_models(project).items()}
    order = [name for name in TopologicalSorter(above).static_order() if name in above]
    others = {name: _compile_upstream(project, project.manifest.nodes[name], above[name]) for name in order}
    constants = _list_constants()
    keys = _list_tested_keys(project.manifest)
    models = (
        _compile_model(project, project.nodes[name], above[name], keys.get(name, ()), constants)
        for name in order
        if name in project.nodes
    )
    return AuditedProject(tuple(models), others)


def _walk_models(project: LoadedProject) -> dict[str, Any]:
    """Returns the selected models and all nodes with tables upstream of them, by unique id."""
    nodes: dict[str, Any] = {}
    waiting = list(project.nodes.values())
    while waiting:
        node = waiting.pop()
        if node.unique_id not in nodes:
            nodes[node.unique_id] = node
            waiting += [project.manifest.nodes[name] for name in _list_parents(project, node)]
    return nodes


def _list_parents(project: LoadedProject, node: Any) -> tuple[str, ...]:
    """Returns the unique ids of the nodes with tables that a node reads, directly or through ephemeral models."""
    parents = (parent.unique_id for parent in project.walk_parents(node))
    return tuple(dict.fromkeys(name for name in parents if name in project.manifest.nodes))


def _compile_upstream(project: LoadedProject, node: Any, parents: tuple[str, ...]) -> UpstreamModel:
    is_query = str(node.resource_type) == "model" and node.language == "sql"
    sql = None
    if is_query:
        try:
            sql = _compile_as(project, node, is_full=True)
        except DbtBaseException:
            sql = None  # If the model is audited, its line in the report has the reason.
    if sql is not None and list_changes_read(sql):
        sql = None
    is_view = is_query and node.config.materialized == "view"
    return UpstreamModel(str(node.name), get_node_table(node), sql, is_view, parents)


def _compile_as(project: LoadedProject, node: Any, is_full: bool) -> str:
    """Returns the compiled SQL of a model, with `is_incremental()` False if `is_full`, else as in the next run."""
    chosen = copy.copy(node)
    chosen.config = copy.copy(node.config)
    chosen.config.full_refresh = is_full
    return str(project.compile_node(chosen).compiled_code)


def _compile_model(
    project: LoadedProject,
    node: Any,
    parents: tuple[str, ...],
    tested_key: tuple[str, ...],
    constants: tuple[str, ...],
) -> AuditedModel:
    key, source = _find_key(node, tested_key)
    config = node.config
    unique_key = config.get("unique_key")
    updated = config.get("merge_update_columns")
    strategy = str(config.get("incremental_strategy") or ("merge" if unique_key else "append"))
    model = AuditedModel(
        name=str(node.name),
        table=get_node_table(node),
        key=key,
        key_source=source,
        strategy=strategy,
        has_unique_key=bool(unique_key) and strategy in ("merge", "delete+insert"),
        updated_columns=tuple(_to_list(updated)) if updated else None,
        kept_columns=tuple(_to_list(config.get("merge_exclude_columns"))),
        constants=constants,
        upstreams=parents,
    )
    return _with_queries(project, node, model)


def _with_queries(project: LoadedProject, node: Any, model: AuditedModel) -> AuditedModel:
    """Returns the model with its two queries, or with the reason why it has none.

    The incremental query is left out if it can't be compiled, and for microbatch models.
    """
    if node.language != "sql":
        return replace(model, error="it is a Python model, and an audit runs no code of models")
    try:
        full = _compile_as(project, node, is_full=True)
    except DbtBaseException as error:
        return replace(model, error=f"dbt could not compile it: {error}")
    if model.strategy == "microbatch":
        return replace(model, full_sql=full)
    try:
        return replace(model, full_sql=full, incremental_sql=_compile_as(project, node, is_full=False))
    except DbtBaseException:
        return replace(model, full_sql=full)


def find_incremental_keys(manifest: Any, nodes: Iterable[Any]) -> dict[str, tuple[str, ...]]:
    """Returns the columns that identify a row of each of `nodes`, by the ids of the nodes; () if none are declared."""
    tested = _list_tested_keys(manifest)
    return {node.unique_id: _find_key(node, tested.get(node.unique_id, ()))[0] for node in nodes}


def _find_key(node: Any, tested_key: tuple[str, ...]) -> tuple[tuple[str, ...], KeySource]:
    """Returns the columns that identify a row of a model, and the kind of declaration from which they are taken."""
    declared = tuple(_to_list(node.config.get("unique_key")))
    if declared and all(_is_column(name) for name in declared):
        return declared, "unique_key"
    constrained = tuple(_list_constrained(node))
    if constrained:
        return constrained, "constraint"
    return (tested_key, "tests") if tested_key else ((), "none")


def _is_column(text: str) -> bool:
    """Whether a part of a `unique_key` is a column's name rather than an expression."""
    return text.isidentifier()


def _list_constrained(node: Any) -> Iterator[str]:
    """Yields the columns of the primary key that the model's contract declares."""
    for constraint in node.constraints or ():
        if str(constraint.type) == "primary_key":
            yield from constraint.columns
            return
    for column in node.columns.values():
        if any(_get_type(constraint) == "primary_key" for constraint in column.constraints or ()):
            yield str(column.name)


def _get_type(constraint: Any) -> str:
    kind = constraint.get("type") if isinstance(constraint, Mapping) else constraint.type
    return str(getattr(kind, "value", kind))


def _list_tested_keys(manifest: Any) -> dict[str, tuple[str, ...]]:
    """Maps models to the first column that is tested to be unique and not null, or the first unique combination.

    Models without such tests are left out.
    """
    unique: dict[str, list[tuple[str, ...]]] = {}
    filled: dict[str, set[str]] = {}
    tests = [node for node in manifest.nodes.values() if str(node.resource_type) == "test"]
    for test in sorted(tests, key=lambda node: str(node.unique_id)):
        metadata, tested = getattr(test, "test_metadata", None), str(getattr(test, "attached_node", None) or "")
        if metadata is None or test.config.where:
            continue
        column = str(metadata.kwargs.get("column_name") or "")
        if metadata.name == "unique" and column:
            unique.setdefault(tested, []).append((column,))
        elif metadata.name == "unique_combination_of_columns":
            unique.setdefault(tested, []).append(tuple(metadata.kwargs.get("combination_of_columns") or ()))
        elif metadata.name == "not_null":
            filled.setdefault(tested, set()).add(column)
    return {name: key for name, keys in unique.items() if (key := _choose_key(keys, filled.get(name, set())))}


def _choose_key(keys: list[tuple[str, ...]], filled: set[str]) -> tuple[str, ...]:
    usable = (key for key in keys if len(key) > 1 or set(key) <= filled)
    return next((key for key in usable if all(_is_column(name) for name in key)), ())


def _list_constants() -> tuple[str, ...]:
    """Returns texts that dbt writes into queries and that differ in each run: invocation id and start minute."""
    from dbt_common.invocation import get_invocation_id

    from dbt import tracking

    started = getattr(tracking.active_user, "run_started_at", None)
    return (get_invocation_id(), *([started.strftime("%Y-%m-%d %H:%M")] if started else []))


def _to_list(value: Any) -> list[str]:
    if value is None or value == "":
        return []
    return [str(part) for part in value] if isinstance(value, list | tuple) else [str(value)]


_MATERIALIZED = re.compile(r"""(\bmaterialized\s*=\s*)(['"])incremental\2""")


@dataclass(frozen=True)
class AdoptionPatch:
    """Changes by which incremental models become arctic models.

    `diff` is a unified diff of model files, which `git apply` takes. `models` are the names of its models. `configured`
    are models whose materialization is set elsewhere, such as in dbt_project.yml; `keyless` are models without a key.
    """

    diff: str
    models: tuple[str, ...]
    configured: tuple[str, ...]
    keyless: tuple[str, ...]

    def describe(self) -> list[str]:
        """Returns lines for people; empty if the project has no incremental model."""
        lines = []
        if self.models:
            lines += [
                "Apply this patch by hand or with `arctic adopt --patch | git apply`, then run `arctic adopt` again:",
                "",
            ]
        lines += self.diff.splitlines()
        if self.configured:
            lines.append(f"set `materialized: arctic` where YAML sets `incremental`: {', '.join(self.configured)}")
        if self.keyless:
            names = ", ".join(self.keyless)
            lines.append(f"no key is known, so `primary_key` has to be configured first: {names}")
        return lines


def write_adoption_patch(project_dir: Path, manifest: Any, names: Sequence[str]) -> AdoptionPatch:
    """Writes the patch for the incremental models of a project, or for those of them that are named.

    Models of packages are left out. Comments, `is_incremental()` and all other configuration stay as they are: arctic
    models take them.
    """
    nodes = _select_nodes(manifest, names)
    keys = find_incremental_keys(manifest, nodes)
    keyless = [node for node in nodes if not keys[node.unique_id]]
    parts, models, configured = [], [], []
    for node in nodes:
        path = project_dir / node.original_file_path
        old = path.read_text(encoding="utf-8")
        new = _MATERIALIZED.sub(r"\1\2arctic\2", old)
        if node in keyless:
            continue
        if new == old:
            configured.append(node.name)
            continue
        models.append(node.name)
        parts.append(_write_diff(node.original_file_path, old, new))
    return AdoptionPatch("".join(parts), tuple(models), tuple(configured), tuple(node.name for node in keyless))


def _select_nodes(manifest: Any, names: Sequence[str]) -> list[Any]:
    own = manifest.metadata.project_name
    nodes: Iterable[Any] = sorted(manifest.nodes.values(), key=lambda node: str(node.unique_id))
    return [
        node
        for node in nodes
        if is_incremental(node) and node.package_name == own and (not names or node.name in names)
    ]


def _write_diff(path: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
