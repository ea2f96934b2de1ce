"""Runs that die before a chosen one of their effects, and leave everything as it is then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from arctic_runtime.effects import set_failpoint

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model
    from tests.spark.warehouse import Warehouse


class Death(BaseException):
    """The process is gone: nobody catches this, and nothing is done after it."""


@dataclass
class Life:
    """A failpoint that counts effects; from the one called `last` on, none takes place."""

    last: int
    effects: list[str] = field(default_factory=list)

    def __call__(self, name: str, action: Callable[[], Any]) -> Any:
        if len(self.effects) >= self.last:
            raise Death
        self.effects.append(name)
        return action()


def run_until(lake: Warehouse, model: Model, last: int) -> Life | None:
    """Runs a model with only its first `last` effects; None where it did not need more than those."""
    session = lake.environment.new_session()
    return dying(last, lambda: lake.run(model, lambda: session))


def dying(last: int, action: Callable[[], object]) -> Life | None:
    """Does something with only its first `last` effects; None where it did not need more than those."""
    life = Life(last)
    with set_failpoint(life):
        try:
            action()
        except Death:
            return life
    return None
