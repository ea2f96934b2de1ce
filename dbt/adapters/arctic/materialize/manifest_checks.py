"""Checks a project's manifest for relations with the same name, and for keys of incremental models without effect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dbt_common.exceptions import CompilationError

from arctic_runtime.catalog.service_table import SERVICE_TABLE
from arctic_runtime.ingest.source import DeclaredTable, name_dead_letter_table
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model

_WITH_RELATION: Final = ("model", "seed", "snapshot")


@dataclass(frozen=True)
class Claim:
    """A relation, and the node or source that writes it."""

    table: TableName
    owner: str
    """The node or source."""

    role: str
    """Description of the relation for messages: the owner's own one, or a helper such as its change table."""

    is_own: bool = False
    """True for the relation of a node itself, whose name dbt compares with those of other nodes."""

    def __str__(self) -> str:
        return f"the {self.role} of {self.owner}"


def check_names(
    nodes: Iterable[Any], models: Mapping[str, Model], sources: Mapping[str, Iterable[DeclaredTable]]
) -> None:
    """Raises CompilationError if a node's relation has the same name as a relation of another node or source.

    `models` are arctic models by node id, `sources` the tables of ingested sources by source name. Case is ignored,
    since not every catalog distinguishes `o` from `O`. The relations of two nodes themselves are not compared, since
    dbt does this.
    """
    claims: dict[tuple[str, ...], list[Claim]] = defaultdict(list)
    for claim in (*_list_node_claims(nodes), *_list_model_claims(models), *_list_source_claims(sources)):
        claims[tuple(part.lower() for part in claim.table.parts)].append(claim)
    for first, *others in claims.values():
        second = next((other for other in others if not (other.is_own and first.is_own)), None)
        if second is not None:
            raise CompilationError(
                f"Two relations have the name {first.table}, so each would be written over the other.\n"
                f"  found: {first}, and {second}\n"
                "  what to do: rename one of the two nodes, or give it another `alias` or schema"
            )


def _list_node_claims(nodes: Iterable[Any]) -> Iterator[Claim]:
    for node in nodes:
        if str(node.resource_type) in _WITH_RELATION and node.config.materialized != "ephemeral":
            table = TableName(str(node.database), str(node.schema), str(node.alias))
            yield Claim(table, f"{node.unique_id} ({node.original_file_path})", "relation", is_own=True)
            if table.name.lower() == SERVICE_TABLE:
                yield Claim(table, "`arctic serve`", "table")


def _list_model_claims(models: Mapping[str, Model]) -> Iterator[Claim]:
    for owner, model in models.items():
        yield from (Claim(table, owner, role) for role, table in model.table.helper_tables.items())
        if model.quarantine is not None:
            table = model.quarantine.table
            yield Claim(table, owner, "quarantine")
            yield from (
                Claim(helper, owner, f"{role} of the quarantine") for role, helper in table.helper_tables.items()
            )
        if model.current_view is not None:
            yield Claim(model.current_view, owner, "`current_view`")
        if model.changes_view is not None:
            yield Claim(model.changes_view, owner, "`changes_view`")


def _list_source_claims(sources: Mapping[str, Iterable[DeclaredTable]]) -> Iterator[Claim]:
    for source, declared in sources.items():
        tables = list(declared)
        yield Claim(name_dead_letter_table(source, tables), f"source {source}", "dead letter table")
        for declaration in tables:
            table = TableName(declaration.catalog, declaration.schema, declaration.identifier)
            owner = f"source {source}.{declaration.name}"
            yield Claim(table, owner, "ingested table")
            helper_tables = {**table.helper_tables, "table for rows of a snapshot": table.staging_name}
            yield from (Claim(helper, owner, role) for role, helper in helper_tables.items())


_STRATEGIES: Final[Mapping[str, tuple[str, ...]]] = {
    "incremental_predicates": ("merge", "delete+insert"),
    "predicates": ("merge", "delete+insert"),
    "merge_update_columns": ("merge",),
    "merge_exclude_columns": ("merge",),
}
"""Configuration keys, with the incremental strategies with which they have an effect."""


def check_merge_keys(nodes: Iterable[Any]) -> None:
    """Raises CompilationError if an incremental model has a key without effect for its incremental strategy.

    The error names the model and the key.
    """
    for node in nodes:
        if str(node.resource_type) == "model" and node.config.materialized == "incremental":
            _check_node(node)


def _check_node(node: Any) -> None:
    config = node.config
    strategy = config.get("incremental_strategy") or ("merge" if config.get("unique_key") else "append")
    for key, strategies in _STRATEGIES.items():
        if config.get(key) and strategy not in strategies:
            raise CompilationError(
                f"{node.original_file_path}: {node.unique_id}: `{key}` has no effect with `incremental_strategy: "
                f"{strategy}`.\n  expected: {' or '.join(strategies)}\n"
                f"  what to do: use one of these strategies with a `unique_key`, or leave `{key}` out"
            )
