"""The unit suite on every Python that is supported and installed: `nox`, or `nox -s unit-3.12` for one."""

from __future__ import annotations

import nox

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
NEWEST = (
    *("dbt-adapters<2", "dbt-common<2", "dbt-core<2", "dbt-spark<2"),  # dbt v2 loads no adapters in Python
    *("duckdb", "pyarrow", "pyiceberg", "sqlglot"),
)
"""Packages whose newest versions are tried, also those that the requirements rule out."""

nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["unit"]
nox.options.error_on_missing_interpreters = False


@nox.session(python=PYTHONS)
def unit(session: nox.Session) -> None:
    """No Java; arguments after `--` go to pytest."""
    session.install("-c", "constraints.txt", "-e", ".[dev]")
    session.install("--no-deps", "-r", "requirements-dbt.txt")
    session.run("python", "-m", "pytest", "tests/unit", "-m", "not slow", *session.posargs)


@nox.session(name="dbt-1.11", python="3.11")
def previous_dbt(session: nox.Session) -> None:
    """The adapter's suites on dbt-core 1.11, which an install with constraints.txt alone has."""
    session.install("-c", "constraints.txt", "-e", ".[dev]")
    pytest = ("python", "-m", "pytest")
    session.run(*pytest, "tests/unit/project/test_wheel.py", "-k", "dbt_lists", "-q")
    suites = ("tests/unit/adapter/test_dbt_keys.py", "tests/adapter")
    session.run(*pytest, *suites, "-m", "not slow", *session.posargs)


@nox.session(name="spark-4.1.1", python="3.11")
def older_spark(session: nox.Session) -> None:
    """The suites of Spark on Spark 4.1.1 with Iceberg 1.11, as services have them that are a release behind."""
    session.install("-c", "constraints.txt", "-e", ".[dev]")
    session.install("pyspark[connect]==4.1.1")
    suites = ("python", "-m", "pytest", "tests/spark", "-m", "not slow")
    session.run(*suites, *session.posargs, env={"ARCTIC_TEST_ICEBERG": "1.11.0"})


@nox.session(name="newest-is-no-gate", python="3.11")
def newest(session: nox.Session) -> None:
    """The unit suite on the newest versions of what is pinned, pre-releases too: shows what is ahead, never fails."""
    session.install("-c", "constraints.txt", "-e", ".[dev]")
    session.install("--no-deps", "-r", "requirements-dbt.txt")
    session.install("--upgrade", "--pre", "--no-deps", *NEWEST)
    for command in (("pip", "check"), ("pytest", "tests/unit", "-m", "not slow", *session.posargs)):
        session.run("python", "-m", *command, success_codes=range(256))
    session.warn("This is no gate: what fails above is work ahead, and no fault of this version.")
