"""The settings of a target from which the runtime's profile is built, with the environment variables in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from arctic_runtime.errors import ConfigError
from arctic_runtime.plan.config.maintenance_settings import read_clone_ttl
from arctic_runtime.profile import Profile, place_warehouse
from arctic_runtime.spark.engine.server import find_server
from arctic_runtime.spark.engine.warm_server import choose_keep_alive, observe_surroundings, read_keep_alive
from arctic_runtime.thresholds import Thresholds

ALIASES: Mapping[str, str] = {"catalog": "database"}
"""Other names of settings, as a profile may write them."""


@dataclass(frozen=True)
class TargetSettings:
    """Settings of a target of type `arctic`, as `ArcticCredentials` describes them."""

    database: str = "lake"
    method: str = "session"
    warehouse: str | None = None
    catalog_config: Mapping[str, Any] = field(default_factory=dict)
    master: str | None = None
    url: str | None = None
    server_side_parameters: Mapping[str, Any] = field(default_factory=dict)
    keep_alive: str | int | None = None
    clone_ttl: str | bool | None = None

    def build_profile(self, base: Path, thresholds: Thresholds) -> Profile:
        """Builds the profile; a relative warehouse is relative to `base`.

        Raises ConfigError for invalid settings.
        """
        for key, text in (("warehouse", self.warehouse), ("master", self.master)):
            if text is not None and not text.strip():
                raise ConfigError(f"`{key}` is an empty text", fix=f"give it a value, or leave `{key}` out")
        unkept = self._build_unkept_profile(base, thresholds)
        profile = replace(unkept, keep_alive_seconds=self._choose_keep_alive(unkept))
        if self.clone_ttl is None:
            return profile
        return replace(profile, clone_ttl_seconds=read_clone_ttl(self.clone_ttl))

    def _choose_keep_alive(self, profile: Profile) -> float:
        """Returns the seconds for which Spark is kept; raises ConfigError if the key has no meaning in this target."""
        if self.keep_alive is None:
            if not profile.is_local:
                return 0.0
            surroundings, thresholds = observe_surroundings(), profile.thresholds.engine
            return choose_keep_alive(surroundings, lambda: find_server(profile) is not None, thresholds)
        seconds = read_keep_alive(self.keep_alive)
        if seconds and not profile.is_local:
            raise ConfigError(
                "`keep_alive` keeps only a Spark that the command itself starts on this machine.",
                expected="method: session and a local master",
                actual=f"method: {profile.method}, master: {profile.master}",
                fix="remove `keep_alive`; with `url: local` the server runs until `arctic spark stop`",
            )
        return seconds

    def _build_unkept_profile(self, base: Path, thresholds: Thresholds) -> Profile:
        master = Profile.master if self.master is None else self.master
        if self.warehouse is not None:
            if self.url is not None and self.method == "session":
                raise ConfigError("`url` is set, but `method` is session; set `method: connect`, or remove `url`")
            return Profile.for_embedded(
                place_warehouse(self.warehouse, base, self.catalog_config),
                catalog=self.database,
                settings=self.server_side_parameters,
                method=self.method,  # type: ignore[arg-type]
                url=self.url,
                master=master,
                thresholds=thresholds,
            )
        return Profile(
            catalog=self.database,
            catalog_properties=self.catalog_config,
            method=self.method,  # type: ignore[arg-type]
            url=self.url,
            settings=self.server_side_parameters,
            master=master,
            thresholds=thresholds,
        )


_VARIABLE = re.compile(
    r"""\{\{\s*env_var\(\s*(['"])(?P<name>\w+)\1\s*(?:,\s*(['"])(?P<default>[^'"\\]*)\3\s*)?\)\s*\}\}"""
)


class UnreadableSettings(Exception):
    """Raised if only dbt can read a setting: it has other Jinja than `env_var`, or a variable that is not set."""


def render_settings(value: Any, environment: Mapping[str, str]) -> Any:
    """Replaces `{{ env_var('NAME', 'default') }}` in all texts of settings.

    Raises UnreadableSettings for other Jinja, and for a variable that is not set and has no default.
    """
    if isinstance(value, dict):
        return {key: render_settings(part, environment) for key, part in value.items()}
    if isinstance(value, list):
        return [render_settings(part, environment) for part in value]
    return _render_text(value, environment) if isinstance(value, str) else value


def _render_text(text: str, environment: Mapping[str, str]) -> str:
    if any(mark in _VARIABLE.sub("", text) for mark in ("{{", "{%", "{#")):
        raise UnreadableSettings("a setting has other Jinja than env_var")
    return _VARIABLE.sub(lambda match: _get_variable(match, environment), text)


def _get_variable(match: re.Match[str], environment: Mapping[str, str]) -> str:
    value = environment.get(match["name"], match["default"])
    if value is None:
        raise UnreadableSettings(match["name"])
    return value
