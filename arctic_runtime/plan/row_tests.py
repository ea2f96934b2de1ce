"""Plans the reads of a test on changed rows, which `ivm.row_tests` has found to be enough since its last pass."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.window_rows import check_window
from arctic_runtime.thresholds import IncrementalThresholds

RULES = 1
"""Version of the rules for tests of changed rows; increase it to make all tests look at all rows once."""


def replace_relation(sql: str, relation: str, replacement: str) -> str:
    """Replaces the quoted name of a table in a test's query; raises NotMaintained unless it is there exactly once."""
    if sql.count(relation) != 1:
        raise NotMaintained("UNSUPPORTED", f"{relation} is written {sql.count(relation)} times in the test")
    return sql.replace(relation, replacement)


def hash_definition(sql: str, tables: Sequence[tuple[str, ...]], session: str) -> str:
    """Hashes everything that determines a test's result besides the rows of its tables.

    `tables` has texts for the primary key and the columns of each table, with the columns' ids. `session` is a
    text with the version of Spark and the SQL settings that may change results.
    """
    parts = [RULES, sql, [list(table) for table in tables], session]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def find_changes_since(state: SourceState, since: Version, limits: IncrementalThresholds) -> Window:
    """Returns the window of a table's changes since a test passed.

    Raises NotMaintained if some of them can't be read, or if they are so many that all rows are as fast.
    """
    window = Window(str(state.name), since, state.version)
    check_window(state, window)
    # Only whole windows count: a purged change row might have been the one that deleted a key.
    is_kept = state.keeps_version(since) and since.sequence >= state.trimmed
    if not is_kept or since.sequence > state.version.sequence:
        raise NotMaintained("UPSTREAM_EXPIRED", f"{state.name} no longer keeps the version with which the test passed")
    rows = state.count_rows_in(window)
    if rows > max(limits.always_incremental_rows, limits.changed_share * state.rows):
        raise NotMaintained("COST", f"{rows:,} of {state.rows:,} rows of {state.name} have changed, which is too many")
    return window
