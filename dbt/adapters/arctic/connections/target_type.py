"""The value of `target.type` in Jinja, which a profile can set for packages that compare it with other adapters."""

from __future__ import annotations

import functools
import re
from typing import Any

from dbt_common.exceptions import DbtRuntimeError


def check_target_type(target_type: str | None) -> None:
    """Raises DbtRuntimeError if the setting `target_type` is not a name of an adapter."""
    if target_type is not None and not re.fullmatch(r"[a-z][a-z0-9_]*", target_type):
        raise DbtRuntimeError(
            f"`target_type` is the name of an adapter in lower case, such as spark or databricks; found {target_type!r}"
        )


def show_target_type() -> None:
    """Makes dbt show the credentials' `target_type` as `target.type`, if it is set.

    dbt takes `target.type` from `Credentials.type`, by which it also selects the adapter, so the method that builds
    `target` is replaced.
    """
    from dbt.config.profile import Profile

    build_target = Profile.to_target_dict
    if hasattr(build_target, "__wrapped__"):
        return

    @functools.wraps(build_target)
    def build_shown_target(profile: Any) -> dict[str, Any]:
        target = build_target(profile)
        shown = getattr(profile.credentials, "target_type", None)
        return {**target, "type": shown} if shown else target

    Profile.to_target_dict = build_shown_target  # type: ignore[method-assign, assignment]
