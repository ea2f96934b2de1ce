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
