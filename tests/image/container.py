"""Runs the image as `deploy/docker/compose.yml` does, with podman, for tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.image.image import NAME, ROOT, list_storage_variables

COMPOSE = ROOT / "deploy" / "docker" / "compose.yml"
MEMORY = Path("/sys/fs/cgroup/memory")
_LIMITS = ["--ulimit", "nofile=1024:4096", "--ulimit", "nproc=4096:4096"]
_ENTER = """
echo $$ > "$1/cgroup.procs"; shift
umount -R -l /sys/fs/cgroup && mount -t tmpfs none /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/unified /sys/fs/cgroup/memory
exec "$@"
"""
"""Sets the limit of memory, then hides the control groups: crun refuses a system that has both of their versions."""


@dataclass(frozen=True)
class Conditions:
    """What a container may do: by default what the compose file says of the service."""

    project: Path
    warehouse: Path
    user: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int = 2 << 30

    def list_options(self) -> list[str]:
        service: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]["arctic"]
        options = ["--network", "host", "--cgroups", "disabled", *_LIMITS, "--add-host", "postgres:127.0.0.1"]
        options += ["--read-only"] if service["read_only"] else []
        options += [part for mount in service["tmpfs"] for part in ("--tmpfs", _drop_owner(mount))]
        options += [part for name in service["cap_drop"] for part in ("--cap-drop", name)]
        options += [part for name in service["security_opt"] for part in ("--security-opt", name.replace(":true", ""))]
        options += ["--volume", f"{self.project}:/project:ro", "--volume", f"{self.warehouse}:/warehouse"]
        options += ["--user", self.user] if self.user else []
        return options + [part for name, value in self.environment.items() for part in ("--env", f"{name}={value}")]


def _drop_owner(mount: str) -> str:
    """Writes a mount as podman takes it, which has no owner: anybody may write, as in a volume of the user's group."""
    return f"{mount.partition(':')[0]}:mode=1777"


class Container:
    """A container of the image with one command, and what it prints."""

    def __init__(self, conditions: Conditions, *arguments: str, entrypoint: str | None = None, log: Path) -> None:
        self.log = log
        self._group = MEMORY / _find_group() / f"arctic-{os.getpid()}-{time.monotonic_ns()}"
        self._group.mkdir()
        (self._group / "memory.limit_in_bytes").write_text(str(conditions.memory_bytes))
        options = [*conditions.list_options(), *(("--entrypoint", entrypoint) if entrypoint else ())]
        command = ["podman", "run", "--rm", *options, NAME, *arguments]
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", _ENTER, "sh", str(self._group), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=list_storage_variables(),
            )

    def end(self, how: signal.Signals = signal.SIGTERM, timeout: float = 120) -> int:
        """Sends a signal as `docker stop` does, and returns the exit code."""
        self.process.send_signal(how)
        return self.wait(timeout)

    def kill(self) -> None:
        """Kills all processes of the container at once, as a machine that loses its power."""
        for number in (self._group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(number), signal.SIGKILL)
        self.process.wait(30)

    def wait(self, timeout: float = 300) -> int:
        """Waits until the command has ended, and returns its exit code."""
        return self.process.wait(timeout)

    def read_log(self) -> str:
        return self.log.read_text(errors="replace")

    def read_peak_bytes(self) -> int:
        """Returns the most memory that all processes of the container had at once."""
        return int((self._group / "memory.max_usage_in_bytes").read_text())

    def wait_until_ready(self, port: int = 8470, timeout: float = 120) -> float:
        """Waits until the service says that it is ready; returns the seconds since this call."""
        begin = time.monotonic()
        while time.monotonic() - begin < timeout:
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}:\n{self.read_log()}")
            if ask(f"http://127.0.0.1:{port}/ready")[0] == 200:
                return time.monotonic() - begin
            time.sleep(0.1)
        raise AssertionError(
            f"not ready within {timeout:.0f} s: {ask(f'http://127.0.0.1:{port}/ready')}\n{self.read_log()}"
        )


def _find_group() -> str:
    """Returns the control group of memory of this process, below the root of its kind."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    return next(line.split(":", 2)[2].lstrip("/") for line in lines if ":memory:" in line)


def ask(address: str, token: str | None = None) -> tuple[int, str]:
    """Returns the status and the text of an answer over HTTP; 0 if nobody listens."""
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def run_once(conditions: Conditions, command: Sequence[str], log: Path, timeout: float = 300) -> tuple[int, str]:
    """Runs one command in place of `arctic` in a container; returns its exit code and what it printed."""
    container = Container(conditions, *command[1:], entrypoint=command[0], log=log)
    code = container.wait(timeout)
    return code, container.read_log()
