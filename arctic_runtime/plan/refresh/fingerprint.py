"""A fingerprint of all that makes a table what it is besides its upstreams' rows, kept in each run's commit.

Where a part of it is another one the table is computed in full, also where nothing is new. No part needs a Spark.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import sqlglot

from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.event_rules import find_changed_rules, hash_event_rules
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.sql.spark_sql import WRITTEN_VERSION

RULES = 2
"""The version of the rules by which changes are followed, and of how change rows are made.

Raise it with each mend of a table that earlier versions left wrong: all tables are computed in full once, which repairs
them. Version 1 kept one hash of everything.
"""

_EVENTS = "events"
"""The part of how rows follow from change events, with a hash for each key; null for rows that a query says."""

_CHANGED = {
    "query": "the model's query, or a view that it reads, changed",
    "configuration": "the model's key, contract, checks, `keep_deleted` or `on_schema_change` changed",
    "columns": "columns of its upstreams were renamed, made again or given other types",
    "settings": "SQL settings of the profile changed",
    _EVENTS: "`input` changed",
    "rules": "another version of dbt-arctic made the table, and this one follows changes by other rules",
}

# What a setting does is known of these alone: any other one may change results.
_WITHOUT_EFFECT = (
    "spark.sql.adaptive.",
    "spark.sql.artifact.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.broadcast",
    "spark.sql.cache.",
    "spark.sql.catalog.",
    "spark.sql.cbo.",
    "spark.sql.codegen.",
    "spark.sql.debug.",
    "spark.sql.event",
    "spark.sql.execution.",
    "spark.sql.extensions",
    "spark.sql.files.",
    "spark.sql.hive.",
    "spark.sql.iceberg.",
    "spark.sql.inMemoryColumnarStorage.",
    "spark.sql.join.",
    "spark.sql.maxBroadcastTableSize",
    "spark.sql.maxPlanStringLength",
    "spark.sql.optimizer.",
    "spark.sql.orc.",
    "spark.sql.parquet.",
    "spark.sql.planChangeLog.",
    "spark.sql.redaction.",
    "spark.sql.requireAllClusterKeysForCoPartition",
    "spark.sql.shuffle.",
    "spark.sql.sources.",
    "spark.sql.statistics.",
    "spark.sql.streaming.",
    "spark.sql.thriftServer.",
    "spark.sql.ui.",
    "spark.sql.warehouse.",
)


def compute_fingerprint(model: Model, upstreams: Upstreams) -> str:
    """A hash of each part, as a commit's summary keeps it."""
    config = model.config
    parts = {
        "query": (model.sql, *sorted(upstreams.views.items())),
        "configuration": (
            config.primary_key,
            (),  # A key that no longer counts; without it all tables would be computed anew.
            config.on_schema_change,
            model.not_null,
            model.contract,
            *model.checks,
            *(() if config.keep_deleted else ("keep_deleted: false",)),
        ),
        "columns": upstreams.reassigned_columns,
        "settings": sorted(upstreams.settings.items()),
        "rules": RULES,
    }
    hashes: dict[str, object] = {part: _hash_value(value) for part, value in parts.items()}
    hashes[_EVENTS] = hash_event_rules(config) if config.input == "changes" else None
    return json.dumps(hashes)


def hash_query_reading(model: Model, upstreams: Upstreams) -> str:
    """A hash that changes whenever Spark or our parser could read a query, or a view behind it, in another way."""
    views, settings = sorted(upstreams.views.items()), sorted(upstreams.settings.items())
    return _hash_value((sqlglot.__version__, WRITTEN_VERSION, str(model.table), model.sql, views, settings))


def describe_fingerprint_change(then: str | None, now: str) -> str:
    """Names the parts of a fingerprint that differ from an earlier one, in a line for people; empty if none is."""
    if then == now:
        return ""
    before, after = _read_part_hashes(then), _read_part_hashes(now)
    changed = [part for part in after if before.get(part) != after[part]]
    return "; ".join(_CHANGED[part] for part in changed if before or part == "rules")


def find_changed_event_rules(then: str | None, model: Model) -> tuple[str, ...]:
    """The keys by which rows follow from events and whose value was another one; none if that is not known."""
    parts = _read_part_hashes(then)
    if _EVENTS not in parts:
        return ()
    known = parts[_EVENTS]
    return ("input",) if known is None else find_changed_rules(model.config, known)


def select_effective_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of SQL that may change what a query gives."""
    return {
        key: value
        for key, value in settings.items()
        if key.startswith("spark.sql.") and not key.startswith(_WITHOUT_EFFECT)
    }


def hash_session(version: str, settings: Mapping[str, str]) -> str:
    """Changes with the settings that a session really has, a server's own among them, and with Spark's version."""
    return _hash_value((version, sorted(select_effective_settings(settings).items())))


def _read_part_hashes(text: str | None) -> dict[str, Any]:
    """The hashes of a fingerprint; none of one that version 1 of the rules made."""
    return dict(json.loads(text)) if text is not None and text.startswith("{") else {}


def _hash_value(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
