"""All names that arctic stores in tables: of table properties, entries of snapshot summaries, tags and branches.

The names are part of the format of tables, so their texts never change. A new name needs a constant here and an entry
of `STORED_NAMES`, from which docs/reference/stored-names.md is generated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Place = Literal[
    "property of the change table",
    "property of the base",
    "property of the view",
    "property of the aggregate state table",
    "property of a table of keys that are being forgotten",
    "summary of a run's commit to the change table",
    "summary of a run's commit to the aggregate state table",
    "summary of the commit of a changelog compaction",
    "summary of the last commit of a merge, a rewrite or a compaction of the base",
    "summary of a commit that rewrites a part of the base",
    "summary of a commit to a branch",
    "branch of the change table or the base",
    "tag of a table that was cloned",
    "branch of the base",
    "tag of the base",
    "property of the dead letter table",
    "summary of a commit to the dead letter table",
    "summary of a commit to the table of a service",
    "property of the table of a service",
    "property of a table without a key",
    "summary of a commit of events to a table without a key",
]
"""Kind of place in a table at which a name is stored."""

RUN: Final = "arctic.run"
MODE: Final = "arctic.mode"
REASON: Final = "arctic.reason"
OFFSETS: Final = "arctic.consumed"
QUERY: Final = "arctic.query"
SESSION: Final = "arctic.session"
HIGH_WATERMARK: Final = "arctic.high-mark"
NEWEST_VALID_TIME: Final = "arctic.newest-valid-time"
TRUNCATED: Final = "arctic.truncated"
RESTORED: Final = "arctic.restored"
RESTORED_CUT: Final = "arctic.restored-cut"
RESTATED_WHERE: Final = "arctic.restated-where"
FORWARD_EDIT: Final = "arctic.forward-edit"
PROMOTED: Final = "arctic.promoted"
RESUMED: Final = "arctic.resumed"
DECLARED: Final = "arctic.declared"
DECLARED_PARTS: Final = "arctic.declared-parts"
AGGREGATE_STATE: Final = "arctic.totals"
NO_AGGREGATE_STATE: Final = "arctic.no-totals"
GIVEN_UP: Final = "arctic.given-up"
JUDGED: Final = "arctic.judged"
DAY_TEXTS: Final = "arctic.day-texts"
CLOCK: Final = "arctic.clock"
STARTED: Final = "arctic.started"
ESTIMATED: Final = "arctic.estimated"
CHANGELOG: Final = "arctic.changelog"
REPAIRED: Final = "arctic.repaired"
FROZEN: Final = "arctic.frozen"
FROZEN_TOTAL: Final = "arctic.frozen-total"
POSITION: Final = "arctic.position"
POSITION_EVENTS: Final = "arctic.position-events"
LETTERS: Final = "arctic.dead-letters"
SOURCE_COLUMNS: Final = "arctic.source-columns"
SOURCE_TABLE: Final = "arctic.source-table"
SOURCE_TIME: Final = "arctic.source-time"
CAUGHT_UP: Final = "arctic.caught-up"
SHOWN_BEFORE: Final = "arctic.shown-before"
FAILURE: Final = "arctic.failure"
SOURCE_TABLES: Final = "arctic.source-tables"
LEFT_STREAM: Final = "arctic.left-stream"
WAITING_TABLES: Final = "arctic.waiting-tables"
LOADING_TABLES: Final = "arctic.loading-tables"
SOURCE_SETTINGS: Final = "arctic.source-settings"
RESYNC_PREFIX: Final = "arctic.resync."
LEASE: Final = "arctic.lease"
LEASE_UNTIL: Final = "arctic.lease-until"
PAUSED: Final = "arctic.paused"
RUN_AT_PREFIX: Final = "arctic.run-at."
READER_PREFIX: Final = "arctic.reader."
KEEP: Final = "arctic.keep"
CURRENT_VIEW: Final = "arctic.current-view"
CHANGES_VIEW: Final = "arctic.changes-view"

KIND: Final = "arctic.kind"
PRIMARY_KEY: Final = "arctic.primary-key"
MODEL_TABLE: Final = "arctic.table"
LAYOUT: Final = "arctic.layout"
COMPACTED_UNTIL: Final = "arctic.trimmed"
FORGOTTEN: Final = "arctic.forgotten"
FORGOTTEN_UNTIL: Final = "arctic.forgotten-until"
COMMIT_TIMES: Final = "arctic.ages"
QUERY_TEXT: Final = "arctic.query-text"
BASELINE: Final = "arctic.baseline"
CLONED_FROM: Final = "arctic.cloned-from"
USED_AT: Final = "arctic.used-at"
PASSED_TESTS: Final = "arctic.tests"
PINNED_BASE: Final = "arctic.base-snapshot"
PINNED_MERGED: Final = "arctic.merged-snapshot"
PINNED_HEAD: Final = "arctic.changes-snapshot"

MERGED: Final = "arctic.merged"
REFRESH_STATE: Final = "refresh-state"
REWRITTEN: Final = "arctic.renewed"
ATTEMPT: Final = "arctic.attempt"

BRANCH_PREFIX: Final = "arctic_"
BASE_REWRITE_PREFIX: Final = "arctic_renew_"
VIEW_TAG_PREFIX: Final = "arctic_view_"
BASELINE_TAG_PREFIX: Final = "arctic_baseline_"
CLONE_TAG_PREFIX: Final = "arctic_clone_"

CURRENT_VIEW_KIND: Final = "current"
CHANGES_VIEW_KIND: Final = "feed"
CLONE_KIND: Final = "clone"
APPENDED_KIND: Final = "appended"
FORGOTTEN_KEYS_KIND: Final = "forget"


@dataclass(frozen=True)
class StoredName:
    """A name that arctic stores in tables: its text, the kinds of places that store it, and the meaning of its value.

    `holds` is this meaning, for the documentation. A text that ends with an underscore or a dot is only a prefix, as
    for tags and branches.
    """

    text: str
    places: tuple[Place, ...]
    holds: str

    @property
    def is_prefix(self) -> bool:
        return self.text.endswith(("_", "."))


_OWN_TABLES: tuple[Place, ...] = (
    "property of the change table",
    "property of the base",
    "property of the view",
)
_RUN: tuple[Place, ...] = ("summary of a run's commit to the change table",)
_EVENTS: tuple[Place, ...] = (*_RUN, "summary of a commit of events to a table without a key")

STORED_NAMES: Final = (
    StoredName(
        KIND,
        (
            *_OWN_TABLES,
            "property of the aggregate state table",
            "property of a table without a key",
            "property of a table of keys that are being forgotten",
        ),
        "`changes`, `base`, `view`, `totals` for the aggregate state, `current` for a view of the current versions of "
        "a table with history, `feed` for a view of the change rows as a change data feed, "
        "`clone` for a view that `dbt clone` made, `forget` for a table of keys that are being forgotten, or "
        "`appended` for a table that events of a source without a primary key are appended to",
    ),
    StoredName(PRIMARY_KEY, _OWN_TABLES, "the columns of the primary key"),
    StoredName(MODEL_TABLE, ("property of the change table", "property of the view"), "the name of the model's table"),
    StoredName(
        CURRENT_VIEW,
        ("property of the change table",),
        "the name of the view of the current versions, written before the view is made; empty for none",
    ),
    StoredName(
        CHANGES_VIEW,
        ("property of the change table",),
        "the name of the view of the change rows, written before the view is made; empty for none",
    ),
    StoredName(
        LAYOUT,
        ("property of the base", "property of a table without a key"),
        "configuration that shapes the files of the base: partitions, hash key, sort key, number of buckets, "
        "table properties, format version",
    ),
    StoredName(
        COMPACTED_UNTIL,
        ("property of the change table", "summary of the commit of a changelog compaction"),
        "the commit up to which change rows may be gone, by sequence number, and the time of that commit",
    ),
    StoredName(
        COMMIT_TIMES,
        ("property of the change table",),
        "times of the commits whose snapshots have expired, by sequence number",
    ),
    StoredName(
        QUERY_TEXT,
        ("property of the change table",),
        "the query of the last run, the views that it read and the contract, as JSON; an [edited "
        "query](incremental.md#after-an-edit) is compared with it if they have the hashes of the run's fingerprint",
    ),
    StoredName(
        CLONED_FROM,
        (
            "property of the change table",
            "property of the base",
            "property of the aggregate state table",
            "property of a table without a key",
        ),
        "of a [clone](clones.md): the cloned model, the version of its change table, the time, who cloned "
        "it, the table with the copied snapshot, and the other names of the clone's upstreams",
    ),
    StoredName(
        USED_AT,
        ("property of the change table", "property of a table without a key"),
        "of a [clone](clones.md): the day of its last run without changes",
    ),
    StoredName(
        PASSED_TESTS,
        ("property of the change table",),
        "tests that passed in a [build](builds.md#tests-of-changed-rows): for a hash of each name, a hash of "
        "the definition, and the versions of the tables",
    ),
    StoredName(
        BASELINE,
        ("property of the change table",),
        "of an [adopted](adopting.md#adopt-tables-in-place) table: the table and snapshot with the rows from "
        "before the first change row, the time of that snapshot, the sequence number up to which it has the "
        "changes, and the partition spec and properties before the adoption",
    ),
    StoredName(
        READER_PREFIX,
        ("property of the change table", "property of a table without a key"),
        "followed by the name of a model of [another project](maintenance.md#two-projects-that-share-a-warehouse) that "
        "reads the table: the time, to a day, of its last run",
    ),
    StoredName(
        FORGOTTEN,
        ("property of the change table",),
        "the sequence number up to which `update` rows may repeat old values: they replaced forgotten rows",
    ),
    StoredName(
        FORGOTTEN_UNTIL,
        ("property of the change table",),
        f"the same sequence number as in `{COMPACTED_UNTIL}`, where only change rows of forgotten keys are gone",
    ),
    StoredName(
        REPAIRED,
        ("property of the change table", *_RUN),
        "as a property: the sequence number up to which rows may break promises that a `--full-refresh` found broken; "
        "in the summary: which promises these were",
    ),
    StoredName(
        FROZEN,
        _RUN,
        "number of changes of [frozen rows](frozen.md) that the run did not apply; `applied` if it computed these rows "
        "too",
    ),
    StoredName(
        FROZEN_TOTAL,
        _RUN,
        "the same number of all runs since one that computed frozen rows too; absent if the table has the rows of its "
        "query",
    ),
    StoredName(RUN, (*_EVENTS, "summary of a run's commit to the aggregate state table"), "the token of the run"),
    StoredName(MODE, _EVENTS, "what the run did: `create`, `incremental`, `full`, or `schema-only` for an empty table"),
    StoredName(REASON, _EVENTS, "why the run did that, as a [reason](incremental.md#reasons)"),
    StoredName(OFFSETS, _RUN, "the offsets: table UUID, snapshot and sequence number of each upstream"),
    StoredName(
        QUERY,
        _RUN,
        "the fingerprint of the query, one hash each for: the query and its views; key, contract and schema "
        "policy; renamed and retyped columns of upstreams; SQL settings; version of the rules; and each key "
        "of event rules, null for `input: state`",
    ),
    StoredName(
        SESSION,
        _RUN,
        "the minor version of the Spark that ran, and its SQL settings that may change results, without defaults",
    ),
    StoredName(HIGH_WATERMARK, _RUN, "the highest `sequence_by` value that was read; a timestamp is in UTC"),
    StoredName(
        NEWEST_VALID_TIME,
        _RUN,
        "the latest `valid_time` that a bitemporal table has read; a timestamp is in UTC",
    ),
    StoredName(
        TRUNCATED,
        _RUN,
        "the highest `sequence_by` value of an event that emptied the table; older events no longer apply; a timestamp "
        "is in UTC",
    ),
    StoredName(
        RESTORED,
        _RUN,
        "the version that a table of change events was restored to; its rows no longer follow from the events alone",
    ),
    StoredName(
        RESTORED_CUT,
        _RUN,
        "the [cut of a build](builds.md#cuts) that a table was restored to while its model had another query; runs "
        "wait for the query of the cut",
    ),
    StoredName(RESTATED_WHERE, _RUN, "the predicate of a restatement, which selects the rows that were computed anew"),
    StoredName(
        FORWARD_EDIT,
        _RUN,
        "the newest edit of the query that left [rows of earlier queries](incremental.md#an-edit-that-goes-forward): "
        "the version of the change table, after which keys with change rows have rows of the present query; the time; "
        "and the number of rows at that time. Absent for a table with rows of one query",
    ),
    StoredName(
        PROMOTED,
        _RUN,
        "the clone whose rows the commit [took over](clones.md#promotion), with the version of its change table",
    ),
    StoredName(
        RESUMED,
        ("property of the change table",),
        "the token of the restore to a cut after which runs no longer wait",
    ),
    StoredName(
        DECLARED,
        _RUN,
        "the place in the order of events as of which all rows were declared; only later events apply; a timestamp is "
        "in UTC",
    ),
    StoredName(DECLARED_PARTS, _RUN, "the same for the rows of single partitions, as JSON"),
    StoredName(
        AGGREGATE_STATE, _RUN, "the fingerprint of the plan of the aggregate state that the run kept; absent for none"
    ),
    StoredName(
        NO_AGGREGATE_STATE,
        _RUN,
        "the fingerprint of a plan of aggregate state that this run or an earlier one could not keep",
    ),
    StoredName(
        GIVEN_UP,
        _RUN,
        "why this run or an earlier one computed in full although it had planned to follow changes; later "
        "runs do not try again, unless a `-` after the reason marks it as temporary",
    ),
    StoredName(
        JUDGED,
        _RUN,
        "a fingerprint of the query, its views and the parser that Spark was asked about; without `arctic.given-up` "
        "Spark [reads them the same](incremental.md#the-text-that-spark-reads)",
    ),
    StoredName(
        DAY_TEXTS, _RUN, "which upstream has texts that the query reads [as of the day](incremental.md#functions)"
    ),
    StoredName(
        CLOCK,
        _RUN,
        "the time with which the query was computed, in microseconds, and the session's time zone; absent if "
        "the query does not [read the clock](incremental.md#windows-of-time)",
    ),
    StoredName(STARTED, _RUN, "the time at which the run began to compute"),
    StoredName(
        ESTIMATED,
        _RUN,
        "estimated seconds of the run; later estimates compare them with the time that it took",
    ),
    StoredName(
        POSITION,
        (*_EVENTS, "property of the dead letter table"),
        "the position in the source up to which the table, or every table of the source, has all events: a "
        "text of the transport",
    ),
    StoredName(
        POSITION_EVENTS,
        _EVENTS,
        "number of events after that position that the table has as well; absent for none",
    ),
    StoredName(
        SOURCE_TIME,
        (*_EVENTS, "property of the dead letter table"),
        "time at the source of the newest change in a commit, or of the newest change that all tables of the "
        "source have",
    ),
    StoredName(
        CAUGHT_UP,
        ("property of the dead letter table",),
        "the latest time at which the tables had everything that the source had",
    ),
    StoredName(
        SHOWN_BEFORE,
        _EVENTS,
        "the time as of which the table showed its source before this commit, and as of which models show it "
        "that have not read the commit",
    ),
    StoredName(
        FAILURE,
        ("property of the dead letter table",),
        "the error of the source's ingestion, and since when; empty after a batch that succeeded",
    ),
    StoredName(
        LETTERS,
        ("summary of a commit of events to a table without a key",),
        "the dead letters that the commit applied: the time when each was read, in microseconds, its row in "
        "its event or -1, and ranges of numbers",
    ),
    StoredName(
        SOURCE_COLUMNS,
        ("property of the change table", "property of a table without a key"),
        "columns of the newest events: for each name its number in the source, or null",
    ),
    StoredName(
        SOURCE_TABLE,
        ("property of the change table", "property of a table without a key"),
        "the number of the table in the PostgreSQL from which the newest events came",
    ),
    StoredName(
        SOURCE_TABLES,
        ("property of the dead letter table",),
        "names of the source's tables that its stream brings up to date, without those that are being loaded beside it",
    ),
    StoredName(
        LEFT_STREAM,
        ("property of the dead letter table",),
        "tables that have left the stream to be loaded anew: for each name the time as of which it shows the source",
    ),
    StoredName(
        WAITING_TABLES,
        ("property of the dead letter table",),
        "tables that have left the stream after a change that can't be followed: for each name the reason, "
        "and since when; each waits until somebody has it loaded anew",
    ),
    StoredName(
        LOADING_TABLES,
        ("property of the dead letter table",),
        "tables that are being loaded: for each name the number of loaded rows, the source's estimate of all "
        "rows, and the time as of which the table shows the source meanwhile",
    ),
    StoredName(
        SOURCE_SETTINGS,
        ("property of the dead letter table",),
        "the settings with which the source is ingested, without secrets",
    ),
    StoredName(
        RESYNC_PREFIX,
        ("property of the dead letter table",),
        "followed by the name of a table in the source: the time when somebody asked to have it loaded anew; "
        "empty once that has begun",
    ),
    StoredName(
        LEASE,
        ("property of the dead letter table", "summary of a commit to the table of a service"),
        "the process that ingests the source, or leads the service, as host, process id and a random part",
    ),
    StoredName(
        LEASE_UNTIL,
        ("property of the dead letter table", "summary of a commit to the table of a service"),
        "the time until which that process may be silent before another takes over; 0 if it has ended",
    ),
    StoredName(
        PAUSED,
        ("summary of a commit to the table of a service",),
        "work that the service leaves alone: everything, tables by name, and tables whose upkeep waits",
    ),
    StoredName(
        RUN_AT_PREFIX,
        ("property of the table of a service",),
        "followed by the name of a scheduled model: the time when its last run began",
    ),
    StoredName(
        KEEP,
        ("property of the change table",),
        "`all` where a commit may have several change rows of one key, in the order of `_seq`; otherwise absent",
    ),
    StoredName(CHANGELOG, _RUN, "`input` where the change rows do not hold the rows before; otherwise absent"),
    StoredName(
        MERGED,
        ("summary of the last commit of a merge, a rewrite or a compaction of the base",),
        "the version of the change table that the base contains",
    ),
    StoredName(
        REFRESH_STATE,
        (*_RUN, "summary of the last commit of a merge, a rewrite or a compaction of the base"),
        "the snapshots of the sources from which the rows were computed, as Iceberg's draft of materialized views has "
        "[them](readers.md#freshness)",
    ),
    StoredName(REWRITTEN, ("summary of a commit that rewrites a part of the base",), "the buckets that were written"),
    StoredName(PINNED_BASE, ("property of the view",), "the snapshot of the base that the view reads"),
    StoredName(
        PINNED_MERGED, ("property of the view",), "the snapshot of the change table that this base is merged to"
    ),
    StoredName(PINNED_HEAD, ("property of the view",), "the newest snapshot of the change table that the view reads"),
    StoredName(
        BRANCH_PREFIX,
        ("branch of the change table or the base",),
        "the commits of one attempt, until they are published; dropped afterwards",
    ),
    StoredName(
        BASE_REWRITE_PREFIX,
        ("branch of the base",),
        "the finished parts of a rewrite of the base; a later compaction goes on from them",
    ),
    StoredName(ATTEMPT, ("summary of a commit to a branch",), "the attempt that wrote the commit"),
    StoredName(VIEW_TAG_PREFIX, ("tag of the base",), "the snapshot that the view reads, which the tag keeps"),
    StoredName(BASELINE_TAG_PREFIX, ("tag of the base",), "the snapshot of the baseline, which the tag keeps"),
    StoredName(
        CLONE_TAG_PREFIX,
        ("tag of a table that was cloned",),
        "a snapshot that a [clone](clones.md) needs; the time of the clone, a number and the name of the clone follow",
    ),
)
"""All stored names, in the order in which the documentation lists them."""


def describe_stored_names() -> str:
    """Formats all stored names as Markdown for docs/reference/stored-names.md: a table for each set of places."""
    tables: dict[tuple[str, ...], list[str]] = {}
    for name in STORED_NAMES:
        tables.setdefault(name.places, []).append(f"| {_format_name(name)} | {name.holds} |")
    return "\n\n".join(_format_table(places, rows) for places, rows in tables.items())


def _format_table(places: tuple[str, ...], rows: list[str]) -> str:
    head = "; ".join(places)
    return "\n".join([f"{head[:1].upper()}{head[1:]}:", "", "| name | what it holds |", "|---|---|", *rows])


def _format_name(name: StoredName) -> str:
    return f"`{name.text}…`" if name.is_prefix else f"`{name.text}`"
