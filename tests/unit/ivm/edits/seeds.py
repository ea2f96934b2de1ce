"""Edits random queries, one history of a query per seed, and counts what became of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.edits.refused import NotEdited
from tests.unit.ivm.edits.edited import Edited, RepeatedKey, edit_table, random_sources
from tests.unit.ivm.edits.random_edits import Written, random_edit, random_query


@dataclass
class Counts:
    """The edits of some seeds: by what a run reads for them, by their kinds, and those that are refused."""

    seeds: int = 0
    edits: int = 0
    read: Counter[str] = field(default_factory=Counter)
    planned: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    impossible: Counter[str] = field(default_factory=Counter)
    """Edits from or to a query of which no table can be made, and of those that are not maintained."""

    wrong: list[str] = field(default_factory=list)


def edit_seeds(seeds: Iterable[int]) -> Counts:
    """Edits a random query of each seed, some edits together, then once more, and at times back to the first query."""
    counts = Counts()
    for seed in seeds:
        counts.seeds += 1
        draw = Random(seed)
        old = first = random_query(draw)
        rows = random_sources(draw)
        for step in range(draw.choice((1, 2, 3))):
            kinds, new = ["undo"], first
            if step == 0 or draw.random() < 0.7:
                kinds, new = _draw_edits(draw, old)
            _edit_query(counts, draw, seed, (old, new), kinds, rows)
            old = new
    return counts


def _draw_edits(draw: Random, query: Written) -> tuple[list[str], Written]:
    kinds = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        kind, query = random_edit(draw, query)
        kinds.append(kind)
    return kinds, query


def list_renames(draw: Random, old: Written, new: Written) -> dict[str, str]:
    """Renames that a model declares, most of those that there are; maps new names of columns to old ones."""
    both = sorted(old.list_shown() & new.list_shown())
    names = {new.name_output(name): old.name_output(name) for name in both}
    return {name: former for name, former in names.items() if name != former and draw.random() < 0.7}


def _edit_query(
    counts: Counts,
    draw: Random,
    seed: int,
    queries: tuple[Written, Written],
    kinds: list[str],
    rows: dict[str, list[tuple[Any, ...]]],
) -> None:
    old, new = queries
    one, other = old.write(), new.write()
    renamed = list_renames(draw, old, new)
    stale = ("former", "size") if draw.random() < 0.2 else ()
    stale = tuple(name for name in stale if name not in old.columns)
    counts.edits += 1
    try:
        edited = edit_table(one, other, rows, new.key, renamed=renamed, stale=stale)
    except NotEdited as refusal:
        counts.refused.update(set(kinds))
        counts.reasons[_shorten(str(refusal))] += 1
    except NotMaintained as refusal:
        counts.impossible[str(refusal)] += 1
    except RepeatedKey:
        counts.impossible["the old query has several rows of a key"] += 1
    except Exception as error:
        what = f"seed {seed}, {kinds}, renamed {renamed}, stale {stale}: {one} -> {other}"
        counts.wrong.append(f"{what}: {type(error).__name__} {str(error)[:300]}")
    else:
        counts.planned.update(set(kinds))
        counts.read[_name_read(edited)] += 1


def _name_read(edited: Edited) -> str:
    edit = edited.edit
    if edited.is_repeated:
        return "keys alone: several rows of a key"
    read = [*(["the table"] if edit.reads_table else []), *(["sources"] if edit.sources else [])]
    return " and ".join(read) or "nothing"


def _shorten(reason: str) -> str:
    """A reason without the names and conditions of one query."""
    return re.sub(
        r"the condition (?!of).* reads", "a condition reads", re.sub(r"column [\w ]+ (reads|is)", r"column \1", reason)
    )
