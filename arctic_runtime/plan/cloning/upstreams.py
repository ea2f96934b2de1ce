"""Upstreams of a clone: they have other names for its origin, whose offsets the clone has until its own first run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from arctic_runtime.errors import SourceError
from arctic_runtime.model.clone import CloneOrigin, read_clone_origin
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint, describe_fingerprint_change
from arctic_runtime.plan.refresh.increment import Upstreams


def describe_query_change(model: Model, state: TableState, upstreams: Upstreams, then: str | None) -> str:
    """Describes for users how a model's query differs from the one of its last run, whose fingerprint is `then`.

    "" if it does not differ. The query of a clone does not differ either if it names its upstreams where the query of
    the origin names those of the origin.
    """
    changed = describe_fingerprint_change(then, compute_fingerprint(model, upstreams))
    origin = read_clone_origin(state.log.properties) if state.log is not None and changed else None
    if origin is None:
        return changed
    renamed = replace(model, sql=_rename_tables(model.sql, model, origin))
    views = {
        _rename_tables(name, model, origin): _rename_tables(sql, model, origin) for name, sql in upstreams.views.items()
    }
    of_origin = compute_fingerprint(renamed, replace(upstreams, views=views))
    return changed if describe_fingerprint_change(then, of_origin) else ""


def check_own_upstreams(
    model: Model, state: TableState, read: Iterable[TableName], offsets: Mapping[str, Version]
) -> None:
    """Raises SourceError if a clone reads changes of an upstream of its origin, since it does not know its offset.

    It has the offset of its own clone of that upstream. Reading from the beginning, it would apply all changes again.
    """
    origin = read_clone_origin(state.log.properties) if state.log is not None else None
    theirs = {name for own, name in origin.upstreams if str(own) in offsets} if origin is not None else set()
    lost = [str(name) for name in read if name in theirs and str(name) not in offsets]
    if lost:
        raise SourceError(
            f"{model.table}: a clone can't go on with the changes of {', '.join(lost)}, which its origin reads.",
            expected="a clone of that upstream, made together with this one",
            actual="the upstream of the origin itself",
            fix=f"clone the upstream and {model.table.name} together, with `dbt clone --full-refresh`; or run `dbt run "
            f"--full-refresh -s {model.table.name}` to compare with everything that is there now",
        )


def _rename_tables(text: str, model: Model, origin: CloneOrigin) -> str:
    """Replaces in a SQL text, or in a name, the names of the clone and of its upstreams by those of the origin."""
    for own, theirs in ((model.table, origin.model), *origin.upstreams):
        if text == str(own):
            return str(theirs)
        text = text.replace(_quote_table(own), _quote_table(theirs))
    return text


def _quote_table(name: TableName) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in name.parts)
