"""Builds the profile of a target from `profiles.yml` without dbt, for files whose Jinja only reads variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from arctic_runtime.profile import Profile
from arctic_runtime.thresholds import Thresholds
from dbt.adapters.arctic.target_settings import ALIASES, TargetSettings

_VARIABLE = re.compile(
    r"""\{\{\s*env_var\(\s*(['"])(?P<name>\w+)\1\s*(?:,\s*(['"])(?P<default>[^'"\\]*)\3\s*)?\)\s*\}\}"""
)
_KEYS = frozenset(key.name for key in fields(TargetSettings))


class UnreadableProfile(Exception):
    """Raised if only dbt can read a profile."""


def read_target_profile(
    file: Path, profile: str, target: str, base: Path, environment: Mapping[str, str], thresholds: Thresholds
) -> Profile:
    """Builds the profile of a target; a relative warehouse is relative to `base`.

    Raises UnreadableProfile if its settings have other Jinja than `env_var` of a name that is written out, and
    ConfigError for invalid settings.
    """
    try:
        written: Any = yaml.safe_load(file.read_bytes())
        settings: Any = written[profile]["outputs"][target]
        known = {ALIASES.get(key, key): value for key, value in settings.items()}
    except (OSError, ValueError, yaml.YAMLError, LookupError, TypeError, AttributeError) as error:
        raise UnreadableProfile(str(file)) from error
    rendered = {key: _render_value(value, environment) for key, value in known.items() if key in _KEYS}
    return TargetSettings(**rendered).build_profile(base, thresholds)


def _render_value(value: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _render_value(part, environment) for key, part in value.items()}
    if isinstance(value, list):
        return [_render_value(part, environment) for part in value]
    return _render_text(value, environment) if isinstance(value, str) else value


def _render_text(text: str, environment: Mapping[str, str]) -> str:
    if any(mark in _VARIABLE.sub("", text) for mark in ("{{", "{%", "{#")):
        raise UnreadableProfile("a setting has other Jinja than env_var")
    return _VARIABLE.sub(lambda match: _get_variable(match, environment), text)


def _get_variable(match: re.Match[str], environment: Mapping[str, str]) -> str:
    value = environment.get(match["name"], match["default"])
    if value is None:
        raise UnreadableProfile(match["name"])
    return value
