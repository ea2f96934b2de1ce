"""Maps each operator class to its rule of incremental maintenance; the rule of a new operator must be added here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    OneRow,
    Projection,
    Scan,
    SemiJoin,
    SetOperation,
    SpoolScan,
    UnionAll,
    WindowColumns,
)
from arctic_runtime.ivm.rules.operators import (
    aggregate,
    distinct,
    explode,
    join,
    one_row,
    project,
    row_filter,
    scan,
    semi_join,
    set_operation,
    spool_scan,
    union_all,
    window,
)
from arctic_runtime.ivm.rules.rule import Rule

RULES: Mapping[type, Rule[Any]] = {
    Scan: scan.RULE,
    SpoolScan: spool_scan.RULE,
    OneRow: one_row.RULE,
    Projection: project.RULE,
    Filter: row_filter.RULE,
    Join: join.RULE,
    SemiJoin: semi_join.RULE,
    Aggregate: aggregate.RULE,
    WindowColumns: window.RULE,
    Explode: explode.RULE,
    Distinct: distinct.RULE,
    UnionAll: union_all.RULE,
    SetOperation: set_operation.RULE,
}
