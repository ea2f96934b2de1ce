"""Logs as lines of JSON."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.errors import CatalogError, ConfigError
from arctic_runtime.service.telemetry.logs import EventLogger, JsonFormatter, log_message, write_json_logs
from arctic_runtime.service.view.event_log import EventLog
from arctic_runtime.thresholds import ServiceThresholds
from tests.unit.service.still_service import SALES, StillService, refresh

TOKEN = "a-token-of-the-service"


class Lines(io.StringIO):
    """What was logged."""

    def read_all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Everything that is logged during a test; the loggers are as they were afterwards."""
    root, own = logging.getLogger(), logging.getLogger("arctic")
    before = (root.handlers[:], root.level, own.level)
    stream = Lines()
    write_json_logs(stream, [TOKEN, ""])
    yield stream
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    own.setLevel(before[2])


def read_records(lines: Lines, *events: tuple[str, Any]) -> list[dict[str, Any]]:
    log = EventLog(capacity=100)
    with EventLogger(log, ServiceThresholds()):
        for kind, data in events:
            log.append_event(kind, data)
    return lines.read_all()


def test_a_job_has_lines_for_its_beginning_and_its_end(lines: Lines) -> None:
    running = replace(refresh("7", "running"), ended_at=None, reason="CHANGES")
    done = refresh("7", seconds=2.0, insert=20)
    began, ended = read_records(
        lines, ("job", replace(running, state="waiting")), ("job", running), ("job", running), ("job", done)
    )

    assert (began["event"], began["job"], began["table"], began["reason"]) == (
        "refresh.running",
        "7",
        str(SALES),
        "CHANGES",
    )
    assert (ended["event"], ended["seconds"], ended["rows"], ended["level"]) == (
        "refresh.done",
        2.0,
        {"insert": 20},
        "info",
    )
    assert {"time", "logger", "message"} <= set(ended)
    assert "seconds" not in began


def test_a_refresh_that_changes_nothing_has_an_end_too(lines: Lines) -> None:
    began, ended = read_records(lines, ("job", refresh("7", "running")), ("forgotten_job", {"number": "7"}))
    assert (began["event"], ended["event"]) == ("refresh.running", "refresh.unchanged")
    assert (ended["job"], ended["table"], ended["message"]) == ("7", str(SALES), "refresh sales unchanged")


def test_a_line_has_the_time_at_which_its_job_ended_whenever_it_is_written(lines: Lines) -> None:
    log = EventLog(capacity=100)
    logger = EventLogger(log, ServiceThresholds())
    event = log.append_event("job", refresh("7", seconds=2.0, insert=20))
    until = event.at + timedelta(milliseconds=30)
    while datetime.now(timezone.utc) < until:
        pass
    with logger:
        pass
    (line,) = lines.read_all()
    assert line["time"] == event.at.isoformat(timespec="milliseconds")


def test_a_batch_has_one_line_and_one_that_fails_has_that_of_its_job(lines: Lines) -> None:
    job = replace(refresh("7", "running"), kind="ingest", name="ingest shop", ended_at=None)
    batch = {"source": "shop", "events": 20, "tables": {"orders": {"insert": 20}}, "dead": 0, "seconds": 0.5}
    records = read_records(
        lines,
        ("job", job),
        ("batch", batch),
        ("job", replace(job, state="done")),
        ("job", replace(job, state="failed", error="no answer")),
    )
    assert [line["event"] for line in records] == ["batch", "ingest.failed"]


def test_a_failed_job_is_an_error(lines: Lines) -> None:
    (failed,) = read_records(
        lines, ("job", replace(refresh("7", "failed"), error="division by zero\n  where: dws.sales"))
    )

    assert (failed["level"], failed["error"]) == ("error", "division by zero\n  where: dws.sales")


def test_a_failed_job_has_the_known_parts_of_its_error(lines: Lines) -> None:
    error = ConfigError("No password is set.", where="source shop", fix="set password=hunter2")
    job = replace(refresh("7", "failed"), error=str(error), error_details=error.details)
    (failed,) = read_records(lines, ("job", job))

    assert (failed["where"], failed["fix"]) == ("source shop", "set password=***")
    assert not {"expected", "actual"} & set(failed)


def test_a_logged_error_has_its_known_parts(lines: Lines) -> None:
    try:
        raise CatalogError("No answer.", expected="an answer", actual="postgresql://me:hunter2@host/db")
    except CatalogError:
        logging.getLogger("arctic").exception("the catalog is away")
    (line,) = lines.read_all()

    assert (line["expected"], line["actual"]) == ("an answer", "postgresql://me:***@host/db")
    assert "CatalogError: No answer.\n  expected: an answer" in line["trace"]
    assert not {"where", "fix"} & set(line)


