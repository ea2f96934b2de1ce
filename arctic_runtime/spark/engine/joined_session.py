"""Creates separate sessions on the Spark of a session that the program already has, as in notebooks."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from arctic_runtime.catalog.storage.embedded_warehouse import prepare_warehouse
from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import ICEBERG_EXTENSIONS, Profile, select_fixed_settings
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.remote_session import disable_collector_close, is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def find_session() -> SparkSession | None:
    """Returns the active Spark session of this process; None if there is none, or if it was started for a profile."""
    if PROCESS.root is not None or "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def fork_session(session: SparkSession, profile: Profile) -> SparkSession:
    """Creates a new session on the Spark of `session`, with the catalog and the SQL settings of a profile.

    `session` is not changed. Raises ConfigError if its Spark lacks Iceberg, CatalogError if the profile's warehouse
    can't be used.
    """
    extensions = session.conf.get("spark.sql.extensions", "") or ""
    if ICEBERG_EXTENSIONS not in extensions:
        raise ConfigError(
            "The Spark of this session can't be used.",
            expected=f"spark.sql.extensions has {ICEBERG_EXTENSIONS}",
            actual=extensions or "none",
            fix=(
                "start it with that setting and with Iceberg's JAR, see docs/cluster.md; or stop it, and a "
                "Spark of the profile is started"
            ),
        )
    prepare_warehouse(profile)
    if is_remote(session):
        fork = cast(Any, session).cloneSession()
        disable_collector_close(fork)
    else:
        fork = session.newSession()
    settings = profile.build_session_settings()
    for key in sorted(settings.keys() - select_fixed_settings(settings).keys()):
        if fork.conf.get(key, None) != settings[key]:  # Spark warns of some settings even if they do not change.
            fork.conf.set(key, settings[key])
    return cast("SparkSession", fork)


def release_fork(fork: SparkSession) -> None:
    """Ends a session of `fork_session` if it is on a Spark Connect server, which would keep it for an hour.

    Does nothing for other sessions.
    """
    if is_remote(fork):
        with suppress(Exception):  # The server may have ended, and the session with it.
            cast(Any, fork).client.release_session()
