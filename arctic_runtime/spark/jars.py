"""The command `python -m arctic_runtime.spark.jars`: prepares Java, the JARs and the class-data archive of Spark."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import JARS_SETTING
from arctic_runtime.spark.engine.class_archive import record_archive
from arctic_runtime.spark.engine.java.jars import (
    find_java,
    group_paths,
    install_java,
    prune_files,
    resolve_jar_paths,
)
from arctic_runtime.thresholds import EngineThresholds


def main(arguments: Sequence[str]) -> int:
    """Downloads and prepares everything that Spark needs, so that later starts are fast and need no network.

    `--install-java` in `arguments` installs a Java if none is suitable; all other arguments are groups of further JARs.
    Existing files are kept. Returns the exit code of the process; 2 after an error, which is printed.
    """
    try:
        if "--install-java" in arguments:
            _ensure_java()
        resolve_jar_paths()
        group_paths({JARS_SETTING: ",".join(name for name in arguments if not name.startswith("-"))})
        archive = record_archive()
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    prune_files(archive.parent, "*.jsa", keep=EngineThresholds().kept_archives)
    return 0


def _ensure_java() -> None:
    try:
        find_java()
    except ConfigError:
        install_java()
        find_java()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