def test_the_service_has_a_line_when_its_role_or_its_errors_change(lines: Lines) -> None:
    leads, fails = StillService().get_state(), StillService(errors={"catalog": "no answer"}).get_state()
    again = replace(leads, looked_at=None)
    records = read_records(lines, ("service", leads), ("service", again), ("service", fails), ("service", fails))

    assert [(line["level"], line["role"], line.get("errors")) for line in records] == [
        ("info", "leads", None),
        ("warning", "leads", {"catalog": "no answer"}),
    ]


def test_a_batch_has_its_source_and_its_rows(lines: Lines) -> None:
    batch = {"source": "shop", "events": 9, "seconds": 0.5, "tables": {"orders": {"insert": 8}}, "dead": 1}
    (record,) = read_records(lines, ("batch", batch))

    assert (record["level"], record["source"], record["rows"], record["dead"]) == (
        "warning",
        "shop",
        {"orders": {"insert": 8}},
        1,
    )


def test_events_that_came_too_fast_have_a_line(lines: Lines) -> None:
    log = EventLog(capacity=1)
    logger = EventLogger(log, ServiceThresholds())
    for number in range(3):
        log.append_event("job", refresh(str(number)))
    with logger:
        pass

    assert [line["event"] for line in lines.read_all()] == ["missed", "refresh.done"]


def test_secrets_are_masked_wherever_they_stand(lines: Lines) -> None:
    log_message(f"Authorization: Bearer {TOKEN}")
    log = EventLog(capacity=10)
    with EventLogger(log, ServiceThresholds()):
        log.append_event(
            "job", replace(refresh("1", "failed"), error="postgresql://me:hunter2@host/db?password=hunter2")
        )
    text = lines.getvalue()

    assert TOKEN not in text
    assert "hunter2" not in text
    assert "postgresql://me:***@host/db" in text


def test_libraries_log_in_the_same_form_and_only_what_matters(lines: Lines) -> None:
    logging.getLogger("uvicorn.error").info("started")
    try:
        raise ValueError("password=hunter2")
    except ValueError:
        logging.getLogger("uvicorn.error").exception("no %s", "answer")
    (line,) = lines.read_all()

    assert (line["level"], line["logger"], line["message"]) == ("error", "uvicorn.error", "no answer")
    assert "ValueError: password=***" in line["trace"]


def test_a_line_stays_one_line_with_any_contents() -> None:
    record = logging.makeLogRecord({"msg": 'two\nlines, "quotes", \u2028 and ünïcödé', "levelname": "INFO"})
    line = JsonFormatter().format(record)

    assert "\n" not in line
    assert json.loads(line)["message"] == 'two\nlines, "quotes", \u2028 and ünïcödé'


def test_values_of_any_type_can_be_logged() -> None:
    record = logging.makeLogRecord(
        {"msg": "x", "arctic_fields": {"table": SALES, "rows": {"a": 1}, "tables": (SALES,), "ok": True}}
    )
    line = json.loads(JsonFormatter().format(record))

    assert line | {"time": ""} == line | {
        "time": "",
        "table": str(SALES),
        "rows": {"a": 1},
        "tables": [str(SALES)],
        "ok": True,
    }


def test_nothing_is_lost_at_the_end(lines: Lines) -> None:
    """The last events before the service ends are logged too."""
    events = [("job", refresh(str(number))) for number in range(50)]
    assert len(read_records(lines, *events)) == 50


def test_no_text_ends_its_line_or_moves_the_cursor() -> None:
    text = "a\u2028{}\x85\x9b2J\ud800\n\x1b[2J"
    line = JsonFormatter().format(logging.LogRecord("arctic", logging.INFO, "x.py", 1, text, None, None))
    assert line.isprintable()
    assert json.loads(line)["message"] == text


SCRIPT = """
import logging, signal, sys, threading, warnings, atexit, traceback, os
early = logging.getLogger("py4j.early")
early.addHandler(logging.StreamHandler())
early.propagate = False
from arctic_runtime.service.telemetry.logs import JsonOutput
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
        "from arctic_runtime.service.telemetry.logs import JsonOutput\n"
        "JsonOutput()\n"
        "real = os.dup(1)\n"
        "os.close(2)\n"
        "print('lost', file=sys.stderr)\n"
        "os.write(real, b'goes on')\n"
        "os._exit(0)\n"
    )
    assert (done.returncode, done.stdout) == (0, "goes on")
