"""Whether the memory of `arctic serve` stays where it is while a small shop goes on for an hour."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure import Measurement
from benchmarks.memory import MOST_GROWTH
from benchmarks.process import Process
from benchmarks.served import ModelText, write_project

FIRST_LOOK_MINUTES = 10.0
CUSTOMERS, ORDERS, CHANGED, PAUSE_SECONDS = 1_000, 20_000, 20, 2.0
"""Rows that are there at the beginning, and how many orders are written how often."""

MODELS: Mapping[str, ModelText] = {
    "dwd_orders": (
        {"primary_key": "id"},
        "select o.id, o.customer, o.amount, o.state, c.city from {{ source('shop', 'orders') }} o "
        "join {{ source('shop', 'customers') }} c on o.customer = c.customer",
    ),
    "dwd_paid": (
        {"primary_key": "id"},
        "select id, customer, amount from {{ ref('dwd_orders') }} where state = 'paid'",
    ),
    "dws_cities": (
        {"primary_key": "city"},
        "select city, count(*) as n, sum(amount) as amount from {{ ref('dwd_orders') }} group by city",
    ),
    "dws_customers": (
        {"primary_key": "customer"},
        "select customer, max(amount) as most from {{ ref('dwd_paid') }} group by customer",
    ),
}


def measure(minutes: float, progress: Path | None = None) -> list[Measurement]:
    """The memory of the service's Python and of its Java at the end, each divided by that after ten minutes.

    What is there each minute is written to `progress` as JSON, in MB.
    """
    from sample_project.servers import PostgreSQLServer

    server = PostgreSQLServer()
    try:
        _fill(server)
        with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as folder:
            write_project(Path(folder), json.dumps(_sources(server.port)), MODELS, settings={})
            with _served(Path(folder)) as python, _writing(server):
                looks = _watch(python, minutes, progress)
    finally:
        server.remove()
    return [_growth(name, looks) for name in ("python", "java")]


def _fill(server: Any) -> None:
    server.sql(
        "create table customers (customer int primary key, city text)",
        "create table orders (id int primary key, customer int, amount numeric(12, 2), state text)",
        f"insert into customers select n, 'city ' || n % 50 from generate_series(1, {CUSTOMERS}) n",
        f"insert into orders select n, 1 + n % {CUSTOMERS}, n % 1000, 'new' from generate_series(1, {ORDERS}) n",
    )


def _sources(port: int) -> dict[str, Any]:
    connection = {"connector": "postgresql", "host": "127.0.0.1", "port": port, "database": "shop", "user": "postgres"}
    tables = [{"name": "orders"}, {"name": "customers"}]
    meta = {"meta": {"arctic": {"ingest": connection}}}
    return {"sources": [{"name": "shop", "schema": "ods", "config": meta, "tables": tables}]}


@contextmanager
def _served(folder: Path) -> Iterator[int]:
    """The process id of an `arctic serve` of the project."""
    command = [sys.executable, "-m", "dbt.adapters.arctic.command_line", "serve", "--port", "0"]
    places = ["--project-dir", str(folder), "--profiles-dir", str(folder)]
    process = subprocess.Popen([*command, *places], stdout=subprocess.DEVNULL)
    try:
        yield process.pid
        if process.poll() is not None:
            raise RuntimeError(f"`arctic serve` ended with code {process.returncode}")
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _writing(server: Any) -> Iterator[None]:
    """Orders come in, are paid, and are removed; a customer moves to another city now and then."""
    ended = threading.Event()

    def write() -> None:
        turn = 0
        while not ended.wait(PAUSE_SECONDS):
            turn += 1
            server.sql(*_changes(turn))

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    try:
        yield
    finally:
        ended.set()
        writing.join()


def _changes(turn: int) -> list[str]:
    first = ORDERS + CHANGED * turn
    between = f"between {first} and {first + CHANGED - 1}"
    return [
        f"insert into orders select n, 1 + n % {CUSTOMERS}, n % 1000, 'new' "
        f"from generate_series({first}, {first + CHANGED - 1}) n",
        f"update orders set state = 'paid' where id {between}",
        f"delete from orders where id between {first - ORDERS} and {first - ORDERS + CHANGED - 2}",
        f"update customers set city = 'city {turn % 50}' where customer = {1 + turn % CUSTOMERS}",
    ]


def _watch(python: int, minutes: float, progress: Path | None) -> dict[str, dict[float, int]]:
    """Bytes of `python` and of `java` after so many minutes, once each minute and at the end."""
    looks: dict[str, dict[float, int]] = {"python": {}, "java": {}}
    processes: Mapping[str, Callable[[], int]] = {
        "python": lambda: Process(Path(f"/proc/{python}")).resident_bytes,
        "java": lambda: Process.java(python).resident_bytes,
    }
    began = time.monotonic()
    for minute in [*range(1, int(minutes) + 1), minutes]:
        time.sleep(max(0.0, began + 60 * minute - time.monotonic()))
        for name, look in processes.items():
            looks[name][float(minute)] = look()
        if progress is not None:
            progress.write_text(json.dumps({name: _megabytes(each) for name, each in looks.items()}, indent=1) + "\n")
    return looks


def _megabytes(looks: Mapping[float, int]) -> dict[str, int]:
    return {f"{minute:g} min": round(size / 2**20) for minute, size in looks.items()}


def _growth(name: str, looks: Mapping[str, Mapping[float, int]]) -> Measurement:
    each = looks[name]
    last, first = max(each), min((minute for minute in each if minute >= FIRST_LOOK_MINUTES), default=max(each))
    label = f"service_memory: {name}: after {last:g} minutes / after {first:g}"
    return Measurement(label, each[last] / each[first], "x", MOST_GROWTH, False, {"megabytes": _megabytes(each)})
