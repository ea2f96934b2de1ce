"""The process of a Trino: starts its server in Java, and keeps it running. `trino_server` starts it.

Its own program that does so is in no repository of Maven. The settings are those of the working directory.
"""

from __future__ import annotations

import os
import sys
import threading

import jpype

JAVA_OPTIONS = (
    *("-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=256m"),
    *("-Duser.timezone=UTC", "-Djdk.attach.allowAttachSelf=true", "--add-modules=jdk.incubator.vector"),
    *("--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow"),
    "-Dconfig=etc/config.properties",
)


def serve_queries(java_home: str, jars: str, version: str) -> None:
    """Starts the server from a folder of JARs, and never returns; the server ends this process if it can't start."""
    os.environ["JAVA_HOME"] = java_home
    jpype.startJVM(*JAVA_OPTIONS, classpath=[f"{jars}/*"])
    jpype.JClass("io.trino.server.Server")().start(version)
    threading.Event().wait()


if __name__ == "__main__":
    serve_queries(*sys.argv[1:])
