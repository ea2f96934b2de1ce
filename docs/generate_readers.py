"""Writes the table of what Trino reads, from the answers that `tests/open/test_trino.py` recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TRINO_READS = Path(__file__).parents[1] / "tests" / "data" / "trino_reads.json"
SAME = "all rows, as Spark"

RELATIONS: Mapping[tuple[str, bool], str] = {
    ("base", False): "base",
    ("base", True): "unpartitioned base of up to 100,000 rows",
    ("change table", False): "change table",
    ("view", False): "view of `merge: on_read`",
}
"""Names of relations, by their kind and by whether their base is small and without partitions."""

VERSIONS = (3, 2)
STATES = {False: "with updated and deleted rows", True: "after `arctic compact m --mode full`"}


def describe_trino_reads() -> str:
    """Describes which relations Trino reads and which it refuses, as a table of Markdown."""
    recorded = json.loads(TRINO_READS.read_text(encoding="utf-8"))
    lines = [
        f"| Trino {recorded['trino']} reads | | {' | '.join(f'`format_version: {v}`' for v in VERSIONS)} |",
        "|---|---|---|---|",
    ]
    for (kind, is_small), name in RELATIONS.items():
        reads = [r for r in recorded["reads"] if (r["relation"], r["merge"] == "small") == (kind, is_small)]
        states = {state: _write_cells(reads, compacted) for compacted, state in STATES.items()}
        if len(set(states.values())) == 1:
            states = {"always": next(iter(states.values()))}
        lines += [f"| {name} | {state} | {cells} |" for state, cells in states.items()]
    return "\n".join(lines)


def _write_cells(reads: Sequence[Mapping[str, Any]], compacted: bool) -> str:
    """Writes the answers of one state of a relation, a cell for each format version."""
    return " | ".join(
        "; ".join(
            sorted(
                {
                    _describe_answer(read["answer"])
                    for read in reads
                    if (read["format_version"], read["compacted"]) == (version, compacted)
                }
            )
        )
        for version in VERSIONS
    )


def _describe_answer(answer: str) -> str:
    return answer if answer == SAME else f"error `{answer}`"
