"""Explains that a Spark lacks the JARs that a Kafka source needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import JARS_SETTING
from arctic_runtime.spark.engine.java.jars import GROUPS


@contextmanager
def explain_missing_jars(part: str, *groups: str) -> Iterator[None]:
    """Raises ConfigError if Spark cannot analyse the statement in the block, since it lacks the JARs for it.

    `part` names the part of Spark that is missing. `groups` are the groups of JARs that a Kafka source needs for the
    statement; those of the last one are missing.
    """
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        raise ConfigError(
            f"Spark was started without its {part}.",
            expected=", ".join(jar.coordinates for jar in GROUPS[groups[-1]]),
            actual=str(error),
            fix=(
                f"set `{JARS_SETTING}: {','.join(groups)}` in server_side_parameters of the profile and restart Spark, "
                "or install these packages on the Spark Connect server"
            ),
        ) from error
