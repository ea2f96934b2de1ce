"""The value of `target.type` in Jinja, which a profile can set for packages that compare it with other adapters."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Final

from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.arctic.profile_keys import TARGET_TYPE_PATTERN

_OTHER_TARGETS: Final[Mapping[str, Mapping[str, str]]] = {
    "databricks": {"catalog": "database", "host": "", "http_path": ""},
    "spark": {"host": ""},
    "snowflake": {"account": "", "role": "", "user": "", "warehouse": ""},
    "bigquery": {"project": "database", "dataset": "schema", "location": ""},
    "postgres": {"dbname": "database", "host": "", "user": ""},
    "redshift": {"dbname": "database", "host": "", "user": ""},
}
"""Keys of the targets of other adapters, each with the key of ours that has its value; "" if there is none."""


def check_target_type(target_type: str | None) -> None:
    """Raises DbtRuntimeError if the setting `target_type` is not a name of an adapter."""
    if target_type is not None and not re.fullmatch(TARGET_TYPE_PATTERN, target_type):
        raise DbtRuntimeError(
            f"`target_type` is the name of an adapter in lower case, such as spark or databricks; found {target_type!r}"
        )


def show_target_type() -> None:
    """Makes dbt show the credentials' `target_type` as `target.type`, if it is set, and the keys of such a target.

    Keys that have no value here are empty texts, which macros of packages may search. dbt takes `target.type` from
    `Credentials.type`, by which it also selects the adapter, so the method that builds `target` is replaced.
    """
    from dbt.config.profile import Profile

    build_target = Profile.to_target_dict
    if hasattr(build_target, "__wrapped__"):
        return

    @functools.wraps(build_target)
    def build_shown_target(profile: Any) -> dict[str, Any]:
        target = build_target(profile)
        shown = getattr(profile.credentials, "target_type", None)
        return {**_list_other_keys(shown, target), **target, "type": shown} if shown else target

    Profile.to_target_dict = build_shown_target  # type: ignore[method-assign, assignment]


def _list_other_keys(shown: str, target: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that a target of the adapter `shown` has, with the values of `target` that mean the same."""
    return {key: target.get(ours, "") for key, ours in _OTHER_TARGETS.get(shown, {}).items()}
