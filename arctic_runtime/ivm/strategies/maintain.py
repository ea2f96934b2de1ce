"""How a query's result follows the changes of what it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Distinct, Filter, Join, Node, Project, Scan, SemiJoin, SpoolScan
from arctic_runtime.ivm.algebra.unique import is_unique
from arctic_runtime.ivm.rewrite.predicate_pushdown import pushed_down
from arctic_runtime.ivm.rules.apply import delta, touched
from arctic_runtime.ivm.rules.inputs import Known
from arctic_runtime.ivm.rules.restrict import is_whole, restrict
from arctic_runtime.ivm.rules.runtime_filters import NOTHING_WORTH, Worth, reduced
from arctic_runtime.ivm.rules.terms import changes, present
from arctic_runtime.ivm.strategies.aggregate_state import AggregateState, totals
from arctic_runtime.ivm.strategies.choices import choices
from arctic_runtime.ivm.strategies.determinism import is_deterministic
from arctic_runtime.ivm.strategies.invalidation import changing, why_all
from arctic_runtime.ivm.strategies.pairs import Pairs, pairs
from arctic_runtime.model.names import TableName

AFFECTED = "__arctic_affected"
"""The name of the rows, keys of the result, for which `Units.new` is computed."""


@dataclass(frozen=True)
class Deltas:
    """`changes` has the tree's columns and MULTIPLICITY: rows that come and go, less those that do both."""

    changes: Node


@dataclass(frozen=True)
class AffectedKeys:
    """Keys of all rows that may differ, each once, and the rows with these keys as they are now.

    `affected` has the key's columns, each once; `new` has the tree's columns and reads the keys as
    `Given(AFFECTED, key)`. A row with an affected key that is not in `new` is gone. A key may be there that the result
    neither has nor had.
    """

    affected: Node
    new: Node


Maintenance = Deltas | Pairs | AggregateState | AffectedKeys


@dataclass(frozen=True)
class Facts:
    """What is known besides the query: `types` of the tree's columns as far as they are certain.

    `paired` are the sources whose log tells what each changed row was before, `small` those that cost little to read
    twice, and `few_rows` says that the result has so few rows that totals of all its groups cost little to keep.
    `little` are sources with no more rows than such totals may have.
    `worth` tells of each source that has changed which others are worth reading to leave out changes without partners.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    paired: frozenset[TableName] = frozenset()
    small: frozenset[TableName] = frozenset()
    few_rows: bool = False
    little: frozenset[TableName] = frozenset()
    worth: Worth = field(default_factory=lambda: NOTHING_WORTH)


def maintain(
    tree: Node, key: tuple[str, ...], changed: frozenset[TableName], facts: Facts | None = None
) -> Maintenance:
    """Plans the maintenance of a result whose rows are identified by `key`, columns of the tree, some perhaps twice.

    Changed rows are joined to the rest where the operators above them allow and the key is proven to identify rows;
    sums and counts over few groups are added up; otherwise the units that changed rows are in are computed again.
    Raises NotMaintained where all rows could be affected.
    """
    if not changes(tree, changed):
        raise NotMaintained("NOTHING_NEW", "none of the tables that it reads has changed")
    key = tuple(dict.fromkeys(key))
    found = pushed_down(tree)
    known = facts or Facts()
    added = totals(found, key, changed, known.types, known.worth, known.little) if known.few_rows else None
    if added is not None:
        return added
    _refuse(key)
    # Pairs and deltas compute removed rows again; these have to equal the rows that were added before.
    is_known = not is_whole(found) or is_deterministic(found, known.types)
    paired = pairs(found, key, changed, known.paired, known.small) if is_known else None
    if paired is not None:
        return paired
    followed = tuple(changing(found, changed))
    for node in followed:
        _refuse_everything(node, changed, known.types)
    if is_known and all(map(_is_linear, followed)) and is_unique(found, key):
        return Deltas(present(delta(found, changed, known.worth, Known(known.types))))
    chosen = choices(found, known.types)
    chosen.check(found, key, changed)
    told = Known(known.types, chosen.names)
    affected = present(touched(reduced(found, known.worth), key, changed, known.worth, told))
    return AffectedKeys(Distinct(affected), restrict(found, key, SpoolScan(AFFECTED, key)))


def _refuse(key: tuple[str, ...]) -> None:
    if not key:
        raise NotMaintained("ONE_ROW", "the table has a single row, which takes all rows to compute")


def _refuse_everything(node: Node, changed: frozenset[TableName], types: Mapping[str, str]) -> None:
    because = why_all(node, changed, types)
    if because is not None:
        raise NotMaintained("EVERYTHING_AFFECTED", because)


def _is_linear(node: Node) -> bool:
    if isinstance(node, Join):
        return node.kind != "full"
    return isinstance(node, Scan | Project | Filter | SemiJoin)
