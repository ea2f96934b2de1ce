"""Reads a folder of SQL files as a manifest: each file is a model, with its keys in a comment before the query."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.manifest.compiled_code import CHANGES_MARKER
from arctic_runtime.manifest.manifest_file import Manifest, Node
from arctic_runtime.manifest.node_model import select_known_keys
from arctic_runtime.manifest.sql_names import NamedTable, list_named_tables, replace_names
from arctic_runtime.plan.config.configuration import KEYS
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.plan.config.foreign_treatments import ARCTIC
from arctic_runtime.sql.types import quote_field

_EXAMPLE = "-- arctic: {primary_key: order_id}"
_FIRST = re.compile(rf"--(?P<indent>\s*){ARCTIC}\s*:")
_COMMENT = re.compile(r"--(?P<indent>\s*)")


@dataclass(frozen=True)
class SqlFile:
    """A model as its file has it; the folder of the file is its schema, and the name of the file that of the table."""

    path: Path
    schema: str
    name: str
    text: str
    keys: Mapping[str, Any]
    line: int
    """Line of the keys, from 1."""

    sql: str
    skipped_lines: int
    """Number of lines before the query."""

    @property
    def unique_id(self) -> str:
        return f"model.{self.schema}.{self.name}"

    def locate_line(self, line: int) -> str:
        """Returns the place of a line of the query, as errors name it."""
        return f"{self.path}:{self.skipped_lines + line}"


def read_sql_folder(folder: Path) -> Manifest:
    """Reads the files `SCHEMA/NAME.sql` below a folder as the models of a manifest.

    Tables that are named in a query, and that are none of these models, are sources. Raises ConfigError, with the file
    and the line, for a file that can't be used.
    """
    files = [_read_file(folder, path) for path in list_sql_files(folder)]
    if not files:
        raise ConfigError(
            "There is no model.", where=str(folder), expected="files SCHEMA/NAME.sql", fix="correct --sql"
        )
    by_name, project = _index_files(files), folder.absolute().parent.name
    nodes, reads = dict[str, Node](), dict[str, Mapping[str, int]]()
    for file in files:
        named = [(table, by_name.get(_get_key(table))) for table in list_named_tables(file.sql, file.locate_line)]
        nodes |= {_name_parent(table, None): _build_source(table, project) for table, model in named if model is None}
        nodes[file.unique_id] = _build_model(file, project, named)
        reads[file.unique_id] = {_name_parent(table, model): table.line for table, model in reversed(named)}
    _check_cycles({file.unique_id: file for file in files}, reads)
    return Manifest(folder, project, nodes)


def list_sql_files(folder: Path) -> list[Path]:
    """Lists the files with queries below a folder, without hidden ones, sorted."""
    files = (path for path in folder.rglob("*.sql") if path.is_file())
    return sorted(path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def _read_file(folder: Path, path: Path) -> SqlFile:
    parts = path.relative_to(folder).with_suffix("").parts
    if len(parts) != 2:
        raise ConfigError(
            "The file is in no folder of a schema.",
            where=str(path),
            expected=f"{folder}/SCHEMA/NAME.sql",
            fix="move it into the folder with the name of its schema",
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("The file can't be read as UTF-8.", where=str(path), actual=str(error)) from error
    lines = text.split("\n")
    first, after = _find_keys(path, lines)
    keys = _read_keys(path, lines[first:after], first)
    return SqlFile(path, *parts, text, keys, first + 1, "\n".join(lines[after:]), after)


def _find_keys(path: Path, lines: Sequence[str]) -> tuple[int, int]:
    """Returns the indexes of the first line of the keys, and of the first line behind them.

    The keys are the comment that begins with `arctic:`, and the comments directly below it that are indented deeper.
    """
    for first, line in enumerate(lines):
        begin = _FIRST.match(line)
        if begin is not None:
            after = first + 1
            while after < len(lines) and _is_deeper(lines[after], begin["indent"]):
                after += 1
            return first, after
        if line.strip() and not line.startswith("--"):
            break
    raise ConfigError(
        "The file has no keys before its query.", where=f"{path}:1", expected=_EXAMPLE, fix="write a comment with them"
    )


def _is_deeper(line: str, indent: str) -> bool:
    comment = _COMMENT.match(line)
    return comment is not None and len(comment["indent"]) > len(indent)


def _read_keys(path: Path, lines: Sequence[str], skipped: int) -> dict[str, Any]:
    """Reads the keys of a model from comments, `skipped` lines of the file are before them."""
    loader = yaml.SafeLoader("\n".join(line[2:] for line in lines))
    try:
        root: Any = loader.get_single_node()
        written = loader.construct_document(root)[ARCTIC]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = skipped + 1 + (0 if mark is None else mark.line)
        raise ConfigError(
            "The keys are no YAML.", where=f"{path}:{line}", expected=_EXAMPLE, actual=str(error).splitlines()[0]
        ) from error
    if not isinstance(written, dict):
        raise ConfigError(
            "The keys are no mapping.", where=f"{path}:{skipped + 1}", expected=_EXAMPLE, actual=repr(written)
        )
    for key, _ in root.value[0][1].value:
        if key.value not in KEYS:
            raise ConfigError(
                f"`{key.value}` is no key of a model{suggest_nearest(key.value, KEYS)}.",
                where=f"{path}:{skipped + 1 + key.start_mark.line}",
            )
    return written


def _index_files(files: Sequence[SqlFile]) -> dict[tuple[str, str], SqlFile]:
    """Maps schema and name, in lower case, to the files; raises ConfigError for two files of one table."""
    by_name: dict[tuple[str, str], SqlFile] = {}
    for file in files:
        other = by_name.setdefault((file.schema.lower(), file.name.lower()), file)
        if other is not file:
            raise ConfigError(
                f"Two files are the table {file.schema}.{file.name}.",
                where=f"{other.path}, {file.path}",
                expected="names that differ in more than upper and lower case",
                fix="rename one of them",
            )
    return by_name


def _get_key(table: NamedTable) -> tuple[str, str]:
    return table.schema.lower(), table.name.lower()


def _name_parent(table: NamedTable, model: SqlFile | None) -> str:
    return f"source.{table.schema}.{table.name}" if model is None else model.unique_id


def _build_source(table: NamedTable, project: str) -> Node:
    return {
        "unique_id": _name_parent(table, None),
        "resource_type": "source",
        "schema": table.schema,
        "name": table.name,
        "identifier": table.name,
        "source_name": table.schema,
        "fqn": [project, table.schema, table.name],
        "relation_name": _quote_name(table.schema, table.name),
    }


def _build_model(file: SqlFile, project: str, named: Sequence[tuple[NamedTable, SqlFile | None]]) -> Node:
    """Builds the node of a file, with its query as an adapter for Spark compiles it; checks its keys."""
    node = {
        "unique_id": file.unique_id,
        "resource_type": "model",
        "schema": file.schema,
        "name": file.name,
        "fqn": [project, file.schema, file.name],
        "original_file_path": str(file.path),
        "relation_name": _quote_name(file.schema, file.name),
        "config": {"materialized": ARCTIC, "meta": {ARCTIC: file.keys}},
        "depends_on": {"nodes": list(dict.fromkeys(_name_parent(table, model) for table, model in named))},
        "raw_code": file.text,
        "compiled_code": replace_names(file.sql, ((table, _write_name(table, model)) for table, model in named)),
    }
    try:
        read_configuration(select_known_keys(node), file.unique_id)
    except ConfigError as error:
        raise ConfigError(error.message, where=f"{file.path}:{file.line}", fix=error.fix) from error
    return node


def _write_name(table: NamedTable, model: SqlFile | None) -> str:
    name = _quote_name(table.schema, table.name) if model is None else _quote_name(model.schema, model.name)
    return f"{CHANGES_MARKER} {name}" if table.reads_changes else name


def _quote_name(schema: str, name: str) -> str:
    return f"{quote_field(schema)}.{quote_field(name)}"


def _check_cycles(files: Mapping[str, SqlFile], reads: Mapping[str, Mapping[str, int]]) -> None:
    """Raises ConfigError for models in a circle; `reads` has the lines in which each model names what it reads."""
    try:
        TopologicalSorter(reads).prepare()
    except CycleError as error:
        circle: Sequence[str] = error.args[1]
        places = [files[model].locate_line(reads[model][read]) for read, model in pairwise(circle)]
        raise ConfigError(
            "Models read each other in a circle.",
            where=", ".join(places),
            expected="an order in which each model is after those that it reads",
            fix="take one of these names out of its query",
        ) from error
