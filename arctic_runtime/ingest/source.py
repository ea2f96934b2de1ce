"""Reads a source of change data and its tables from the `meta.arctic.ingest` of a dbt source."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

import yaml

from arctic_runtime.errors import ConfigError, SourceError, suggest_nearest
from arctic_runtime.ingest.database_kinds import DATABASE_KINDS
from arctic_runtime.model.columns import list_reserved
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import MAX_VERSIONS, Merge, Model, OnSchemaChange
from arctic_runtime.plan.config.config_readers import get_reader, read_names, read_plain, read_renamed, read_text
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.plan.config.value_reader import (
    Schema,
    Setting,
    ValueReader,
    accept,
    describe_settings,
)
from arctic_runtime.profile import is_secret, mask_secrets

SchemaChanges = Literal["safe", "evolve", "freeze"]

DEAD_LETTERS = "__dead_letters"
_POLICIES: Mapping[SchemaChanges, OnSchemaChange] = {
    "safe": "append_new_columns",
    "evolve": "sync_all_columns",
    "freeze": "fail",
}

TABLE_KEYS = (
    "primary_key",
    "partition_by",
    "sort_key",
    "hash_key",
    "merge",
    "nodes",
    "target_file_bytes",
    "node_bytes",
    "compaction",
    "retention",
    "tblproperties",
)
"""Configuration keys of models that a table of a source can have."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_PATTERN: Schema = {"type": "string", "pattern": r"\."}
_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class IngestedTable:
    """A table of a source, and the arctic table to which it is ingested (`table`).

    `source_name` is its name in the source, with its schema if the source has schemas. `settings` are configuration
    keys of the arctic table. `columns` are the names in the source of the columns that the user declares, with types in
    the syntax of the event format. If `reports_key`, the source reports primary keys, as databases do: a table for
    which it reports none has no primary key.
    """

    name: str
    source_name: str
    table: TableName
    settings: Mapping[str, Any]
    columns: Mapping[str, str] = field(default_factory=dict)
    schema_changes: SchemaChanges = "safe"
    reports_key: bool = False
    masks: Mapping[str, bool] = field(default_factory=dict)
    """Masks of columns, as in `Model.masks`."""

    renames: Mapping[str, str] = field(default_factory=dict)
    """Names of columns in the arctic table, by their names in the source; columns with one name in both are absent."""

    @property
    def key(self) -> tuple[str, ...]:
        """The primary key that the user configured; empty if the source's key is used, or if there is to be no key."""
        written = self.settings.get("primary_key")
        return () if written is None else read_names("primary_key", written)

    @property
    def key_in_source(self) -> tuple[str, ...]:
        """The configured primary key, with the names that its columns have in the source."""
        names = {new: old for old, new in self.renames.items()}
        return tuple(names.get(name, name) for name in self.key)

    def choose_key(self, source_key: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the primary key of the arctic table; () if it has none, so that each event appends a row.

        The key is `source_key`, the primary key in the source, unless the user configured one. Raises ConfigError if it
        is not known whether the table has a key: the user configured none, and the source reports no keys.
        """
        key = self.key if "primary_key" in self.settings else source_key
        if not key and not self.reports_key and "primary_key" not in self.settings:
            raise ConfigError(
                f"{self.table}: the primary key of {self.source_name} is not known, and it identifies rows.",
                fix=(
                    "name columns that make a row unique in `primary_key` below `meta.arctic` of the table; "
                    "`primary_key: null` says that there are none, and appends a row for every event"
                ),
            )
        return key

    def to_model(self, key: tuple[str, ...]) -> Model:
        """Converts the table to a model with the primary key `key`; raises ConfigError for wrong settings."""
        settings = {"retention": RETENTION, **self.settings}
        merge = {"merge": "on_read", **settings} if key else {**settings, "merge": "on_write"}
        config = read_configuration(
            {**merge, "primary_key": list(key), "input": "changes"}, f"source table {self.name}"
        )
        policy = _POLICIES[self.schema_changes]
        return Model(
            self.table,
            "",
            replace(config, on_schema_change=policy),
            masks=self.masks,
            ingested_from=self.source_name,
        )


RETENTION = {"versions": "2h", "retain_last": 200, "max_versions": MAX_VERSIONS}
"""Default retention of an ingested table's versions; short, since one commit per second makes very many of them."""


class IngestionEnded(SourceError):
    """Raised if ingestion of a source, or a part of it, has ended without being stopped."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            fix="nothing in a service, which begins again by itself after the last commit; else `arctic ingest` again",
        )


class TablesWait(SourceError):
    """Raised if tables of a source have to be loaded again by a user; all other tables are up to date."""


@dataclass(frozen=True)
class IngestSource:
    """A source that is ingested; `connection` has the settings that only its connector reads, including secrets.

    `trigger_seconds` is the shortest time between the begins of two batches. `max_dead_letters` is the largest number
    of dead letters with which ingestion continues; None for any number. `table_schema` is the schema, in the source, of
    tables that are named without one; None if the source has no schemas. `include` are patterns of names, with schema,
    of tables that are ingested without being declared in the dbt source.
    """

    name: str
    connector: str
    connection: Mapping[str, Any] = field(repr=False)
    tables: tuple[IngestedTable, ...]
    dead_letter_table: TableName
    trigger_seconds: float = 1.0
    max_dead_letters: int | None = 0
    table_schema: str | None = None
    include: tuple[str, ...] = ()
    schema_changes: SchemaChanges = "safe"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the source as its `meta.arctic.ingest` has them, including secrets and default values."""
        known = {
            "connector": self.connector,
            **self.connection,
            "trigger": f"{self.trigger_seconds:g}s",
            "dead_letters": "any" if self.max_dead_letters is None else self.max_dead_letters,
            "schema_changes": self.schema_changes,
            "table_schema": self.table_schema,
            "include": list(self.include),
        }
        return {key: value for key, value in known.items() if value not in (None, [])}

    @property
    def chosen_settings(self) -> dict[str, Any]:
        """The settings of the source without those that have their default values."""
        table_schema = read_default_schema(self.connector, self.connection)
        defaults = {"trigger": "1s", "dead_letters": 0, "schema_changes": "safe", "table_schema": table_schema}
        return {key: value for key, value in self.settings.items() if key not in defaults or value != defaults[key]}

    def describe_settings(self) -> dict[str, Any]:
        """Returns the settings of the source, without those of its tables, as JSON values with secrets masked."""
        return {key: _mask_setting(key, value) for key, value in self.settings.items()}

    def list_secrets(self, environment: Mapping[str, str]) -> list[str]:
        """Lists the passwords and other secrets of the connection, also those that `environment` has."""
        return list(filter(None, _find_secrets(self.connection, environment)))

    def list_included_tables(self, names: Iterable[str]) -> tuple[IngestedTable, ...]:
        """Returns those of the tables `names` that match `include` and are not declared in the dbt source.

        `names` are names in the source, with schema; the arctic table has the same name without the schema. Raises
        ConfigError if two arctic tables would have the same name.
        """
        taken = {self.dead_letter_table.name.casefold(): "the source's dead letters"}
        schema = self.dead_letter_table.schema
        taken |= {table.table.name.casefold(): table.source_name for table in self.tables}
        declared = {table.source_name for table in self.tables}
        tables = []
        for full in sorted({*names} - declared):
            if not any(fnmatchcase(full, pattern) for pattern in self.include):
                continue
            name = self._strip_schema(full)
            other = taken.setdefault(name.casefold(), full)
            if other != full:
                raise ConfigError(
                    f"source {self.name}: {other} and {full} would both be the table {schema}.{name}.",
                    fix=f"declare {full} with another name and `source_table: {full}`, or narrow `include`",
                )
            declared_as = DeclaredTable(
                name, name, self.dead_letter_table.schema, self.dead_letter_table.catalog, {"source_table": full}, ()
            )
            tables.append(_read_table(declared_as, self.schema_changes, None, self.connector in DATABASE_KINDS, []))
        return tuple(tables)

    def _strip_schema(self, full: str) -> str:
        """Returns a table's name without its schema; after the schema, all dots belong to the name."""
        own = f"{self.table_schema}."
        return full.removeprefix(own) if full.startswith(own) else full.partition(".")[2]


def _find_secrets(settings: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[str]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _find_secrets(value, environment)
        elif value is not None and is_secret(str(key)):
            is_variable = str(key).endswith("_env")
            yield environment.get(str(value), "") if is_variable else str(value)


def _mask_setting(key: str, value: Any) -> Any:
    """Returns a value of YAML as a JSON value, with secrets masked.

    The value of a `key` that ends in `_env` is the name of a variable, which is no secret.
    """
    if isinstance(value, Mapping):
        return {str(name): _mask_setting(str(name), own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [_mask_setting(key, own) for own in value]
    text = value if isinstance(value, bool | int | float) or value is None else str(value)
    if key.endswith("_env"):
        return text
    return next(iter(mask_secrets({key: str(text)}).values())) if is_secret(key) or isinstance(text, str) else text


def read_table_schema(ingest: Mapping[str, Any]) -> str | None:
    """Returns the schema, in the source, of tables that are named without one; None if the source has no schemas.

    This is the `table_schema` of a `meta.arctic.ingest`, or the default of its connector.
    """
    return ingest.get("table_schema") or read_default_schema(str(ingest.get("connector")), ingest)


def read_default_schema(connector: str, connection: Mapping[str, Any]) -> str | None:
    """Returns the database schema of tables that are named without one; None for sources that are not databases.

    `connection` has the connection settings; for MySQL and MariaDB the schema is their `database`.
    """
    kind, database = DATABASE_KINDS.get(connector), connection.get("database")
    return None if kind is None else kind.find_default_schema(None if database is None else str(database))


@dataclass(frozen=True)
class DeclaredTable:
    """A table of a dbt source as declared in YAML, independent of the class in which dbt represents it.

    `meta` is the table's `meta.arctic`, and `columns` are names and types of its columns that have a type.
    """

    name: str
    identifier: str
    schema: str
    catalog: str
    meta: Mapping[str, Any]
    columns: tuple[tuple[str, str], ...]
    masks: Mapping[str, bool] = field(default_factory=dict)
    """Masks of columns, as in `Model.masks`."""

    def name_in_source(self, schema: str | None) -> str:
        """Returns the table's name in the source; `schema` is put before a name without a schema."""
        written = self.meta.get("source_table")
        name = self.identifier if written is None else str(written)
        return name if "." in name or schema is None else f"{schema}.{name}"


@dataclass(frozen=True)
class SourceOrigin:
    """The origin of an ingested table: its name in the source, and the name of the source's dead letter table."""

    dead_letters: TableName
    source_name: str


def read_source(name: str, ingest: Mapping[str, Any], tables: Collection[DeclaredTable]) -> IngestSource:
    """Reads a source from its `meta.arctic.ingest` and its tables; raises ConfigError that lists all errors."""
    wrong: list[str] = []
    known = dict(ingest)
    connector = known.pop("connector", None)
    if not isinstance(connector, str):
        wrong.append(f"`connector` is missing: {', '.join(DATABASE_KINDS)}, kafka or files")
        connector = ""
    values: dict[str, Any] = {}
    for setting in INGEST_SETTINGS:
        key = setting.name
        try:
            values[key] = setting.read(key, known.pop(key)) if key in known else setting.unset
        except ConfigError as error:
            wrong.append(str(error))
    policy = values.pop("schema_changes", "safe")
    schema = values.get("table_schema") or read_default_schema(str(connector), known)
    reports_key = connector in DATABASE_KINDS
    read_tables = [_read_table(table, policy, schema, reports_key, wrong) for table in tables]
    if not read_tables:
        wrong.append("it has no tables")
    if wrong:
        raise ConfigError(
            f"source {name}: its `meta.arctic.ingest` can't be used.\n" + "\n".join(f"  - {text}" for text in wrong)
        )
    dead_letters = name_dead_letter_table(name, tables)
    return IngestSource(
        name,
        str(connector),
        {key: value for key, value in known.items() if value is not None},
        tuple(read_tables),
        dead_letters,
        values["trigger"],
        values["dead_letters"],
        schema,
        values["include"],
        policy,
    )


def name_dead_letter_table(name: str, tables: Collection[DeclaredTable]) -> TableName:
    """Returns the name of the dead letter table of the source `name`, in the schema of its first table."""
    first = next(iter(tables))
    return TableName(first.catalog, first.schema, f"{name}{DEAD_LETTERS}")


def _read_table(
    declared: DeclaredTable, policy: SchemaChanges, schema: str | None, reports_key: bool, wrong: list[str]
) -> IngestedTable:
    meta = dict(declared.meta)
    full = declared.name_in_source(schema)
    named, chosen = meta.pop("source_table", None), policy
    try:
        if named is not None:
            read_plain("source_table", named)
        if "schema_changes" in meta:
            chosen = _read_policy("schema_changes", meta.pop("schema_changes"))
    except ConfigError as error:
        wrong.append(f"table {declared.name}: {error}")
    renames = _read_renames(declared, meta.pop("columns", {}), wrong)
    for key in meta:
        if key not in TABLE_KEYS:
            nearest = suggest_nearest(key, (*TABLE_KEYS, "columns"))
            wrong.append(f"table {declared.name}: unknown key `{key}`{nearest}")
    if not reports_key:
        has_key = "primary_key" not in meta or bool(meta["primary_key"])
        _check_declared_names(declared, has_key, wrong)
    old_names = {new: old for old, new in renames.items()}
    columns = {old_names.get(name, name): kind for name, kind in declared.columns}
    table = TableName(declared.catalog, declared.schema, declared.identifier)
    return IngestedTable(declared.name, full, table, meta, columns, chosen, reports_key, declared.masks, renames)


def _read_renames(declared: DeclaredTable, written: Any, wrong: list[str]) -> Mapping[str, str]:
    """Reads the setting `columns` of a table: the names of columns in the arctic table, by their names in the source.

    Adds to `wrong` what can't be used, and returns no names then.
    """
    place = f"table {declared.name}: `columns`"
    if not isinstance(written, Mapping) or not all(
        isinstance(name, str) and name for pair in written.items() for name in pair
    ):
        wrong.append(f"{place} must map names of columns in the source to their names in the table; found {written!r}")
        return {}
    names = [name.lower() for name in written.values()]
    faults = [f"{name} is the name of several columns" for name in written.values() if names.count(name.lower()) > 1]
    faults += [f"{name} is a reserved name" for name in list_reserved(written.values(), has_change_table=True)]
    faults += [
        f"{name} is declared with a type under its name in the source; declare it as {written[name]}"
        for name, _ in declared.columns
        if name in written and name not in written.values()
    ]
    wrong += [f"{place}: {fault}" for fault in dict.fromkeys(faults)]
    return {} if faults else {old: new for old, new in written.items() if old != new}


def _check_declared_names(declared: DeclaredTable, has_key: bool, wrong: list[str]) -> None:
    """Adds to `wrong` the declared columns with reserved names; `has_key` is whether the table has a primary key."""
    for name in list_reserved((name for name, _ in declared.columns), has_change_table=has_key):
        new = f"{name.strip('_')}_"
        wrong.append(
            f"table {declared.name}: the column name {name} is reserved; declare the column as {new}, and set "
            f"{format_renames({name: new})}"
        )


def format_renames(renames: Mapping[str, str]) -> str:
    """Formats the setting by which columns get other names in the table, as YAML on one line, and its place."""
    names = yaml.safe_dump(dict(renames), default_flow_style=True, width=10**6, allow_unicode=True, sort_keys=False)
    return f"`columns: {names.strip()}` below `meta.arctic` of the table"


@accept({"enum": list(get_args(SchemaChanges))})
def _read_policy(key: str, value: Any) -> SchemaChanges:
    policies = get_args(SchemaChanges)
    if value not in policies:
        raise ConfigError(
            f"`{key}: {value}` is unknown{suggest_nearest(str(value), policies)}; expected {', '.join(policies)}"
        )
    policy: SchemaChanges = value
    return policy


@accept(
    {
        "anyOf": [
            {"type": "number", "minimum": 0},
            {"type": "string", "pattern": r"^\s*[0-9]+(?:\.[0-9]+)?\s*(?:ms|s|m|h)?\s*$", "examples": ["1s", "500ms"]},
        ]
    }
)
def _read_seconds(key: str, value: Any) -> float:
    match = _DURATION.fullmatch(str(value).strip())
    if match is None:
        raise ConfigError(f"`{key}: {value}` is no duration; expected a number with ms, s, m or h, such as 1s")
    return float(match[1]) * _SECONDS[match[2]]


@accept({"anyOf": [{"enum": ["any", None]}, {"type": "integer", "minimum": 0}]})
def _read_most(key: str, value: Any) -> int | None:
    if value in ("any", None):
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(
            f"`{key}: {value}` must be how many dead letters may be kept before ingestion stops: a number, or any"
        )
    most: int = value
    return most


@accept({"anyOf": [_PATTERN, {"type": "array", "minItems": 1, "items": _PATTERN}]})
def _read_patterns(key: str, value: Any) -> tuple[str, ...]:
    patterns = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else ()
    if not patterns or not all(isinstance(pattern, str) and "." in pattern for pattern in patterns):
        raise ConfigError(f"`{key}: {value}` must be a list of tables with their schema, such as [public.*]")
    return patterns


CONNECTOR = Setting("connector", read_text, "the kind of the source, with keys of its own below", "required")

INGEST_SETTINGS = (
    Setting("trigger", _read_seconds, "the shortest time between two batches", "`1s`", unset=1.0),
    Setting(
        "schema_changes",
        _read_policy,
        (
            "`safe`: columns are added and widened. `evolve`: columns that the source drops or renames are dropped or "
            "renamed too. `freeze`: any difference is an error. See [below](#columns-that-change)"
        ),
        "`safe`",
        unset="safe",
    ),
    Setting(
        "dead_letters",
        _read_most,
        "how many events that can't be applied are kept before ingestion stops; `any` for no limit",
        "`0`",
        unset=0,
    ),
    Setting(
        "include",
        _read_patterns,
        (
            "tables of a database that are ingested without being declared: a list of patterns of names with their "
            "schema, such as `[public.*, sales.order_*]`"
        ),
        "none",
        unset=(),
    ),
    Setting(
        "table_schema",
        read_text,
        "the schema of tables whose name has none",
        "PostgreSQL: `public`; MySQL, MariaDB: the database",
    ),
)
"""Keys of `meta.arctic.ingest` that all connectors have, besides CONNECTOR."""

TABLE_SETTINGS = (
    Setting("source_table", read_plain, "its name in the source", "the table's identifier"),
    Setting(
        "primary_key",
        ValueReader(read_names, {"anyOf": [read_names.schema, {"type": "null"}]}),
        ("columns that make a row unique; `null` for a table [without a primary key](#tables-without-a-primary-key)"),
        "the source's",
    ),
    Setting("merge", get_reader(Merge), "as for [models](configuration.md)", "`on_read`"),
    Setting("schema_changes", _read_policy, "as above, for one table", "the source's"),
    Setting("columns", read_renamed, "[other names](#names-of-columns) for columns: `{_ts: ts_}`", "none"),
)
"""Keys of a table's `meta.arctic` that models do not have, or with another meaning."""


def describe_ingest_settings() -> str:
    """Formats the first table of docs/ingestion.md."""
    return describe_settings("key of `ingest`", (CONNECTOR, *INGEST_SETTINGS))


def describe_table_settings() -> str:
    """Formats the table of docs/ingestion.md with the keys of a table."""
    return describe_settings("key of a table's `meta.arctic`", TABLE_SETTINGS)
