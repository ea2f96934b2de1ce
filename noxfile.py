"""The unit suite on every Python that is supported and installed: `nox`, or `nox -s unit-3.12` for one."""

from __future__ import annotations

import nox

PYTHONS = ("3.10", "3.11", "3.12", "3.13")

nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = False


@nox.session(python=PYTHONS)
def unit(session: nox.Session) -> None:
    """No Java; arguments after `--` go to pytest."""
    session.install("-c", "constraints.txt", "-e", ".[dev]")
    session.run("python", "-m", "pytest", "tests/unit", "-m", "not slow", *session.posargs)


@nox.session(name="dbt-1.12", python="3.11")
def newest_dbt(session: nox.Session) -> None:
    """The adapter's suites on dbt-core 1.12, without its optional parser, which is on no package index as a whole."""
    session.install("-c", "constraints.txt", "-e", ".[dev]")
    session.install("--no-deps", "dbt-core==1.12.6")
    session.install("metricflow>=0.213,<1", "opentelemetry-api>=1.26", "python-dotenv>=1.2")
    pytest = ("python", "-m", "pytest")
    session.run(*pytest, "tests/unit/project/test_wheel.py", "-k", "dbt_lists", "-q")
    suites = ("tests/unit/adapter/test_dbt_keys.py", "tests/adapter")
    session.run(*pytest, *suites, "-m", "not slow", *session.posargs)
