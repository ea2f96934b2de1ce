"""Treatments of configuration settings that belong to other dbt adapters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ARCTIC = "arctic"
"""The materialization of arctic models."""


@dataclass(frozen=True)
class Ignored:
    """The setting changes no row of a table, and is left out; `because` says what holds in its place, in Markdown.

    `silent` are the values, in lower case, that say what holds anyway, so that no remark is made of them.
    """

    because: str
    silent: tuple[str, ...] = ()


@dataclass(frozen=True)
class Followed:
    """The adapter's own macros do what the setting says."""


@dataclass(frozen=True)
class Translation:
    """Keys of an arctic model that follow from a setting, none if it can't be used, and the remark about it."""

    keys: Mapping[str, Any]
    remark: str


@dataclass(frozen=True)
class Translated:
    """The setting becomes keys of the model; `meaning` says which, in Markdown.

    `translate` takes the value and the model's configuration. It returns None for a value that is no setting of another
    adapter, because the key has a meaning here too, and raises ConfigError for a value without a counterpart.
    """

    meaning: str
    translate: Callable[[Any, Mapping[str, Any]], Translation | None]


def is_set(value: Any, _config: Mapping[str, Any]) -> bool:
    """Whether a value asks for something at all."""
    return bool(value)


@dataclass(frozen=True)
class Refused:
    """The setting changes which rows a table has, or who sees them, and can't be honoured.

    `because` completes a sentence that begins with the setting. `applies` takes the value and the model's
    configuration: a value that asks for nothing is not refused, but treated as `otherwise` says, or passed over.
    """

    because: str
    fix: str
    applies: Callable[[Any, Mapping[str, Any]], bool] = is_set
    otherwise: Ignored | None = None


Treatment = Ignored | Followed | Translated | Refused


@dataclass(frozen=True)
class ForeignSetting:
    """A setting of other adapters, and its treatment in arctic models and in models of dbt's own materializations."""

    name: str
    adapters: tuple[str, ...]
    arctic: Treatment
    dbt: Treatment

    def choose_treatment(self, materialized: str) -> Treatment:
        return self.arctic if materialized == ARCTIC else self.dbt
