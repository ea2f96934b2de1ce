"""Computes the change rows of a refresh in DuckDB, by the plans of incremental maintenance that Spark executes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlglot import exp

from arctic_runtime.ivm.algebra.tree import HAS_AFTER, HAS_BEFORE, MULTIPLICITY, Node, list_columns, list_scans
from arctic_runtime.ivm.algebra.tree import name_before as was
from arctic_runtime.ivm.render import build_query, name_input
from arctic_runtime.ivm.strategies.aggregate_state import AggregateState
from arctic_runtime.ivm.strategies.maintain import AFFECTED, AffectedKeys, Deltas
from arctic_runtime.ivm.strategies.pairs import Pairs
from arctic_runtime.model.columns import Column, strip_change_columns
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.decide import Decision
from arctic_runtime.plan.refresh.edits import EditPlan
from arctic_runtime.plan.refresh.increment import Increment, drop_aggregate_state
from tests.simulation.lake import Catalog, Row
from tests.simulation.rows import Change, Rows, diff_rows, fold_until
from tests.unit.ivm.duck import connect, in_duckdb

_TYPES = {"bigint": "bigint", "string": "varchar", "int": "integer"}


class Engine:
    """DuckDB, whose tables are made anew for each refresh."""

    def __init__(self) -> None:
        self._con = connect()
        self._con.execute("set threads = 1")
        for schema in ("ods", "dwd", "dws"):
            self._con.execute(f"create schema lake.{schema}")

    def compute(self, lake: Catalog, model: Model, decision: Decision, old: Rows) -> list[Change]:
        """Computes the change rows of a run; `old` are the rows that the model's table has."""
        if decision.edit is not None:
            return self._edit_rows(lake, decision.edit, old)
        if decision.revert is not None:
            return diff_rows(old, _read_at(lake, model.table, decision.revert.own.start)[1])
        if decision.increment is None:
            return diff_rows(old, self._compute_all(lake, model, decision.windows))
        return self._follow(lake, decision.increment, decision.windows, old)

    def _compute_all(self, lake: Catalog, model: Model, windows: Mapping[str, Window]) -> Rows:
        for name, window in windows.items():
            table = TableName(*name.split("."))
            columns, rows = _read_at(lake, table, window.end)
            self._load(f'lake."{table.schema}"."{table.name}"', columns, rows.values())
        return {row[:1]: row for row in self._fetch(_translate(model.sql))}

    def _edit_rows(self, lake: Catalog, plan: EditPlan, old: Rows) -> list[Change]:
        """Computes the rows that an edit of the query changes; `old` are those of the table."""
        edit = plan.edit
        if edit.rows is None:
            return []
        assert edit.repeated is None, "the keys of the queries are unique"
        columns = strip_change_columns(lake.get_table((edit.own.schema, edit.own.changes.name)).columns)
        self._load(f'"{name_input(edit.own, "new")}"', columns, old.values())
        self._load_images(lake, [edit.rows], plan.windows, edit.own)
        names = list_columns(edit.rows)
        now = [names.index(made) for _, made in plan.outputs]
        then = [names.index(was(column.name)) for column in columns]
        return self._read_images(edit.rows, now, then)

    def compute_pinned(
        self, lake: Catalog, tree: Node, outputs: Sequence[tuple[str, str]], windows: Mapping[str, Window]
    ) -> Rows:
        """Computes the rows of a tree from the versions at the ends of windows."""
        self._load_images(lake, [tree], windows)
        names = list_columns(tree)
        places = [names.index(made) for _, made in outputs]
        rows = (tuple(row[place] for place in places) for row in self._fetch(_render(tree)))
        return {row[:1]: row for row in rows}

    def _follow(self, lake: Catalog, increment: Increment, windows: Mapping[str, Window], old: Rows) -> list[Change]:
        plan = increment.maintenance
        if isinstance(plan, AggregateState):
            return self._follow(lake, drop_aggregate_state(increment), windows, old)
        assert not increment.reducers
        trees = [*increment.trees, *(spool.rows for spool in increment.spools)]
        self._load_images(lake, trees, windows)
        for spool in increment.spools:
            self._con.execute(
                f'create or replace temp table "{spool.name}" as select distinct * from ({_render(spool.rows)})'
            )
        match plan:
            case Deltas(changes):
                return self._read_deltas(changes, increment)
            case Pairs(rows):
                return self._read_pairs(rows, increment)
            case AffectedKeys(affected, new):
                return self._recompute_keys(affected, new, increment, old)

    def _read_deltas(self, changes: Node, increment: Increment) -> list[Change]:
        names, net = list_columns(changes), dict[Row, int]()
        weight = names.index(MULTIPLICITY)
        places = _find_outputs(increment, names)
        for row in self._fetch(_render(changes)):
            shown = tuple(row[place] for place in places)
            net[shown] = net.get(shown, 0) + row[weight]
        before = {row[:1]: row for row, count in net.items() if count < 0}
        after = {row[:1]: row for row, count in net.items() if count > 0}
        return diff_rows(before, after)

    def _read_pairs(self, rows: Node, increment: Increment) -> list[Change]:
        names = list_columns(rows)
        return self._read_images(rows, _find_outputs(increment, names), _find_outputs(increment, names, is_before=True))

    def _read_images(self, rows: Node, now: Sequence[int], then: Sequence[int]) -> list[Change]:
        """Computes the change rows of pairs; `now` and `then` are the places of the columns after and before."""
        names = list_columns(rows)
        has_after, has_before = names.index(HAS_AFTER), names.index(HAS_BEFORE)
        before: Rows = {}
        after: Rows = {}
        for row in self._fetch(_render(rows)):
            if row[has_before]:
                shown = tuple(row[place] for place in then)
                before[shown[:1]] = shown
            if row[has_after]:
                shown = tuple(row[place] for place in now)
                after[shown[:1]] = shown
        return diff_rows(before, after)

    def _recompute_keys(self, affected: Node, new: Node, increment: Increment, old: Rows) -> list[Change]:
        self._con.execute(f'create or replace temp table "{AFFECTED}" as {_render(affected)}')
        keys = {row[:1] for row in self._fetch(f'select * from "{AFFECTED}"')}
        places = _find_outputs(increment, list_columns(new))
        rows = [tuple(row[place] for place in places) for row in self._fetch(_render(new))]
        return diff_rows({key: row for key, row in old.items() if key in keys}, {row[:1]: row for row in rows})

    def list_touched(
        self, lake: Catalog, tree: Node, key: Sequence[str], forgotten: Mapping[TableName, set[Row]], ever: bool
    ) -> set[Row]:
        """Computes the keys of rows that depend on rows with `forgotten` keys, now or in the past.

        Sources without such keys have their current rows, or with `ever` all that they ever had.
        """
        for source, image in sorted({(scan.source, scan.image) for scan in list_scans(tree)}):
            columns, new = _read_at(lake, source, None)
            past = list_images(lake, source)
            keys = forgotten.get(source)
            images = [row for row in past if keys is not None and row[:1] in keys]
            view = f'"{name_input(source, image)}"'
            if keys is None and ever:
                self._load(view, columns, past)
            elif image in ("new", "old") or keys is None:
                self._load(view, columns, new.values())
            elif image == "either":
                self._load(view, columns, [*new.values(), *images])
            else:
                signed = [(*row, sign) for row in images for sign in (1, -1)]
                self._load(view, (*columns, Column(MULTIPLICITY, "bigint")), signed)
        names = list_columns(tree)
        return {tuple(row[names.index(part)] for part in key) for row in self._fetch(_render(tree))}

    def _load_images(
        self, lake: Catalog, trees: Iterable[Node], windows: Mapping[str, Window], loaded: TableName | None = None
    ) -> None:
        """Makes the views that trees read, but those of a table that is `loaded`."""
        read = {(scan.source, scan.image) for tree in trees for scan in list_scans(tree) if scan.source != loaded}
        for source in sorted({source for source, _ in read}):
            window = windows[str(source)]
            columns, new = _read_at(lake, source, window.end)
            _, old = _read_at(lake, source, window.start) if window.start else (columns, {})
            gone = [row for key, row in old.items() if new.get(key) != row]
            came = [row for key, row in new.items() if old.get(key) != row]
            for image in sorted(image for name, image in read if name == source):
                view = f'"{name_input(source, image)}"'
                match image:
                    case "old":
                        self._load(view, columns, old.values())
                    case "new":
                        self._load(view, columns, new.values())
                    case "either":
                        self._load(view, columns, [*new.values(), *gone])
                    case "delta":
                        signed = [*((*row, 1) for row in came), *((*row, -1) for row in gone)]
                        self._load(view, (*columns, Column(MULTIPLICITY, "bigint")), signed)
                    case "pair":
                        self._load_pairs(view, columns, old, new)
                    case _:
                        raise AssertionError(image)

    def _load_pairs(self, view: str, columns: tuple[Column, ...], old: Rows, new: Rows) -> None:
        keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        pairs = []
        for key in keys:
            none: Row = (*key, *(None for _ in columns[1:]))
            pairs.append((*new.get(key, none), *old.get(key, none), key in new, key in old))
        before = tuple(Column(was(column.name), column.type) for column in columns)
        flags = (Column(HAS_AFTER, "boolean"), Column(HAS_BEFORE, "boolean"))
        self._load(view, (*columns, *before, *flags), pairs)

    def _load(self, name: str, columns: Sequence[Column], rows: Iterable[Row]) -> None:
        kinds = [_TYPES.get(column.type, column.type) for column in columns]
        fields = ", ".join(
            f'cast(c{place} as {kind}) as "{column.name}"'
            for place, (column, kind) in enumerate(zip(columns, kinds, strict=True))
        )
        values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
        source = f"(values {values})" if values else f"(select {', '.join('null' for _ in kinds)} limit 0)"
        names = ", ".join(f"c{place}" for place in range(len(kinds)))
        self._con.execute(f"create or replace table {name} as select {fields} from {source} as v({names})")

    def _fetch(self, sql: str) -> list[Row]:
        return [tuple(map(_plain, row)) for row in self._con.execute(sql).fetchall()]


