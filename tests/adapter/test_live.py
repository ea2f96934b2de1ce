"""The live sample as a user runs it, to its end and interrupted: its tables are exact, and nothing of it is left."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sample_project.servers import Missing, newest_postgresql

ROOT = Path(__file__).parents[2]
TABLES = ("flights", "planes", "airports", "weather")
MODELS = ("dwd_flights", "dws_airport_hour_weather", "dws_delay_by_carrier_day", "dws_plane_use_by_route_month")
PLAYING = re.compile(r"^ +\d+ s  playing +[\d,]+ +[1-9][\d,]* +[\d,]+ +[\d,]+\.\d s\b")
"""A line that says how old DWS is, when the first changes were ingested."""
DONE = re.compile(r"^ +\d+ s  done +1,000 +1,000 +[\d,]+ +[\d,]+\.\d s\b", re.MULTILINE)
"""The last line: all changes were ingested, and DWS shows them."""
SECONDS_TO_END = 180

pytestmark = pytest.mark.slow


class Live:
    """Runs the sample with temporary folders and a warehouse of its own."""

    def __init__(self) -> None:
        # Not below pytest's folders, which the user that runs PostgreSQL can't enter.
        self.folder = Path(tempfile.mkdtemp(prefix="live-"))
        self.folder.chmod(0o777)
        self._places = {"TMPDIR": str(self.folder), "NYC_FLIGHTS_WAREHOUSE": str(self.folder / "warehouse")}

    def start(self, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "sample_project.live", "--days", "2", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self._places, "PYTHONPATH": str(ROOT)},
        )

    def left(self) -> list[str]:
        """Temporary folders, and processes that know them by their environment, once those have had time to end."""
        until = time.monotonic() + SECONDS_TO_END
        while (running := list(self._running())) and time.monotonic() < until:
            time.sleep(0.2)
        return [*running, *(path.name for path in self.folder.iterdir() if path.name != "warehouse")]

    def _running(self) -> Iterator[str]:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if f"TMPDIR={self.folder}\0".encode() in (process / "environ").read_bytes():
                    yield (process / "cmdline").read_text()
            except OSError:  # It has ended meanwhile, or is somebody else's.
                continue


@pytest.fixture
def live() -> Iterator[Live]:
    running = Live()
    yield running
    shutil.rmtree(running.folder, ignore_errors=True)


@pytest.fixture
def postgresql() -> None:
    """Skips a test where PostgreSQL is not installed; where CI is set, that is a failure."""
    try:
        newest_postgresql()
    except Missing as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.mark.usefixtures("postgresql")
def test_a_database_is_followed_until_every_table_is_exact(live: Live) -> None:
    assert "rows in PostgreSQL" in ended(live)


def test_files_are_followed_until_every_table_is_exact(live: Live) -> None:
    assert "rows in JSON lines" in ended(live, "--files")


def ended(live: Live, *options: str) -> str:
    """What a run to the end prints; nothing else is left of it."""
    process = live.start("--seconds", "5", *options)
    output, errors = process.communicate(timeout=280)
    assert (process.returncode, errors) == (0, ""), output
    assert DONE.search(output), output
    assert "\n1,000 changes, " in output
    compared, verified = output.split("row by row")[1].split("arctic verify")
    assert re.findall(r"(\w+) +[\d,]+ rows +exact", compared) == list(TABLES)
    assert sorted(re.findall(r"^ok +[\w.]+\.(\w+): ", verified, re.MULTILINE)) == sorted([*TABLES, *MODELS])
    assert live.left() == []
    return output


def test_an_interrupted_run_leaves_nothing(live: Live) -> None:
    process = live.start("--seconds", "600")
    assert process.stdout is not None
    assert any(map(PLAYING.search, process.stdout))
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=SECONDS_TO_END)
    assert process.returncode == 130, output
    assert "Ended before its time" in errors
    assert "Traceback" not in errors
    assert live.left() == []
