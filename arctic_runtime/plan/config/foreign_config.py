"""Removes the settings of other dbt adapters from a model's configuration, or translates them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from typing_extensions import assert_never

from arctic_runtime.plan.config.config_readers import get_reader
from arctic_runtime.plan.config.foreign_settings import FOREIGN_SETTINGS, SETTINGS_BY_NAME
from arctic_runtime.plan.config.foreign_treatments import ForeignSetting, Ignored, MacroSetting, Refused, Translated

ON_FOREIGN_CONFIG: Final = "on_foreign_config"
"""Configuration key for settings of other adapters that can't be honoured: `warn` or `error`."""

OnForeignConfig = Literal["warn", "error"]


READ_ON_FOREIGN_CONFIG: Final = get_reader(OnForeignConfig)
"""Reader of the value of `on_foreign_config`."""


@dataclass(frozen=True)
class Remark:
    """A text for users about the treatment of a setting; `adapters` are the adapters that have the setting."""

    setting: str
    adapters: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class RefusedSetting:
    """A setting that can't be honoured: its value as the user wrote it, the reason, and the advised action (`fix`)."""

    setting: str
    adapters: tuple[str, ...]
    value: Any
    because: str
    fix: str


@dataclass(frozen=True)
class TakenConfig:
    """A model's configuration (`keys`) after the settings of other adapters were removed or translated to keys.

    `remarks` are texts about these settings, and `refusals` are the settings that can't be honoured.
    """

    keys: Mapping[str, Any]
    remarks: tuple[Remark, ...] = ()
    refusals: tuple[RefusedSetting, ...] = ()


def has_foreign_settings(names: Iterable[str]) -> bool:
    """Whether one of `names` may be a setting of another adapter, or is `on_foreign_config`."""
    return any(name in SETTINGS_BY_NAME or name == ON_FOREIGN_CONFIG for name in names)


def take_foreign_settings(config: Mapping[str, Any]) -> TakenConfig:
    """Ignores, translates or refuses the settings of other adapters in a model's configuration.

    `config` must have `materialized`. Settings that this adapter's macros follow are kept as they are. Raises
    ConfigError if the value of a translated setting has no counterpart.
    """
    keys = {name: value for name, value in config.items() if name != ON_FOREIGN_CONFIG}
    remarks: list[Remark] = []
    refusals: list[RefusedSetting] = []
    for setting in FOREIGN_SETTINGS:
        if setting.name in config:
            remark, refusal = _take_setting(setting, config, keys)
            remarks += [Remark(setting.name, setting.adapters, remark)] if remark else []
            refusals += [refusal] if refusal else []
    return TakenConfig(keys, tuple(remarks), tuple(refusals))


def _take_setting(
    setting: ForeignSetting, config: Mapping[str, Any], keys: dict[str, Any]
) -> tuple[str | None, RefusedSetting | None]:
    """Removes one setting from `keys`, or translates it to other keys there; returns a remark or a refusal, if any."""
    value, treatment = keys[setting.name], setting.choose_treatment(str(keys.get("materialized")))
    match treatment:
        case MacroSetting():
            return None, None
        case Translated():
            translation = None if _is_empty(value) else treatment.translate(value, _omit_key(keys, setting.name))
            if translation is None:
                return None, None
            del keys[setting.name]
            keys.update(translation.keys)
            return translation.remark, None
        case Ignored():
            del keys[setting.name]
            return _choose_remark(treatment, value), None
        case Refused():
            if treatment.applies(value, config):
                return None, RefusedSetting(setting.name, setting.adapters, value, treatment.because, treatment.fix)
            del keys[setting.name]
            return _choose_remark(treatment.otherwise, value), None
    assert_never(treatment)


def _omit_key(keys: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if key != name}


def _choose_remark(treatment: Ignored | None, value: Any) -> str | None:
    if treatment is None or _is_empty(value) or str(value).strip().lower() in treatment.silent:
        return None
    return treatment.because


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {}, ())


def read_on_foreign_config(config: Mapping[str, Any]) -> OnForeignConfig:
    """Reads `on_foreign_config`, which is `warn` by default; raises ConfigError for any other value."""
    value = config.get(ON_FOREIGN_CONFIG)
    read: OnForeignConfig = "warn" if value is None else READ_ON_FOREIGN_CONFIG(ON_FOREIGN_CONFIG, value)
    return read
