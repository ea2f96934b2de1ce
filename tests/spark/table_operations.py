"""The operations that any table of a model allows, as rules of a state machine that compares the table with a dict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from arctic_runtime.catalog.lookup import look_up_row
from arctic_runtime.model.files.compaction import CompactionMode
from arctic_runtime.operations.inspect import read_history
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.refresh.overwrite import restore_version
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

KEYS = st.integers(1, 12)
Rows = dict[int, tuple[Any, ...]]


class TableOperations(RuleBasedStateMachine):
    """A machine whose rules change `table` as the table of `model`; `down` counts and adds `v` in groups of it.

    The rows of `table` by key are pairs of a group and `v`; `versions` has the former ones by version of the model.
    """

    lake: ClassVar[Warehouse]
    model: Model
    down: Model
    table: Rows
    versions: dict[str, Rows]

    @rule(mode=st.sampled_from(CompactionMode.__args__))  # type: ignore[attr-defined]
    def compact(self, mode: CompactionMode) -> None:
        compact_table(self.lake.session_of(self.model), mode)

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        kept = [entry.version for entry in read_history(self.lake.reader, self.model) if entry.version in self.versions]
        version = data.draw(st.sampled_from(kept))
        restore_version(self.lake.session_of(self.model), version)
        self.table = dict(self.versions[version])
        self.remember()

    @rule()
    def follow(self) -> None:
        self.lake.run(self.down)
        groups: dict[str, list[int]] = {}
        for group, v in self.table.values():
            groups.setdefault(group, []).append(v)
        expected = sorted(((group, len(v), sum(v)) for group, v in groups.items()), key=repr)
        assert self.lake.rows(self.down) == expected

    @rule(key=KEYS)
    def look(self, key: int) -> None:
        row = look_up_row(self.lake.reader, self.model, [str(key)]).row
        assert (row and tuple(row.values())) == ((key, *self.table[key]) if key in self.table else None)

    @precondition(lambda self: hasattr(self, "model"))
    @invariant()
    def the_table_is_the_dict(self) -> None:
        assert self.lake.rows(self.model) == sorted(((key, *row) for key, row in self.table.items()), key=repr)

    def remember(self) -> None:
        self.versions[str(self.lake.head(self.model))] = dict(self.table)
