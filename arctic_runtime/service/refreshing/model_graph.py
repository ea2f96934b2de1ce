"""Dependency graph of the models: the order of refreshes, upstreams and downstreams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName

Tables = frozenset[TableName]
NOTHING: Tables = frozenset()


class ModelGraph:
    """The models of a project and the tables that each reads, directly or through views.

    Raises ConfigError if models read each other in a circle; a model that reads only its own table again is allowed.
    """

    def __init__(self, reads: Mapping[TableName, Collection[TableName]]) -> None:
        self.reads: Mapping[TableName, Tables] = {
            model: frozenset(upstream_tables) - {model} for model, upstream_tables in reads.items()
        }
        self.upstreams: Mapping[TableName, Tables] = {
            model: frozenset(upstream_tables & reads.keys()) for model, upstream_tables in self.reads.items()
        }
        self.order: tuple[TableName, ...] = self._order_models()

    def _order_models(self) -> tuple[TableName, ...]:
        named = {model: sorted(self.upstreams[model]) for model in sorted(self.upstreams)}
        try:
            return tuple(TopologicalSorter(named).static_order())
        except CycleError as error:
            circle = " → ".join(str(model) for model in error.args[1])
            raise ConfigError(
                "models read each other in a circle, so there is no order in which to refresh them.",
                actual=circle,
                fix="let one of them read another table",
            ) from error

    @cached_property
    def origins(self) -> Mapping[TableName, Tables]:
        """Maps each model to all tables upstream of it: sources and tables of other models, direct and indirect."""
        origins: dict[TableName, Tables] = {}
        for model in self.order:
            origins[model] = self.reads[model].union(*(origins[upstream] for upstream in self.upstreams[model]))
        return origins

    @cached_property
    def shared_origins(self) -> Mapping[TableName, Tables]:
        """Maps each model to the upstream tables whose rows reach it through several of the tables that it reads."""
        return {model: frozenset(self._list_shared_origins(model)) for model in self.order}

    def _list_shared_origins(self, model: TableName) -> Iterator[TableName]:
        ways = Counter(origin for table in self.reads[model] for origin in {table, *self.origins.get(table, NOTHING)})
        return (origin for origin, count in ways.items() if count > 1)

    @cached_property
    def models_with_shared_origins(self) -> Mapping[TableName, Tables]:
        """Maps each model to the upstream models that themselves have rows of the tables in `shared_origins`.

        When the model is refreshed, all of them must show the same version of these tables.
        """
        return {
            model: frozenset(
                above
                for above in self.origins[model] & self.reads.keys()
                if self.shared_origins[model] & self.origins[above]
            )
            for model in self.order
        }

    def list_downstream(self, models: Iterable[TableName]) -> Tables:
        """Returns the models that read any of `models`, directly or through others, without `models` themselves."""
        upstream_models = frozenset(models)
        return frozenset(model for model in self.order if self.origins[model] & upstream_models) - upstream_models

    def list_groups(self) -> tuple[tuple[TableName, ...], ...]:
        """Returns groups of models that read one another, directly or not; each group in the order of refreshes."""
        members = {model: {model} for model in self.order}
        for model, upstreams in self.upstreams.items():
            for upstream in upstreams:
                _join_groups(members, model, upstream)
        return tuple(
            tuple(model for model in self.order if model in group) for group in _list_distinct(members.values())
        )


def _join_groups(members: dict[TableName, set[TableName]], one: TableName, other: TableName) -> None:
    if members[one] is not members[other]:
        joined = members[one] | members[other]
        members.update(dict.fromkeys(joined, joined))


def _list_distinct(sets: Iterable[set[TableName]]) -> Iterator[set[TableName]]:
    seen: set[int] = set()
    for members in sets:
        if id(members) not in seen:
            seen.add(id(members))
            yield members
