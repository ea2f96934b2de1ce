"""`arctic serve` in a process of its own, as tests use it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Served:
    """A service in a process of its own."""

    def __init__(
        self,
        project: Path,
        profiles: Path,
        log: Path | None = None,
        program: Sequence[str] = ("-m", "dbt.adapters.arctic.command_line"),
        log_format: str = "text",
        where: Sequence[str] = (),
        token: str = "",
        **environment: str,
    ) -> None:
        self.where = list(where) or ["--project-dir", str(project), "--profiles-dir", str(profiles)]
        command = [sys.executable, *program, "serve", "--port", "0", *self.where]
        command += ["--log-format", log_format]
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._log = (log or project / "serve.log").open("w+")
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        self._process = subprocess.Popen(command, stderr=self._log, stdout=self._log, env=self.environment)

    def said(self) -> str:
        return Path(self._log.name).read_text()

    def read_lines(self) -> list[dict[str, Any]]:
        """Everything that it has written, as lines of JSON."""
        return [json.loads(line) for line in self.said().splitlines()]

    def kill_java(self) -> None:
        """Kills the Java that Spark runs in, as a machine without memory does."""
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
        (java,) = (child for child in children if Path(f"/proc/{child}/comm").read_text().strip() == "java")
        os.kill(java, signal.SIGKILL)

    def code(self) -> int:
        """What it ends with, which it must do within a minute."""
        return self._process.wait(60)

    def is_ready(self) -> bool:
        """Whether it says that it is ready."""
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/ready", timeout=10) as answer:
            return bool(answer.status == 200)
        return False

    def get(self, what: str) -> Any:
        if not self.url:
            return {"tables": []}
        request = urllib.request.Request(f"{self.url}/api/{what}", headers=self._headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    @property
    def url(self) -> str:
        """Where HTTP is served; empty before it is."""
        shown = re.search(r"shows the warehouse at ([^\s\"]+)", self.said())
        return shown[1] if shown is not None else ""

    def states(self) -> dict[str, str]:
        """The state of each table, by its name without schema."""
        return {table["table"].split(".")[-1]: table["state"] for table in self.get("tables")["tables"]}

    def rows(self, name: str) -> int | None:
        return next(
            (table["rows"] for table in self.get("tables")["tables"] if table["table"].endswith(f".{name}")), None
        )

    def jobs(self) -> Any:
        return self.get("jobs")["jobs"]

    def errors(self) -> Any:
        return self.get("service")["service"]["errors"]

    def until(self, holds: Callable[[], object], seconds: float = 240) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert self._process.poll() is None, self.said()
            assert time.monotonic() < end, self.said()
            time.sleep(0.5)

    def verify(self) -> tuple[int, str]:
        """What `arctic verify` ends with and says, in a process of its own."""
        command = [sys.executable, "-m", "dbt.adapters.arctic.command_line", "verify", *self.where]
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        return result.returncode, result.stdout + result.stderr

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(60) == 0, self.said()

    def kill(self) -> None:
        """Ends it and its Java, as a machine that stops."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(60)
