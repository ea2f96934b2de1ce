"""All that a process prints, as lines of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = """
import logging, signal, sys, threading, warnings, atexit, traceback, os
early = logging.getLogger("py4j.early")
early.addHandler(logging.StreamHandler())
early.propagate = False
from arctic_runtime.service.telemetry.json_output import JsonOutput
from arctic_runtime.service.telemetry import logs
from dbt.adapters.arctic.commands.termination import stop_on_signals
output = JsonOutput()
output.mask_secrets(["hunter2"])
output.mask_secrets(["edited-later"])
print("printed", "hunter2")
print("printed then", "edited-later")
print("two\\nlines", file=sys.stderr)
sys.stderr.write("half "); sys.stderr.write("of a line"); sys.stderr.flush()
warnings.warn("old", FutureWarning)
early.warning("early %s", 1)
late = logging.getLogger("late")
late.addHandler(logging.StreamHandler())
late.propagate = False
late.error("late")
logging.getLogger("broken").error("%d", "x")
try:
    1 / 0
except ZeroDivisionError:
    traceback.print_exc()
thread = threading.Thread(target=lambda: {}["gone"], name="worker")
thread.start(); thread.join()
class Dying:
    def __del__(self):
        raise RuntimeError("dying")
Dying()
with stop_on_signals("serve", lambda: None, "ends", logs.log_message):
    os.kill(os.getpid(), signal.SIGTERM)
atexit.register(print, "at exit", file=sys.stderr)
raise ValueError("password=hunter2")
"""


def run_script(text: str) -> tuple[list[dict[str, Any]], subprocess.CompletedProcess[str]]:
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    return [json.loads(line) for line in done.stderr.splitlines()], done


def test_everything_that_is_printed_is_a_line_of_json_on_the_standard_error() -> None:
    lines, done = run_script(SCRIPT)
    assert (done.stdout, done.returncode) == ("", 1)
    shown = [(line["logger"], line["level"], line["message"]) for line in lines]
    for expected in (
        ("stdout", "info", "printed ***"),
        ("stdout", "info", "printed then ***"),
        ("stderr", "error", "two\nlines"),
        ("stderr", "error", "half of a line"),
        ("py4j.early", "warning", "early 1"),
        ("stderr", "error", "late"),
        ("uncaught", "error", "worker ended"),
        ("arctic", "info", "SIGTERM: ends"),
        ("uncaught", "critical", "ValueError: password=***"),
        ("stderr", "error", "at exit"),
    ):
        assert shown.count(expected) == 1, expected
    assert [line for line in lines if line["logger"] == "py.warnings" and "FutureWarning: old" in line["message"]]
    assert [line for line in lines if "RuntimeError: dying" in line.get("trace", "")]
    (traceback,) = [line["message"] for line in lines if "ZeroDivisionError" in line["message"]]
    assert traceback.startswith("Traceback (most recent call last):\n  File ")
    assert [line for line in lines if "--- Logging error ---" in line["message"]]
    assert "hunter2" not in done.stderr


def test_a_standard_error_that_is_closed_ends_nothing() -> None:
    _, done = run_script(
        "import os, sys\n"
        "from arctic_runtime.service.telemetry.json_output import JsonOutput\n"
        "JsonOutput()\n"
        "real = os.dup(1)\n"
        "os.close(2)\n"
        "print('lost', file=sys.stderr)\n"
        "os.write(real, b'goes on')\n"
        "os._exit(0)\n"
    )
    assert (done.returncode, done.stdout) == (0, "goes on")
