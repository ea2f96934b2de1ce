"""Writes the tables of what Trino and Flink read, from the answers that the tests in `tests/open` recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TRINO_READS = Path(__file__).parents[1] / "tests" / "data" / "trino_reads.json"
FLINK_READS = TRINO_READS.with_name("flink_reads.json")
SAME = "all rows, as Spark"

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


def describe_trino_reads() -> str:
    return _describe_reads(TRINO_READS)


def describe_flink_reads() -> str:
    return _describe_reads(FLINK_READS)


def _describe_reads(file: Path) -> str:
    """Describes which relations a reader reads and which it refuses, as a table of Markdown."""
    recorded = json.loads(file.read_text(encoding="utf-8"))
    lines = [
        f"| {recorded['reader']} reads | | {' | '.join(f'`format_version: {version}`' for version in VERSIONS)} |",
        "|---|---|---|---|",
    ]
    for (relation, is_small), name in RELATIONS.items():
        reads = [
            read for read in recorded["reads"] if (read["relation"], read["model"] == "small") == (relation, is_small)
        ]
        lines += [f"| {name} | {states} | {' | '.join(cells)} |" for cells, states in _group_states(reads).items()]
    return "\n".join(lines)


def _group_states(reads: Sequence[Mapping[str, Any]]) -> dict[tuple[str, ...], str]:
    """Groups the states of a relation by its answers; `always` if these never differ."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for after, state in STATES.items():
        if cells := _write_cells(reads, after):
            groups.setdefault(cells, []).append(state)
    return {cells: ", ".join(states) if len(groups) > 1 else "always" for cells, states in groups.items()}


def _write_cells(reads: Sequence[Mapping[str, Any]], after: str) -> tuple[str, ...]:
    """Writes the answers of one state of a relation, a cell for each format version; nothing if it was not read."""
    answers = {
        version: {read["answer"] for read in reads if (read["format_version"], read["after"]) == (version, after)}
        for version in VERSIONS
    }
    return tuple("; ".join(map(_describe_answer, sorted(texts))) for texts in answers.values() if texts)


def _describe_answer(answer: str) -> str:
    return answer if answer == SAME else f"error `{answer}`"
