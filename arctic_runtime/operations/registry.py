"""The list of all operations on tables, from which the command line and the dbt macros are generated."""

from __future__ import annotations

from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.operations.changing import FORGET, OVERWRITE, RESET, RESTORE, RESUME, RESYNC, SAVEPOINT
from arctic_runtime.operations.clones import CLONES
from arctic_runtime.operations.differences import DIFF
from arctic_runtime.operations.looking import CHANGES, EXPLAIN, HISTORY, LOOKUP, STATUS, VERIFY
from arctic_runtime.operations.maintaining import COMPACT, EXPIRE, SPLIT
from arctic_runtime.operations.operation import Operation
from arctic_runtime.operations.preview import PREVIEW
from arctic_runtime.operations.promoting import PROMOTE
from arctic_runtime.operations.restating import RESTATE
from arctic_runtime.operations.why import WHY

OPERATIONS: tuple[Operation, ...] = (
    STATUS,
    EXPLAIN,
    HISTORY,
    LOOKUP,
    CHANGES,
    WHY,
    VERIFY,
    DIFF,
    PREVIEW,
    COMPACT,
    SPLIT,
    EXPIRE,
    SAVEPOINT,
    RESTORE,
    RESUME,
    RESTATE,
    RESYNC,
    OVERWRITE,
    CLONES,
    PROMOTE,
    RESET,
    FORGET,
)
"""All operations, in the order in which the help shows them."""


def get_operation(name: str) -> Operation:
    """Returns the operation named `name`; raises ConfigError if there is none."""
    for known in OPERATIONS:
        if known.name == name:
            return known
    names = [known.name for known in OPERATIONS]
    raise ConfigError(f"unknown operation {name!r}{suggest_nearest(name, names)}; expected one of {', '.join(names)}")
