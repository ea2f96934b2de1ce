"""A small project whose rows a fold in Python knows: change events of orders, and what each customer spends."""

from __future__ import annotations

import random
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import yaml

from sample_project.loader.landing import lake
from tests.schedulers.processes import wait_for

ROOT = Path(__file__).parents[2]
SCHEMA = pa.schema(
    [
        ("order_id", pa.int64()),
        ("customer", pa.int64()),
        ("amount", pa.int64()),
        ("op", pa.string()),
        ("lsn", pa.int64()),
    ]
)
FILES = {
    "dbt_project.yml": "name: shop\nversion: '1.0'\nprofile: shop\n",
    "models/sources.yml": "sources:\n  - name: landing\n    tables:\n      - name: orders\n",
    "models/ods_orders.sql": """{{ config(materialized='arctic', primary_key='order_id', input='changes',
    sequence_by='lsn', delete_when="op = 'd'", exclude_columns=['op', 'lsn']) }}
select order_id, customer, amount, op, lsn from {{ changes(source('landing', 'orders')) }}
""",
    "models/dws_spend.sql": """{{ config(materialized='arctic', primary_key='customer') }}
select customer, count(*) as orders, sum(amount) as amount from {{ ref('ods_orders') }} group by customer
""",
    "tests/nobody_is_in_debt.sql": "select customer from {{ ref('dws_spend') }} where amount < 0\n",
}
BROKEN = {
    "primary_key='customer'": ("primary key can't be changed in place", "what to do: restore the old key in the model"),
    "primary_key='order_id', sort_keys='customer'": ("model.shop.ods_orders: invalid configuration", "did you mean"),
}
"""Settings in the place of the first model's key, with parts of the error: when it runs, and when it is read."""

Event = tuple[int, int, int, str, int]


@dataclass
class Project:
    """A project, its warehouse, and all events that were appended to it."""

    folder: Path
    settings: dict[str, str]
    random: random.Random = field(default_factory=lambda: random.Random(0))
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, text in FILES.items():
            self.write(name, text)
        target = {
            "type": "arctic",
            "warehouse": str(self.warehouse),
            "schema": "dev",
            "threads": 2,
            "keep_alive": 0,
            "server_side_parameters": self.settings,
        }
        self.write("profiles.yml", yaml.safe_dump({"shop": {"target": "prod", "outputs": {"prod": target}}}))
        for program, module in (("dbt", "dbt.cli.main"), ("arctic", "dbt.adapters.arctic.command_line")):
            self._write_program(program, module)

    @property
    def warehouse(self) -> Path:
        return self.folder.parent / f"{self.folder.name}-warehouse"

    @property
    def bin(self) -> Path:
        """A folder with the programs of this Python, as the project's own environment has them."""
        return self.folder.parent / f"{self.folder.name}-bin"

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def run(self, *command: str) -> None:
        program, *arguments = command
        done = subprocess.run(
            [self.bin / program, *arguments], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    @contextmanager
    def broken(self, setting: str) -> Iterator[None]:
        """Gives the first model another setting in the place of its key."""
        name = "models/ods_orders.sql"
        self.write(name, FILES[name].replace("primary_key='order_id'", setting))
        try:
            yield
        finally:
            self.write(name, FILES[name])

    @contextmanager
    def serve(self) -> Iterator[int]:
        """Runs `arctic serve` and yields its port."""
        log = self.folder.parent / "serve.log"
        with (
            log.open("wb") as lines,
            subprocess.Popen(
                [self.bin / "arctic", "serve", "--port", "0"], cwd=self.folder, stdout=lines, stderr=lines
            ) as process,
        ):
            try:
                port = wait_for(lambda: _find_port(log.read_text()), 120, log.read_text)
                yield port
            finally:
                process.terminate()

    def land(self, *events: tuple[int, int, int, str]) -> None:
        """Appends events of order, customer, amount and operation, each newer than all before."""
        first = len(self.events)
        numbered = [(*event, first + place) for place, event in enumerate(events)]
        self.events += numbered
        columns = [
            pa.array(column, kind.type) for column, kind in zip(zip(*numbered, strict=True), SCHEMA, strict=True)
        ]
        catalog = lake(self.warehouse)
        catalog.create_namespace_if_not_exists("landing")
        catalog.create_table_if_not_exists("landing.orders", SCHEMA, properties={"format-version": "2"}).append(
            pa.table(columns, schema=SCHEMA)
        )

    def land_some(self, count: int = 40) -> None:
        """Appends events by chance."""
        chance = self.random
        self.land(
            *(
                (chance.randrange(60), chance.randrange(8), chance.randrange(100), chance.choice("uuud"))
                for _ in range(count)
            )
        )

    def fold(self) -> dict[str, set[tuple[int, ...]]]:
        """The rows of both models as they follow from the events."""
        newest = {event[0]: event for event in self.events}
        orders = {event[:3] for event in newest.values() if event[3] != "d"}
        spent: dict[int, list[int]] = defaultdict(list)
        for _, customer, amount in orders:
            spent[customer].append(amount)
        return {
            "ods_orders": orders,
            "dws_spend": {(customer, len(amounts), sum(amounts)) for customer, amounts in spent.items()},
        }

    def read(self) -> dict[str, set[tuple[int, ...]]]:
        """The rows of both models as their tables have them; a row that is there twice fails."""
        return {name: self._read_rows(name, columns) for name, columns in COLUMNS.items()}

    def _read_rows(self, name: str, columns: tuple[str, ...]) -> set[tuple[int, ...]]:
        rows = lake(self.warehouse).load_table(("dev", name)).scan(selected_fields=columns).to_arrow().to_pylist()
        tuples = [tuple(row[column] for column in columns) for row in rows]
        assert len(tuples) == len(set(tuples))
        return set(tuples)

    def _write_program(self, program: str, module: str) -> None:
        self.bin.mkdir(exist_ok=True)
        file = self.bin / program
        file.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {sys.executable} -m {module} "$@"\n')
        file.chmod(0o755)


def _find_port(log: str) -> int | None:
    shown = re.search(r"shows the warehouse at http://[\d.]+:(\d+)", log)
    return int(shown[1]) if shown else None


COLUMNS = {"ods_orders": ("order_id", "customer", "amount"), "dws_spend": ("customer", "orders", "amount")}
