"""Whether tables of ODS are, row by row, what the source has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sample_project.live.changes import KEYS, Key, Row, Tables


def difference(expected: Mapping[Key, Row], actual: Iterable[Row], key: tuple[str, ...]) -> str | None:
    """How the rows of a table differ from those that are expected, with an example; None where they do not."""
    rows = list(actual)
    by_key = {tuple(row[name] for name in key): row for row in rows}
    kinds = {
        "missing": [key_values for key_values in expected if key_values not in by_key],
        "too many": [key_values for key_values in by_key if key_values not in expected],
        "other values": [
            name for name, row in by_key.items() if name in expected and dict(row) != dict(expected[name])
        ],
    }
    differences = [f"{len(keys):,} {kind}, such as {_shown(keys[0])}" for kind, keys in kinds.items() if keys]
    if len(rows) > len(by_key):
        differences.append(f"{len(rows) - len(by_key):,} keys more than once")
    return "; ".join(differences) or None


def compare(tables: Tables, read: Any) -> bool:
    """Prints for each table whether it is exact; whether all are. `read` makes the DataFrame of a table's name."""
    is_exact = True
    for table, rows in tables.rows.items():
        differs = difference(rows, read(table).toArrow().to_pylist(), KEYS[table])
        is_exact = is_exact and differs is None
        print(f"  {table:<10} {len(rows):>9,} rows   {differs or 'exact'}", flush=True)
    return is_exact


def _shown(key: Key) -> str:
    return ", ".join(map(str, key))
