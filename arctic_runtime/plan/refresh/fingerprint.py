"""Computes a model's fingerprint: hashes of everything that determines its rows besides the rows of its upstreams.

Each run's commit stores the fingerprint. If a part of it changes, the table is computed in full, even if the upstreams
have no new rows. The fingerprint can be computed without a Spark session.

A clone has the fingerprint and the offsets of its origin until its own first run, with other names of upstreams.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import sqlglot

from arctic_runtime.errors import SourceError
from arctic_runtime.model.clone import read_clone_origin
from arctic_runtime.model.names import TableName, rename_tables
from arctic_runtime.model.query_text import QueryText, StoredContract
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version
from arctic_runtime.plan.refresh.event_rules import find_changed_rules, hash_event_rules
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.plan.refresh.session_changes import describe_changed_settings, describe_settings
from arctic_runtime.plan.refresh.spark_settings import select_counted_before
from arctic_runtime.sql.spark_sql import WRITTEN_VERSION

RULES = 2
"""Version of the rules of incremental maintenance and of the computation of change rows.

Raise it with each fix for wrong rows that earlier releases wrote: all tables are then computed in full once, which
repairs them. Fingerprints of version 1 are a single hash.
"""

_EVENTS = "events"
"""Part of the fingerprint with a hash of each event rule (see `event_rules`); null for `input: state`."""

_QUERY = "query"
"""Part of the fingerprint with the hash of the texts of the query and of the views that it reads."""

_CONFIGURATION = "configuration"
"""Part of the fingerprint with the hash of the key and the contract."""

_SETTINGS = "settings"
"""Part of the fingerprint with a hash of the profile's settings, which releases before `_PROFILE` compare."""

_PROFILE = "profile"
"""Part of the fingerprint with the settings of the profile that may change results and are not Spark's defaults."""

_CHANGED = {
    _QUERY: "the model's query, or a view that it reads, changed",
    _CONFIGURATION: "the model's key, contract, checks, `keep_deleted` or `on_schema_change` changed",
    "columns": "columns of its upstreams were renamed, made again or given other types",
    _SETTINGS: "SQL settings of the profile changed",
    _PROFILE: "SQL settings of the profile changed",
    _EVENTS: "`input` changed",
    "rules": "another version of dbt-arctic made the table, and this one follows changes by other rules",
}


def compute_fingerprint(model: Model, upstreams: Upstreams) -> str:
    """Computes the fingerprint of a model: a JSON text with a hash of each part, to be stored in a commit's summary."""
    config = model.config
    parts = {
        _QUERY: (model.sql, *sorted(upstreams.views.items())),
        _CONFIGURATION: _list_configuration(config.primary_key, StoredContract.from_model(model)),
        "columns": upstreams.reassigned_columns,
        _SETTINGS: sorted(select_counted_before(upstreams.settings).items()),
        "rules": RULES,
    }
    hashes: dict[str, object] = {part: _hash_value(value) for part, value in parts.items()}
    hashes[_EVENTS] = hash_event_rules(config) if config.input == "changes" else None
    hashes[_PROFILE] = describe_settings(upstreams.settings)
    return json.dumps(hashes)


def _list_configuration(key: tuple[str, ...], contract: StoredContract) -> tuple[object, ...]:
    return (
        key,
        (),  # Place of a removed key: without it, all fingerprints would change, and all tables be computed again.
        contract.on_schema_change,
        contract.not_null,
        contract.columns,
        *contract.checks,
        *(() if contract.keep_deleted else ("keep_deleted: false",)),
    )


def is_same_query(model: Model, upstreams: Upstreams, earlier: str | None) -> bool:
    """Whether the query and the views that it reads are those of the fingerprint `earlier`; True if unknown."""
    known = _read_part_hashes(earlier).get(_QUERY)
    return known is None or known == _read_part_hashes(compute_fingerprint(model, upstreams))[_QUERY]


def is_text_of(model: Model, query: QueryText, fingerprint: str | None) -> bool:
    """Whether `query` is the text of the query of a fingerprint, and the contract that the rows of `model` had then."""
    known = _read_part_hashes(fingerprint)
    contract = _list_configuration(model.config.primary_key, query.contract)
    texts = (query.sql, *sorted(query.views.items()))
    return (known.get(_QUERY), known.get(_CONFIGURATION)) == (_hash_value(texts), _hash_value(contract))


