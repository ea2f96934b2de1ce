"""Whether tables of ODS are, row by row, what the source has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sample_project.live.changes import KEYS, Key, Row, Tables


def difference(expected: Mapping[Key, Row], found: Iterable[Row], key: tuple[str, ...]) -> str | None:
    """How the rows of a table differ from those that are expected, with an example; None where they do not."""
    rows = list(found)
    by_key = {tuple(row[name] for name in key): row for row in rows}
    kinds = {
        "missing": [of for of in expected if of not in by_key],
        "too many": [of for of in by_key if of not in expected],
        "other values": [of for of, row in by_key.items() if of in expected and dict(row) != dict(expected[of])],
    }
    told = [f"{len(keys):,} {kind}, such as {_shown(keys[0])}" for kind, keys in kinds.items() if keys]
    if len(rows) > len(by_key):
        told.append(f"{len(rows) - len(by_key):,} keys more than once")
    return "; ".join(told) or None


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
