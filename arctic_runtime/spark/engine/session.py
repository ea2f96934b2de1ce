"""Starts Spark, connects to a running one or joins that of the program; creates a separate session for each user."""

from __future__ import annotations

import os
import platform
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from arctic_runtime.catalog.storage.embedded_warehouse import prepare_warehouse
from arctic_runtime.errors import ArcticError, CatalogError, ConfigError
from arctic_runtime.profile import ICEBERG_EXTENSIONS, Profile, mask_secrets, select_fixed_settings
from arctic_runtime.spark.engine.connection import (
    connect_session,
    disable_collector_close,
    end_session,
    is_remote,
    join_server,
    release_sessions,
)
from arctic_runtime.spark.engine.java.jvm import (
    LASTING_SETTINGS,
    build_jar_settings,
    build_start_error,
    find_jars,
    launch_jvm,
    submit_driver,
)
from arctic_runtime.spark.engine.java.process import METHOD, PROCESS, Spark
from arctic_runtime.spark.engine.jobs import handle_interrupts
from arctic_runtime.spark.engine.messages import get_message
from arctic_runtime.spark.engine.spark_loss import check_spark_answers
from arctic_runtime.spark.engine.warm_server import leave_warm_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkEnvironment:
    """Creates sessions of the Spark that a profile describes; the first session starts Spark.

    A process can have only one Spark. Environments share it if their profiles differ only in SQL settings, such as
    catalogs; others raise ConfigError until `stop_spark` is called. If `joined` is given, nothing is started or
    stopped: all sessions use the Spark of that session. Methods may be called from any thread.
    """

    def __init__(self, profile: Profile, joined: SparkSession | None = None) -> None:
        self.profile = profile
        self._joined = joined
        self._prepared = False

    @property
    def is_started(self) -> bool:
        """Whether Spark runs with the profile's settings already, so that `new_session` is fast."""
        if self._joined is not None:
            return True
        return PROCESS.root is not None and select_fixed_settings(PROCESS.settings) == select_fixed_settings(
            _list_wanted_settings(self.profile)
        )

    def ensure_jars(self) -> None:
        """Downloads those JARs with which this process would start Spark that are not there yet.

        So a library that an image lacks is named when a program starts, and not when it is first needed. Raises
        ConfigError if they can't be downloaded.
        """
        if self._joined is None and self.profile.method == "session":
            find_jars(self.profile.jar_groups)

    def new_session(self) -> SparkSession:
        """Creates a session with its own settings, temporary views and current namespace; starts Spark if needed.

        Raises ConfigError if Java or the JARs are missing, if no server answers, or if Spark runs for another profile,
        SparkEnded if a server answers no more, and CatalogError if the warehouse can't be used.
        """
        if self._joined is not None:
            return fork_session(self._joined, self.profile)
        with PROCESS.lock:
            root = self._get_root()
        if PROCESS.server:
            return self._connect_session()
        return _configure_session(root.newSession(), PROCESS.settings, _list_wanted_settings(self.profile))

    def discard_session(self, session: SparkSession) -> None:
        """Ends a session that is on a server, which would keep it for an hour; does nothing for other sessions."""
        if self._joined is not None:
            release_fork(session)
        elif PROCESS.server:
            PROCESS.lent.discard(session)
            end_session(session)

    def list_versions(self) -> dict[str, str]:
        """Returns the versions in use of `spark`, `iceberg`, `java` and `python`, by these names.

        It creates a session, so it starts Spark if needed.
        """
        from pyspark.sql import functions as F

        session = self.new_session()
        java = F.reflect(F.lit("java.lang.System"), F.lit("getProperty"), F.lit("java.version"))
        iceberg = F.call_function(f"{self.profile.catalog}.system.iceberg_version")
        row = session.range(1).select(java.alias("java"), iceberg.alias("iceberg")).first()
        if row is None:
            raise CatalogError("Spark returned no row where it was asked for its versions.")
        return {
            "spark": session.version,
            "iceberg": row["iceberg"],
            "java": row["java"],
            "python": platform.python_version(),
        }

    def stop_spark(self) -> None:
        """Stops the Spark of this process for all its users; the next `new_session` starts it again.

        The JVM continues to run, with the memory and the Java options that it was started with. On a server, only the
        sessions of this process are ended. Does nothing for a joined session.
        """
        with PROCESS.lock:
            if self._joined is None and PROCESS.root is not None and self.is_started:
                release_sessions()
                PROCESS.root.stop()
                PROCESS.root, PROCESS.settings, PROCESS.server = None, {}, ""
                leave_warm_server()

    def _get_root(self) -> SparkSession:
        if not self._prepared:
            prepare_warehouse(self.profile)
            self._prepared = True
        if PROCESS.root is None:
            start = _start_or_join if self.profile.method == "session" else join_server
            PROCESS.root, PROCESS.ended = start(self.profile), None
            PROCESS.settings = _list_root_settings(self.profile)
        elif not self.is_started:
            raise _build_conflict_error(self.profile)
        return PROCESS.root

    def _connect_session(self) -> SparkSession:
        check_spark_answers()
        thresholds = self.profile.thresholds.engine
        if self.profile.method == "connect":
            return connect_session(PROCESS.server, self.profile.build_session_settings(), thresholds)
        wanted = _list_wanted_settings(self.profile)
        changed = {key: value for key, value in wanted.items() if PROCESS.settings.get(key) != value}
        session = connect_session(PROCESS.server, changed, thresholds)
        return _configure_session(session, {**PROCESS.settings, **changed}, wanted)


