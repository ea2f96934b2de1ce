"""The work that every engine does with its table, and the lines of JSON by which its process tells of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.measure import seconds
from benchmarks.rows import COLUMNS, total

WRITE, READ, MERGE = "write", "read", "merge"
ACTIONS = (WRITE, READ, MERGE)
FIRST, MORE = 0.01, 0.09
"""Parts of all rows: what is timed being brought in, and what is brought in besides until there is reading."""


@dataclass(frozen=True)
class Keeper:
    """How an engine keeps a table: brings in the changes that have landed, reads its rows, and merges all changes."""

    bring_in: Callable[[], object]
    rows: Callable[[], DataFrame]
    merge: Callable[[], object]


def tell_ready(versions: Mapping[str, str]) -> None:
    """What runs here, once it does; a process that ends before has an engine that can't be had."""
    tell("ready", versions)


def work(name: str, keeper: Keeper, land: Callable[[float, int], None], rounds: int) -> None:
    """Every action once a round, and in the end what the table holds; the first round warms up and is not counted.

    `land` puts changes to a part of the rows where the table finds them; each turn of it changes other rows.
    """
    taken: dict[str, list[float]] = {action: [] for action in ACTIONS}
    for round_ in range(rounds + 1):
        for action, spent in _round(keeper, land, round_):
            tell("said", f"{f'round {round_}' if round_ else 'warm-up'}: {name}: {action}: {spent:.2f} s")
            taken[action] += [spent] if round_ else []
    tell("found", {"seconds": taken, "rows": _held(keeper.rows())})


def _round(keeper: Keeper, land: Callable[[float, int], None], round_: int) -> Iterator[tuple[str, float]]:
    land(FIRST, 2 * round_ + 1)
    yield WRITE, seconds(keeper.bring_in)
    land(MORE, 2 * round_ + 2)
    keeper.bring_in()
    yield READ, seconds(lambda: total(keeper.rows()))
    yield MERGE, seconds(keeper.merge)


def _held(rows: DataFrame) -> list[int]:
    """The number of rows, the sums of whole numbers, and the sum of a hash of every column: the same in any order."""
    hashed = F.sum(F.xxhash64(*COLUMNS).cast("decimal(38, 0)"))
    row = rows.agg(F.count(F.lit(1)), F.sum("id"), F.sum("a"), F.sum("b"), hashed).collect()[0]
    return [int(figure) for figure in row]


def tell(kind: str, what: Any) -> None:
    """A line of JSON for the parent."""
    print(json.dumps({kind: what}), flush=True)