def has_other_query_or_contract(earlier: str | None, now: str, keeps_settings: bool = False) -> bool:
    """Whether two fingerprints differ in the query or in the configuration, and in no other part.

    With `keeps_settings` the settings are not compared.
    """
    before, after = _read_part_hashes(earlier), _read_part_hashes(now)
    return bool(before) and set(_list_changed_parts(before, after, keeps_settings)) <= {_QUERY, _CONFIGURATION}


def has_edited_query(earlier: str | None, now: str) -> bool:
    """Whether two fingerprints differ in the query or in the configuration; False if the earlier one is not known."""
    before, after = _read_part_hashes(earlier), _read_part_hashes(now)
    return bool(before) and any(before.get(part) != after[part] for part in (_QUERY, _CONFIGURATION))


def hash_query_reading(model: Model, upstreams: Upstreams) -> str:
    """Hashes everything that determines how Spark and sqlglot parse the query and the views that it reads."""
    views, settings = sorted(upstreams.views.items()), sorted(select_counted_before(upstreams.settings).items())
    return _hash_value((sqlglot.__version__, WRITTEN_VERSION, str(model.table), model.sql, views, settings))


def describe_fingerprint_change(earlier: str | None, now: str, keeps_settings: bool = False) -> str:
    """Describes in one line for users the parts of the fingerprint `now` that differ from the earlier one `earlier`.

    "" if no part differs. With `keeps_settings` the settings are not compared.
    """
    if earlier == now:
        return ""
    before, after = _read_part_hashes(earlier), _read_part_hashes(now)
    changed = _list_changed_parts(before, after, keeps_settings)
    return "; ".join(_describe_part(part, before, after) for part in changed if before or part == "rules")


def _list_changed_parts(before: Mapping[str, Any], after: Mapping[str, Any], keeps_settings: bool) -> list[str]:
    without = {_SETTINGS, _PROFILE} if keeps_settings else {_SETTINGS if _PROFILE in before else _PROFILE}
    return [part for part in after if part not in without and before.get(part) != after[part]]


def _describe_part(part: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    if part != _PROFILE:
        return _CHANGED[part]
    return f"{_CHANGED[part]}: {', '.join(describe_changed_settings(before[part], after[part]))}"


def find_changed_event_rules(earlier: str | None, model: Model) -> tuple[str, ...]:
    """Lists the event rules (see `event_rules`) whose value differs from that in the earlier fingerprint `earlier`.

    Empty if `earlier` has no event rules. If the model had `input: state` at that time, the list is only `input`.
    """
    parts = _read_part_hashes(earlier)
    if _EVENTS not in parts:
        return ()
    known = parts[_EVENTS]
    return ("input",) if known is None else find_changed_rules(model.config, known)


def _read_part_hashes(text: str | None) -> dict[str, Any]:
    """Parses a fingerprint to a mapping of its parts to their hashes.

    Empty for None, and for a fingerprint of version 1, which is a single hash.
    """
    return dict(json.loads(text)) if text is not None and text.startswith("{") else {}


def _hash_value(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def describe_query_change(model: Model, state: TableState, upstreams: Upstreams, earlier: str | None) -> str:
    """Describes for users how a model's query differs from the one of its last run, whose fingerprint is `earlier`.

    "" if it does not differ. The query of a clone does not differ either if it names its upstreams where the query of
    the origin names those of the origin.
    """
    keeps_settings = model.config.on_session_change == "keep"
    changed = describe_fingerprint_change(earlier, compute_fingerprint(model, upstreams), keeps_settings)
    origin = read_clone_origin(state.log.properties) if state.log is not None and changed else None
    if origin is None:
        return changed
    tables = {model.table: origin.model, **dict(origin.upstreams)}
    renamed = replace(model, sql=rename_tables(model.sql, tables))
    of_origin = compute_fingerprint(renamed, replace(upstreams, views=rename_views(upstreams.views, tables)))
    return changed if describe_fingerprint_change(earlier, of_origin, keeps_settings) else ""


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


def rename_views(views: Mapping[str, str], tables: Mapping[TableName, TableName]) -> dict[str, str]:
    """Replaces names of tables in the texts of views, and in the names of the views; `tables` maps old ones."""
    names = {str(old): str(new) for old, new in tables.items()}
    return {names.get(name, name): rename_tables(sql, tables) for name, sql in views.items()}