def start_spark(profile: Profile, more: Mapping[str, str]) -> Spark:
    """Starts Spark in this process for a server; its clients' sessions add the settings of the catalog.

    The process must not have a Spark yet. `more` are settings besides those of the profile.
    """
    prepare_warehouse(profile)
    session = _start_root(profile, {**_list_shared_settings(profile), **more})
    assert PROCESS.jvm is not None
    return Spark(session, PROCESS.jvm, PROCESS.log)


def _start_or_join(profile: Profile) -> SparkSession:
    """Starts Spark in this process, or joins the one that is kept for it; the user learns why that is not possible.

    A process that runs for days has a Spark of its own.
    """
    if not profile.keeps_warm or PROCESS.is_lasting or PROCESS.gateway is not None:
        return _start_root(profile)
    from pyspark.errors import PySparkException

    try:
        return join_server(profile)
    except (ArcticError, OSError, ImportError, PySparkException) as error:
        leave_warm_server()
        PROCESS.server = ""
        PROCESS.report(f"Spark runs in this process and is not kept. {get_message(error).splitlines()[0]}")
    return _start_root(profile)


def _start_root(profile: Profile, wanted: Mapping[str, str] | None = None) -> SparkSession:
    lasting = LASTING_SETTINGS if PROCESS.is_lasting else {}
    settings = {
        **lasting,
        **(profile.build_spark_settings() if wanted is None else wanted),
        **build_jar_settings(profile),
    }
    thresholds = PROCESS.thresholds = profile.thresholds.engine
    if PROCESS.gateway is None:
        PROCESS.gateway = (launch_jvm if profile.is_local else submit_driver)(settings, thresholds)
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # It is set by a connection to a server, of this process or of its parent; pyspark starts no Spark if it is set.
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
    earlier = signal.getsignal(signal.SIGINT)
    try:
        context = SparkContext(conf=SparkConf().setAll(list(settings.items())), gateway=PROCESS.gateway)
    except Py4JJavaError as error:
        reason = str(error.java_exception).splitlines()[0]
        raise build_start_error(reason, PROCESS.log) from None
    handle_interrupts(context.cancelAllJobs, earlier, thresholds)
    return SparkSession.builder.getOrCreate()


def _configure_session(session: SparkSession, has: Mapping[str, str], wanted: Mapping[str, str]) -> SparkSession:
    """Changes the SQL settings of a session from `has` to `wanted`: sets those that differ, unsets those only in `has`.

    Returns the session.
    """
    for key in sorted({*has, *wanted}):
        if key.startswith("spark.sql.") and has.get(key) != wanted.get(key):
            if key in wanted:
                session.conf.set(key, wanted[key])
            else:
                session.conf.unset(key)
    return session


def _list_shared_settings(profile: Profile) -> dict[str, str]:
    """Lists the settings with which a server is started for a profile: all but those of its catalog."""
    own = f"spark.sql.catalog.{profile.catalog}"
    settings = profile.build_spark_settings()
    shared = {key: value for key, value in settings.items() if key != own and not key.startswith(f"{own}.")}
    del shared["spark.sql.defaultCatalog"]
    return shared


def _list_root_settings(profile: Profile) -> dict[str, str]:
    """Lists the settings that a new session of the running Spark has, and the method of its profile."""
    wanted = _list_wanted_settings(profile)
    is_joined = PROCESS.server and profile.method == "session"
    return {**_list_shared_settings(profile), METHOD: wanted[METHOD]} if is_joined else wanted


def _list_wanted_settings(profile: Profile) -> dict[str, str]:
    return {**profile.build_spark_settings(), METHOD: f"{profile.method} {profile.url or ''}".strip()}


def _build_conflict_error(profile: Profile) -> ConfigError:
    running, wanted = select_fixed_settings(PROCESS.settings), select_fixed_settings(_list_wanted_settings(profile))
    changed = [key for key in sorted({*running, *wanted}) if running.get(key) != wanted.get(key)]
    there, here = (
        ", ".join(f"{key}={value}" for key, value in mask_secrets({k: side.get(k, "(unset)") for k in changed}).items())
        for side in (running, wanted)
    )
    return ConfigError(
        "Spark of another profile already runs in this process.",
        where=repr(profile),
        expected=here,
        actual=there,
        fix="run the other target in its own process, or call stop() on the running session",
    )


def find_session() -> SparkSession | None:
    """Returns the active Spark session of this process; None if there is none, or if a profile started it."""
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
