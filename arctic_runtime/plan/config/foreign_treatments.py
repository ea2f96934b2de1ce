"""Treatments of settings of other dbt adapters: ignored, followed, translated or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from arctic_runtime.plan.config.value_reader import Schema

ARCTIC = "arctic"
"""Value of dbt's `materialized` for arctic models."""


@dataclass(frozen=True)
class Ignored:
    """Treatment of a setting that changes no row of a table: it is removed.

    `because`, in Markdown, states the behaviour of this adapter in its place. `silent` are values, in lower case, that
    ask for just this behaviour, so that they need no remark.
    """

    because: str
    silent: tuple[str, ...] = ()


@dataclass(frozen=True)
class MacroSetting:
    """Treatment of a setting that this adapter's own macros read: it is kept."""


@dataclass(frozen=True)
class Translation:
    """Configuration keys to which a setting is translated, none if it can't be used, and a remark for users."""

    keys: Mapping[str, Any]
    remark: str


@dataclass(frozen=True)
class Translated:
    """Treatment of a setting that is translated to keys of arctic models, which `meaning` describes in Markdown.

    `translate` takes the value and the model's configuration. It returns None for a value in this project's own format,
    if the project has a key of the same name, and raises ConfigError for a value without a counterpart. In this case
    `values` is the JSON schema of the values in the other adapters' format.
    """

    meaning: str
    translate: Callable[[Any, Mapping[str, Any]], Translation | None]
    values: Schema | None = None


def is_set(value: Any, _config: Mapping[str, Any]) -> bool:
    """Whether a value is neither empty nor false; the default of `Refused.applies`."""
    return bool(value)


@dataclass(frozen=True)
class Refused:
    """Treatment of a setting that changes the rows of a table, or the readers who see them, and can't be honoured.

    `because`, the reason, completes a sentence that begins with the setting's name; `fix` is the advised action.
    `applies` takes the value and the model's configuration: if it returns False, the setting is not refused but
    removed, with the remark of `otherwise` if there is one.
    """

    because: str
    fix: str
    applies: Callable[[Any, Mapping[str, Any]], bool] = is_set
    otherwise: Ignored | None = None


Treatment = Ignored | MacroSetting | Translated | Refused


@dataclass(frozen=True)
class ForeignSetting:
    """A setting of other adapters, with its treatment in arctic models and in models of dbt's own materializations."""

    name: str
    adapters: tuple[str, ...]
    arctic: Treatment
    dbt: Treatment

    def choose_treatment(self, materialized: str) -> Treatment:
        return self.arctic if materialized == ARCTIC else self.dbt
