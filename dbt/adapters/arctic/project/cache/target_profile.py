"""Builds the profile of a target from `profiles.yml` without dbt, for files whose Jinja only reads variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from arctic_runtime.profile import Profile
from arctic_runtime.target_settings import ALIASES, TargetSettings, UnreadableSettings, render_settings
from arctic_runtime.thresholds import Thresholds

_KEYS = frozenset(key.name for key in fields(TargetSettings))


def read_target_profile(
    file: Path, profile: str, target: str, base: Path, environment: Mapping[str, str], thresholds: Thresholds
) -> Profile:
    """Builds the profile of a target; a relative warehouse is relative to `base`.

    Raises UnreadableSettings if its settings have other Jinja than `env_var` of a name that is written out, and
    ConfigError for invalid settings.
    """
    try:
        written: Any = yaml.safe_load(file.read_bytes())
        settings: Any = written[profile]["outputs"][target]
        known = {ALIASES.get(key, key): value for key, value in settings.items()}
    except (OSError, ValueError, yaml.YAMLError, LookupError, TypeError, AttributeError) as error:
        raise UnreadableSettings(str(file)) from error
    rendered = render_settings({key: value for key, value in known.items() if key in _KEYS}, environment)
    return TargetSettings(**rendered).build_profile(base, thresholds)
