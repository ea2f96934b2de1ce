"""Runs that die before a chosen one of their effects on tables, and leave everything as it is then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.spark.maintenance import base_rewrite as renewal
from arctic_runtime.spark.maintenance import compaction
from arctic_runtime.spark.tables import commit
from arctic_runtime.spark.tables import steps as execute

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model
    from tests.spark.warehouse import Warehouse

EFFECTS = (
    (commit, "attempt"),
    (commit, "write_once"),
    (execute, "attempt"),
    (execute, "write_once"),
    (compaction, "write_once"),
    (renewal, "write_once"),
)
"""Whatever changes a table goes through one of these."""


class Death(BaseException):
    """The process is gone: nobody catches this, and nothing is done after it."""


@dataclass
class Life:
    """Counts effects; from the one called `last` on, none takes place."""

    last: int
    effects: list[str] = field(default_factory=list)

    def living(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def effect(action: Callable[[], Any], what: str) -> Any:
            if len(self.effects) >= self.last:
                raise Death
            self.effects.append(what)
            return original(action, what)

        return effect


def run_until(lake: Warehouse, model: Model, last: int) -> Life | None:
    """Runs a model with only its first `last` effects; None where it did not need more than those."""
    session = lake.environment.session()
    return dying(last, lambda: lake.run(model, lambda: session))


def dying(last: int, action: Callable[[], object]) -> Life | None:
    """Does something with only its first `last` effects; None where it did not need more than those."""
    life = Life(last)
    with pytest.MonkeyPatch.context() as patch:
        for module, name in EFFECTS:
            patch.setattr(module, name, life.living(getattr(module, name)))
        try:
            action()
        except Death:
            return life
    return None
