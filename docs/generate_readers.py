"""Writes the tables of what readers read, from the answers that the tests in `tests/open` recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

TRINO_READS = Path(__file__).parents[1] / "tests" / "data" / "trino_reads.json"
FLINK_READS = TRINO_READS.with_name("flink_reads.json")
PYTHON_READS = TRINO_READS.with_name("python_reads.json")
SAME = "all rows, as Spark"
SAME_BUT_EMPTY = "all rows, as Spark, but with empty lists, maps and structs for null"

RELATIONS: Mapping[tuple[str, bool], str] = {
    ("base", False): "base",
    ("base", True): "unpartitioned base of up to 100,000 rows",
    ("change table", False): "change table",
    ("view", False): "view of `merge: on_read`",
}
"""Names of relations, by their kind and by whether their base is small and without partitions."""

VERSIONS = (3, 2)
STATES = {
    "runs": "after runs",
    "changelog compaction": "after [changelog compaction](maintenance.md#expiry)",
    "full compaction": "after `arctic compact m --mode full`",
}
"""What was done to a model last, as it is recorded and as the page says it."""


Read = Mapping[str, Any]
"""A recorded answer, with the relation that was read."""

COLUMNS: Sequence[Mapping[str, Any]] = (
    {"relation": "base", "format_version": 3},
    {"relation": "base", "format_version": 2},
    {"relation": "change table"},
)
"""The kinds of tables, as columns of the table of readers."""


def has_vectors(read: Read) -> bool:
    """Whether a table had deletion vectors when it was read."""
    is_written = read["after"] == "runs" and read["relation"] == "base" and read["model"] != "small"
    return read["after"] == "changelog compaction" or (is_written and read["format_version"] == 3)


def describe_readers() -> str:
    """Describes which kinds of tables each tested reader reads, as rows of a table of Markdown."""
    lines = ["| reader | base, version 3 | base, `format_version: 2` | change table |", "|---|---|---|---|"]
    for file in (PYTHON_READS, TRINO_READS, FLINK_READS):
        for reader, reads in _load_reads(file).items():
            cells = [
                _summarise([read for read in reads if column.items() <= read.items()], reader) for column in COLUMNS
            ]
            lines.append(f"| {reader} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _summarise(reads: Sequence[Read], reader: str) -> str:
    """Summarises answers as a cell, with a link to the reader's section if it does not read everything."""
    answers = {read["answer"] for read in reads}
    if answers == {SAME}:
        return "yes"
    section = re.split(r"\W", reader)[0].lower()
    if answers == {SAME_BUT_EMPTY}:
        return f"[but for some nulls](#{section})"
    is_vector_the_reason = all(has_vectors(read) == (read["answer"] not in {SAME, SAME_BUT_EMPTY}) for read in reads)
    return f"[without deleted rows](#{section})" if is_vector_the_reason else f"[partly](#{section})"


def describe_reads(file: Path, name: str) -> Callable[[], str]:
    """Returns a function that describes the answers of the reader in a file whose name begins so."""
    return lambda: next(
        _describe_reads(reader, reads) for reader, reads in _load_reads(file).items() if reader.startswith(name)
    )


def _load_reads(file: Path) -> Mapping[str, Sequence[Read]]:
    recorded: Mapping[str, Sequence[Read]] = json.loads(file.read_text(encoding="utf-8"))
    return recorded


def _describe_reads(reader: str, reads: Sequence[Read]) -> str:
    """Describes which relations a reader reads and which it refuses, as a table of Markdown."""
    lines = [
        f"| {reader} reads | | {' | '.join(f'`format_version: {version}`' for version in VERSIONS)} |",
        "|---|---|---|---|",
    ]
    for (relation, is_small), name in RELATIONS.items():
        chosen = [read for read in reads if (read["relation"], read["model"] == "small") == (relation, is_small)]
        lines += [f"| {name} | {states} | {' | '.join(cells)} |" for cells, states in _group_states(chosen).items()]
    return "\n".join(lines)


def _group_states(reads: Sequence[Read]) -> dict[tuple[str, ...], str]:
    """Groups the states of a relation by its answers; `always` if these never differ."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for after, state in STATES.items():
        if cells := _write_cells(reads, after):
            groups.setdefault(cells, []).append(state)
    return {cells: ", ".join(states) if len(groups) > 1 else "always" for cells, states in groups.items()}


def _write_cells(reads: Sequence[Read], after: str) -> tuple[str, ...]:
    """Writes the answers of one state of a relation, a cell for each format version; nothing if it was not read."""
    answers = {
        version: {read["answer"] for read in reads if (read["format_version"], read["after"]) == (version, after)}
        for version in VERSIONS
    }
    return tuple("; ".join(map(_describe_answer, sorted(texts))) for texts in answers.values() if texts)


def _describe_answer(answer: str) -> str:
    if answer in {SAME, SAME_BUT_EMPTY}:
        return answer
    error, is_partly = answer.removesuffix(f"; {SAME}"), answer.endswith(f"; {SAME}")
    return f"error `{error}` for some columns" if is_partly else f"error `{error}`"
