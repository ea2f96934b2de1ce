"""The folder for files that commands write about themselves: logs of Spark, and locks and addresses of servers."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

VARIABLE = "DBT_ARCTIC_STATE"


def get_state_directory() -> Path:
    """Returns the path of the state directory, which belongs to the user, as the cache directory need not.

    `DBT_ARCTIC_STATE` chooses it, else XDG_STATE_HOME. A user without a home has one in the folder for temporary files.
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(os.path.abspath(Path(chosen).expanduser()))
    try:
        home = Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"dbt-arctic-{os.getuid()}"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "dbt-arctic"
    return Path(os.environ.get("XDG_STATE_HOME") or home / ".local" / "state") / "dbt-arctic"
