"""Reads profile.yml: the settings of a target for a runtime without dbt, and where the schemas of models are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import yaml

from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.profile import Profile, mask_text
from arctic_runtime.target_settings import ALIASES, TargetSettings, UnreadableSettings, render_settings
from arctic_runtime.thresholds import Thresholds

DEFAULT_FILE: Final = Path("profile.yml")
"""The file that is read if none is named, in the current folder."""

_SETTINGS: Final = tuple(setting.name for setting in fields(TargetSettings))
_OTHERS: Final = ("type", "threads", "schemas", "serve", "telemetry")
_OF_DBT: Final[Mapping[str, str]] = {
    "schema": "each model has its schema; `schemas` maps schemas to others",
    "publish": "each model is published by its own run",
    "clone_from_state": "clones are made by dbt's own commands",
    "target_type": "there is no Jinja to compile",
}
"""Keys of a target that mean nothing without dbt, with the reason."""


@dataclass(frozen=True)
class ManifestTarget:
    """Where the models of a manifest are, and how they are computed."""

    profile: Profile
    threads: int = 1
    schemas: Mapping[str, str] = field(default_factory=dict)
    """Maps schemas of the manifest, or of files of SQL, to those of the catalog; others are the same in both."""

    telemetry: Mapping[str, Any] = field(default_factory=dict)
    serve: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Settings of the service, which `read_settings` checks."""


def read_profile_file(file: Path, environment: Mapping[str, str] | None = None) -> ManifestTarget:
    """Reads the settings of a target; a relative warehouse is relative to the folder of the file.

    Texts may contain `{{ env_var('NAME') }}`. Raises ConfigError for a file that can't be read, and for invalid
    settings.
    """
    settings = _render_file(file, os.environ if environment is None else environment)
    return _build_target(settings, file.absolute().parent)


def _render_file(file: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    expected = "keys of a target of dbt-arctic, such as `warehouse: ./warehouse`"
    try:
        written = yaml.safe_load(file.read_bytes())
        if not isinstance(written, dict):
            raise TypeError(f"a {type(written).__name__}")
        rendered: dict[str, Any] = render_settings(written, environment)
        return rendered
    except OSError as error:
        raise ConfigError(
            "The profile can't be read.",
            where=str(file),
            expected=expected,
            actual=error.strerror or str(error),
            fix="write it, or name another one by --profile",
        ) from error
    except UnreadableSettings as error:
        raise ConfigError(
            "The profile has Jinja that needs dbt, or a variable that is not set.",
            where=str(file),
            expected="no Jinja but {{ env_var('NAME') }}",
            actual=str(error),
        ) from error
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise ConfigError(
            "The profile is no mapping of keys in YAML.", where=str(file), expected=expected, actual=str(error)
        ) from error


def _build_target(settings: Mapping[str, Any], base: Path) -> ManifestTarget:
    known = {ALIASES.get(str(key), str(key)): value for key, value in settings.items()}
    for key in known:
        if key in _OF_DBT:
            raise ConfigError(f"`{key}` means nothing without dbt: {_OF_DBT[key]}.", fix=f"remove `{key}`")
        if key not in (*_SETTINGS, *_OTHERS):
            names = [*_SETTINGS, "catalog", *_OTHERS]
            raise ConfigError(f"`{key}` is no key{suggest_nearest(key, names)}; known are {', '.join(sorted(names))}")
    if known.get("type", "arctic") != "arctic":
        raise ConfigError("the profile is of another adapter.", expected="type: arctic", actual=f"{known['type']}")
    threads, schemas, serve = known.get("threads", 1), known.get("schemas") or {}, known.get("serve")
    if not isinstance(threads, int) or threads < 1:
        raise ConfigError("`threads` is no number of models.", expected="1 or more", actual=repr(threads))
    if not isinstance(schemas, Mapping):
        raise ConfigError("`schemas` is no mapping.", expected="schema of the manifest: schema", actual=repr(schemas))
    if serve is not None and not isinstance(serve, Mapping):
        raise ConfigError("`serve` is no mapping.", expected="serve: {schema: …}", actual=mask_text(repr(serve)))
    target = TargetSettings(**{key: value for key, value in known.items() if key in _SETTINGS})
    if target.method == "session" and target.warehouse is None and not target.catalog_config:
        raise ConfigError("neither `warehouse` nor `catalog_config` is given.", fix="add `warehouse: ./warehouse`")
    return ManifestTarget(
        target.build_profile(base, Thresholds()),
        threads,
        {str(key): str(value) for key, value in schemas.items()},
        known.get("telemetry") or {},
        serve or {},
    )
