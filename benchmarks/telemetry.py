"""What traces, metrics, lineage and a metrics file of a command cost, beside the same command without them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from arctic_runtime.spark.engine.statement import fill_statement, quote_number
from benchmarks.measure import Measurement, seconds
from benchmarks.overhead import SOURCE, change_tables, write_project
from benchmarks.process import Process

_RECEIVER = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
    print(server.server_port, flush=True)
    server.serve_forever()
"""


def measure(_rows: int, rounds: int = 8) -> list[Measurement]:
    """The cost of all of them in percent of a `dbt run` of 20 models with 1,000 changed of 100,000 rows.

    Runs with and without them take turns in one process, and each goes first in half of the rounds. The receiver of
    traces, metrics and lineage is another process.
    """
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as name, _receive() as url:
        folder = Path(name)
        on = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OPENLINEAGE_URL": url,
            "ARCTIC_METRICS_FILE": str(folder / "arctic.prom"),
        }
        write_project(folder)
        change_tables(folder, "create table lake.landing.source using iceberg as " + SOURCE)
        _run_command(folder, {})
        _run_command(folder, on)
        times: dict[bool, list[float]] = {False: [], True: []}
        processor: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(2 * (rounds + 1)):
            sql = "update lake.landing.source set amount = amount + 1 where id % 100 = {turn}"
            change_tables(folder, fill_statement(sql, turn=quote_number(turn)))
            is_on = turn % 4 in (1, 2)
            before = _measure_processor()
            taken = seconds(lambda is_on=is_on: _run_command(folder, on if is_on else {}))
            used = _measure_processor() - before
            print(f"  {'with' if is_on else 'without'}: {taken:.2f} s, {used:.2f} s of the processor", flush=True)
            if turn > 1:
                times[is_on].append(taken)
                processor[is_on].append(used)
    return [
        _compare_costs("cost of traces, metrics and lineage", times),
        _compare_costs("cost of traces, metrics and lineage, processor", processor),
    ]


def _measure_processor() -> float:
    """The processor seconds so far of this process and its Java, which every command here uses."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime + Process.java().processor_seconds


def _compare_costs(metric: str, seconds: Mapping[bool, Sequence[float]]) -> Measurement:
    """Compares sums: every other run takes longer, with telemetry as often as without."""
    percent = 100 * (sum(seconds[True]) / sum(seconds[False]) - 1)
    detail = {"with": seconds[True], "without": seconds[False]}
    return Measurement(metric, percent, "%", 2.0, False, detail)


@contextmanager
def _receive() -> Iterator[str]:
    """The address of a receiver that answers at once, in a process of its own."""
    with subprocess.Popen([sys.executable, "-c", _RECEIVER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def _run_command(folder: Path, variables: dict[str, str]) -> None:
    from dbt.cli.main import dbtRunner

    # The client of OpenLineage adds variables of its own, by which the next command would be observed too.
    for name in [name for name in os.environ if name.startswith(("OTEL_", "OPENLINEAGE_", "ARCTIC_METRICS_"))]:
        del os.environ[name]
    os.environ |= variables
    where = ["--project-dir", str(folder), "--profiles-dir", str(folder), "--log-path", str(folder / "logs")]
    outcome = dbtRunner().invoke(["--quiet", "--log-level", "none", "run", *where])
    if not outcome.success:
        raise RuntimeError(f"dbt run failed: {outcome.exception or outcome.result}")
