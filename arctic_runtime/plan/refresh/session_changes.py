"""Compares Spark sessions: which of their differences may change the result of a query.

The commit of each run stores its session as a readable text, `{"spark": "4.1", "settings": {…}}`, with the settings
that may change results and do not have the default value of Spark. Releases before it stored a hash of Spark's exact
version and of all settings that they did not know to be harmless.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from arctic_runtime.model.masking import is_masked
from arctic_runtime.plan.refresh.spark_settings import DEFAULTS, is_harmless, select_counted_before

_PATCHES = 20
"""Number of patch releases of a minor version of Spark, at most, one of which may be in a stored hash."""

_CREDENTIALS = re.compile(r"://[^/\s]*@")


@dataclass(frozen=True)
class SessionState:
    """Version of Spark and settings of a session; settings not set in it are missing."""

    version: str
    settings: Mapping[str, str]

    @property
    def minor_version(self) -> str:
        """Spark's version without the patch release, which corrects faults and changes no results."""
        return get_minor_version(self.version)

    def encode(self) -> str:
        """Writes as JSON what of the session may change results, to be stored in a commit's summary."""
        return json.dumps({"spark": self.minor_version, "settings": describe_settings(self.settings)}, sort_keys=True)


def get_minor_version(version: str) -> str:
    """Returns `4.1` of the version `4.1.4`."""
    return ".".join(version.split(".")[:2])


def describe_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Selects the settings that may change results and differ from Spark's defaults; secrets are replaced by a hash."""
    return {
        key: _hide_secret(key, value)
        for key, value in sorted(settings.items())
        if key.startswith("spark.sql.") and not is_harmless(key) and not _is_default(key, value)
    }


def describe_session_change(earlier: str | None, session: SessionState) -> str:
    """Describes in one line how a session differs from the stored one `earlier`; "" if no result may differ."""
    if earlier is None:
        return "the SQL settings of Spark of the last run are not known"
    if not earlier.startswith("{"):
        is_known = earlier in _list_earlier_hashes(session)
        return "" if is_known else "SQL settings of Spark, or its version, are others than in the last run"
    before, now = json.loads(earlier), json.loads(session.encode())
    versions = [f"Spark {before['spark']} -> {now['spark']}"] if before["spark"] != now["spark"] else []
    return ", ".join([*versions, *describe_changed_settings(before["settings"], now["settings"])])


def describe_changed_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Describes each setting that differs, as `` `spark.sql.ansi.enabled`: true -> false ``."""
    for key in sorted({*before, *now}):
        if before.get(key) != now.get(key):
            shown = (settings.get(key, DEFAULTS.get(key, "not set")) for settings in (before, now))
            yield f"`{key}`: {' -> '.join(shown)}"


def _list_earlier_hashes(session: SessionState) -> set[str]:
    """Lists the hashes that earlier releases stored for a session with these settings and this minor version."""
    counted = sorted(select_counted_before(session.settings).items())
    patches = (f"{session.minor_version}.{patch}" for patch in range(_PATCHES))
    return {_hash_value((version, counted)) for version in (session.version, *patches)}


def _is_default(key: str, value: str) -> bool:
    default = DEFAULTS.get(key)
    return value == default or (default in ("true", "false") and value.strip().lower() == default)


def _hide_secret(key: str, value: str) -> str:
    is_secret = is_masked(key, {}) or _CREDENTIALS.search(value) is not None
    return f"hash {_hash_value((key, value))}" if is_secret else value


def _hash_value(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