def _read_at(lake: Catalog, table: TableName, version: Version | None) -> tuple[tuple[Column, ...], Rows]:
    """Reads a table at a version: from the files of its snapshot, if that is kept, and else from the newest ones.

    So change rows that were purged since are read as long as the snapshots are kept. None is the newest version.
    """
    metadata = lake.get_table((table.schema, table.changes.name))
    until = 2**62 if version is None else version.sequence
    kept = None if version is None else metadata.find(version.snapshot)
    rows = fold_until(lake, metadata, until, None if kept is None else kept.snapshot_id)
    return strip_change_columns(metadata.columns), rows


def list_images(lake: Catalog, table: TableName) -> list[Row]:
    """Lists all rows that a table ever had, as far as its change rows are kept."""
    metadata = lake.get_table((table.schema, table.changes.name))
    head = metadata.find(metadata.current_snapshot_id)
    changes = [row for _, _, row in lake.list_rows(head)] if head is not None else []
    return list(dict.fromkeys(row for _, after, before in changes for row in (after, before) if row is not None))


def _find_outputs(increment: Increment, names: Sequence[str], is_before: bool = False) -> list[int]:
    """Places of the query's columns among those of a tree."""
    return [names.index(was(made) if is_before else made) for _, made in increment.outputs]


@lru_cache(maxsize=512)
def _render(node: Node) -> str:
    query = build_query(node)
    for call in list(query.find_all(exp.CountIf)):
        call.replace(exp.Count(this=exp.case().when(call.this, exp.Literal.number(1))))
    return query.sql(dialect="duckdb")


@lru_cache(maxsize=64)
def _translate(sql: str) -> str:
    return in_duckdb(sql)


def _literal(value: Any) -> str:
    if value is None:
        return "null"
    return f"'{value}'" if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | bool) else int(value)
