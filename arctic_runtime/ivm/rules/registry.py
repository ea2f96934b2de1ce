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
from arctic_runtime.ivm.rules.inputs import Rule
from arctic_runtime.ivm.rules.operators import (
    aggregate,
    explode,
    join,
    leaves,
    project,
    row_filter,
    semi_join,
    set_operations,
    window,
)

RULES: Mapping[type, Rule[Any]] = {
    Scan: leaves.SCAN_RULE,
    SpoolScan: leaves.CONSTANT_RULE,
    OneRow: leaves.CONSTANT_RULE,
    Projection: project.RULE,
    Filter: row_filter.RULE,
    Join: join.RULE,
    SemiJoin: semi_join.RULE,
    Aggregate: aggregate.RULE,
    WindowColumns: window.RULE,
    Explode: explode.RULE,
    Distinct: set_operations.DISTINCT_RULE,
    UnionAll: set_operations.UNION_RULE,
    SetOperation: set_operations.SET_OPERATION_RULE,
}
