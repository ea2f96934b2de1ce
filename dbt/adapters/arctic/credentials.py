"""Credentials from a target of `profiles.yml`, checked when they are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from dbt.adapters.contracts.connection import Credentials
from dbt_common.exceptions import DbtRuntimeError

from arctic_runtime.catalog.branch.catalog_branch import check_branches
from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.profile import KEPT, Profile, mask_secrets
from arctic_runtime.service.settings import read_settings
from arctic_runtime.service.telemetry.configured import check_telemetry
from arctic_runtime.target_settings import ALIASES, TargetSettings
from arctic_runtime.thresholds import Thresholds
from dbt.adapters.arctic.connections.target_type import check_target_type, show_target_type
from dbt.adapters.arctic.profile_keys import PROFILE_KEYS, PUBLISH

_OTHER_ADAPTERS_KEYS = {
    "host": "there is no host: give `warehouse`, or `method: connect` with `url`",
    "port": "there is no port: with `method: connect` it is part of `url`",
    "token": "with `method: connect` a token is part of `url`: sc://host:port/;token=…",
}


@dataclass
class ArcticCredentials(Credentials):
    """A target of type `arctic`; `catalog` is an alias of `database`.

    A relative `warehouse` is relative to the project's folder. If `warehouse` is in an object store, the catalog is
    there too, and `catalog_config` has the properties of the store. `keep_alive` is the time for which an embedded
    Spark is kept without use; None for the default, which depends on the place where the command runs. `clone_ttl` is
    the time after which a clone of a model of this target is dropped if nobody uses it. With `clone_from_state`, a run
    with `--defer` makes missing models clones of those of the state; with `promote_from_state`, a run with `--state`
    takes over what clones in that environment have computed. With `publish: build`, all models of a build
    become visible together, after its tests; with `publish: model`, each after its own run. `telemetry` has the file
    with the metrics of commands. `target_type` is the value
    of `target.type` in Jinja, if it is not to be `arctic`. Unknown or contradictory keys raise DbtRuntimeError, which
    dbt shows together with the names of profile and target.
    """

    database: str = "lake"
    schema: str = ""
    method: str = "session"
    warehouse: str | None = None
    catalog_config: dict[str, Any] = field(default_factory=dict)
    master: str | None = None
    url: str | None = None
    server_side_parameters: dict[str, Any] = field(default_factory=dict)
    serve: dict[str, Any] = field(default_factory=dict, repr=False)
    telemetry: dict[str, Any] = field(default_factory=dict)
    keep_alive: str | int | None = None
    clone_ttl: str | bool | None = None
    clone_from_state: bool = False
    promote_from_state: bool = False
    publish: str = "model"
    target_type: str | None = None

    thresholds: ClassVar[Thresholds] = Thresholds()
    """Limits of planning and execution that no configuration key sets; the same for every profile."""

    _ALIASES: ClassVar[dict[str, str]] = dict(ALIASES)

    @classmethod
    def validate(cls, data: Any) -> None:
        if isinstance(data, dict):
            _refuse_unknown(set(data) - set(PROFILE_KEYS))
        super().validate(data)

    def __post_init__(self) -> None:
        if not self.schema.strip():
            raise DbtRuntimeError("`schema` is missing: name the schema that models are built in")
        if self.method == "session" and self.warehouse is None and not self.catalog_config:
            raise DbtRuntimeError(
                "neither `warehouse` nor `catalog_config` is given: add `warehouse: ./warehouse` for an embedded "
                "catalog, or describe your Iceberg catalog in `catalog_config`"
            )
        if self.method == "connect" and self.url != KEPT:
            self._refuse_what_is_the_servers()
        self.to_profile(Path.cwd())
        self._check_parts()
        self._check_publish()
        check_target_type(self.target_type)
        if self.target_type is not None:
            show_target_type()

    def _check_parts(self) -> None:
        """Checks `serve` and `telemetry` when the profile is read; raises DbtRuntimeError for invalid settings."""
        try:
            if self.serve:
                read_settings(self.serve)
            check_telemetry(self.telemetry)
        except ConfigError as error:
            raise DbtRuntimeError(str(error)) from error

    def _check_publish(self) -> None:
        if self.publish not in PUBLISH:
            raise DbtRuntimeError(
                f"`publish` is {self.publish!r}: write `model`, so that each model is published by its own run, or "
                "`build`, so that all models of a build are published together, after its tests"
            )
        if self.publish == "build":
            try:
                check_branches(self.to_profile(Path.cwd()))
            except ConfigError as error:
                raise DbtRuntimeError(str(error)) from error

    def _refuse_what_is_the_servers(self) -> None:
        if self.warehouse is not None:
            raise DbtRuntimeError(
                "`method: connect` can't use `warehouse`, whose catalog is on this machine: describe the server's "
                "catalog in `catalog_config`, or leave both out where the server knows the catalog `"
                f"{self.database}` already; `url: local` is a server on this machine, which can"
            )
        if self.master is not None:
            raise DbtRuntimeError("`master` means nothing with `method: connect`: the server has its own")

    @property
    def type(self) -> str:
        return "arctic"

    @property
    def unique_field(self) -> str:
        return str(self.url or self.warehouse or self.catalog_config.get("uri") or self.database)

    def _connection_keys(self) -> tuple[str, ...]:
        return (
            "database",
            "schema",
            "method",
            "warehouse",
            "catalog_config",
            "master",
            "url",
            "keep_alive",
            "clone_ttl",
            "clone_from_state",
            "promote_from_state",
            "publish",
            "target_type",
        )

    def connection_info(self, *, with_aliases: bool = False) -> Iterable[tuple[str, Any]]:
        """Yields the keys that `dbt debug` prints and `target` contains: only those set, with secrets masked."""
        for key, value in super().connection_info(with_aliases=with_aliases):
            if value is None or value is False or value == {}:
                continue
            yield key, _strip_secrets(value)

    def to_profile(self, base: Path) -> Profile:
        """Builds the runtime's profile; a relative warehouse is relative to `base`.

        Raises DbtRuntimeError for invalid settings.
        """
        settings = TargetSettings(**{key.name: getattr(self, key.name) for key in fields(TargetSettings)})
        try:
            return settings.build_profile(base, self.thresholds)
        except ConfigError as error:
            raise DbtRuntimeError(str(error)) from error


def _refuse_unknown(unknown: set[str]) -> None:
    for key in sorted(unknown):
        advice = _OTHER_ADAPTERS_KEYS.get(
            key, f"known are {', '.join(PROFILE_KEYS)}{suggest_nearest(key, PROFILE_KEYS)}"
        )
        raise DbtRuntimeError(f"`{key}` is not a setting of an arctic target; {advice}")


def _strip_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return mask_secrets({str(key): str(part) for key, part in value.items()})
    return mask_secrets({"": value})[""] if isinstance(value, str) else value
