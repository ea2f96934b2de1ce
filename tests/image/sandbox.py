"""Runs commands of this Python under the conditions of the image, by bubblewrap, which needs no image and no root."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from arctic_runtime.spark.engine.java.jars import get_cache_directory

ROOT = Path(__file__).parents[2]
_OWN = ("dev", "home", "proc", "project", "run", "sys", "tmp", "warehouse")
"""Folders at the root that the sandbox has as its own, or not at all."""


def list_options(project: Path, warehouse: Path) -> list[str]:
    """Options of bubblewrap: a read-only root, a user and a machine without a name, no network, the image's mounts."""
    options = ["--unshare-all", "--die-with-parent", "--new-session", "--uid", "10001", "--gid", "10001"]
    options += ["--hostname", "container-without-a-name", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
    for path in sorted(Path("/").iterdir()):
        if path.is_symlink():
            options += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir() and path.name not in _OWN:
            options += ["--ro-bind", str(path), str(path)]
    for folder in ("/tmp", "/home/arctic"):
        options += ["--dir", folder, "--tmpfs", folder]
    options += ["--bind", str(warehouse), "/warehouse", "--ro-bind", str(project), "/project", "--remount-ro", "/"]
    variables = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": "/home/arctic",
        "PYTHONPATH": str(ROOT),
        "DBT_ARCTIC_HOME": str(get_cache_directory()),
        "DBT_PROFILES_DIR": "/project",
        "DBT_TARGET_PATH": "/tmp/target",
        "DBT_LOG_PATH": "/tmp/logs",
        "ARCTIC_TOKEN": "a-token-of-thirty-two-letters-and-more",
    }
    set_variables = [part for name, value in variables.items() for part in ("--setenv", name, value)]
    return [*options, "--clearenv", *set_variables, "--chdir", "/project"]


def run_command(project: Path, warehouse: Path, *command: str) -> tuple[int, str]:
    """Runs a command in a sandbox; returns its exit code and what it printed."""
    done = subprocess.run(
        ["bwrap", *list_options(project, warehouse), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout
