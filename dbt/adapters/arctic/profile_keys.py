"""Keys of a target of type `arctic` in profiles.yml, with their values and meaning; loads nothing of dbt."""

from __future__ import annotations

from typing import Final

from arctic_runtime.catalog_kinds.registry import CATALOG_KINDS
from arctic_runtime.plan.config.config_readers import get_reader, read_flag
from arctic_runtime.plan.config.maintenance_settings import CLONE_TTL_SCHEMA
from arctic_runtime.plan.config.value_reader import (
    PLAIN,
    PLAIN_VALUES,
    TEXT,
    Schema,
    Setting,
    describe_settings,
    keep_value,
)
from arctic_runtime.profile import Method
from arctic_runtime.spark.engine.warm_server import KEEP_ALIVE_SCHEMA

PUBLISH: Final = ("model", "build")
TARGET_TYPE_PATTERN: Final = "[a-z][a-z0-9_]*"

_CATALOG: Final[Schema] = {**PLAIN_VALUES, "properties": {"type": {"enum": list(CATALOG_KINDS)}}}
_SPARK: Final[Schema] = {"type": "object", "propertyNames": {"pattern": r"^spark\."}, "additionalProperties": PLAIN}

_OPTIONAL_TEXT: Final[Schema] = {**TEXT, "type": ["string", "null"]}
_NULL: Final[Schema] = {"type": "null"}

DATABASE: Final = Setting(
    "database", keep_value({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}), "another name of `catalog`"
)
SETTINGS: Final = (
    Setting("type", keep_value({"const": "arctic"}), "`arctic`"),
    Setting("schema", keep_value(TEXT), "the schema that models are built in", "required"),
    Setting(
        "catalog",
        DATABASE.read,
        ("the catalog's name, which is dbt's `database` (the key `database` works too). Letters, digits, underscores"),
        "`lake`",
    ),
    Setting(
        "warehouse",
        keep_value(_OPTIONAL_TEXT),
        (
            "a folder of this machine, relative to the project's folder or as `file:///…`, with an embedded catalog on "
            "SQLite in its `catalog.db`. Or an address in an [object store](stores.md), as `s3://bucket/path`, with "
            "the embedded catalog in `.arctic` of the project's folder"
        ),
    ),
    Setting(
        "catalog_config",
        keep_value(_CATALOG),
        (
            "another catalog: Iceberg's own properties, `type`, `uri`, `warehouse` and so on. Beside a `warehouse` in "
            "an object store, only keys of [the store](stores.md#credentials); not beside a folder"
        ),
    ),
    Setting(
        "method",
        get_reader(Method),
        "`session`: Spark in the dbt process. `connect`: a Spark Connect server",
        "`session`",
    ),
    Setting(
        "url",
        keep_value({**_OPTIONAL_TEXT, "pattern": "^(?:local$|sc://.)"}),
        (
            "with `connect`: `sc://host:port`, with a token as `sc://host:port/;token=…`; or `local`, a [background "
            "server](cluster.md#a-background-server) on this machine"
        ),
    ),
    Setting(
        "master",
        keep_value(_OPTIONAL_TEXT),
        "with `session`, or `url: local`: any Spark master; `local[2]` uses two cores",
        "`local[*]`",
    ),
    Setting(
        "keep_alive",
        keep_value({"anyOf": [*KEEP_ALIVE_SCHEMA["anyOf"], _NULL]}),
        (
            "with `session` and a local master: how long Spark [stays warm](cluster.md#spark-that-stays-warm) after a "
            "command, as `30s`, `15m` or `2h`; `0` ends it with the command"
        ),
        "`15m` at a terminal, else `0`",
    ),
    Setting(
        "clone_ttl",
        keep_value({"anyOf": [*CLONE_TTL_SCHEMA["anyOf"], _NULL]}),
        (
            "how long a [clone](clones.md#files) of a model of this target stays without a run, as `12h`, `14d` or "
            "`2w`; `off` keeps all"
        ),
        "`14d`",
    ),
    Setting(
        "clone_from_state",
        read_flag,
        (
            "`true`: `dbt run --defer --state FOLDER` first makes arctic models without a table "
            "[clones](clones.md#in-a-run) of those of the state"
        ),
        "`false`",
    ),
    Setting(
        "promote_from_state",
        read_flag,
        (
            "`true`: a run with `--state FOLDER` [takes over](clones.md#promotion) what clones of this target's models "
            "in the environment of that folder have computed"
        ),
        "`false`",
    ),
    Setting(
        "publish",
        keep_value({"enum": list(PUBLISH)}),
        (
            "`build`: all models of a [build](builds.md) become visible together, after its tests; `model`: each after "
            "its own run"
        ),
        "`model`",
    ),
    Setting(
        "server_side_parameters",
        keep_value(_SPARK),
        (
            "further Spark settings, which override every default. `spark.sql.parser.escapedStringLiterals` and "
            "`spark.sql.caseSensitive` can't be set"
        ),
    ),
    Setting(
        "serve",
        keep_value({"$ref": "#/$defs/serve"}),
        (
            "how [`arctic serve`](service.md#settings) works: `schema`, `http`, `upkeep` and "
            "[`agents`](agents.md#settings)"
        ),
    ),
    Setting(
        "telemetry",
        keep_value({"$ref": "#/$defs/telemetry"}),
        "what commands write about their work, beside [what they send](telemetry.md): `metrics_file`",
    ),
    Setting(
        "target_type",
        keep_value({**_OPTIONAL_TEXT, "pattern": f"^{TARGET_TYPE_PATTERN}$"}),
        ("what [`target.type`](adopting.md#the-name-of-the-adapter) says in Jinja, for packages that compare it"),
        "`arctic`",
    ),
    Setting(
        "threads",
        keep_value({"type": "integer", "minimum": 1}),
        "the number of models that dbt builds at the same time, each in its own Spark session",
        "`1`",
    ),
)
"""All keys of a target, in the order of the documentation, without DATABASE."""

PROFILE_KEYS: Final = tuple(
    setting.name for setting in (DATABASE, *SETTINGS) if setting.name not in ("type", "threads")
)
"""Keys of a target besides those that dbt reads for all adapters."""


def describe_profile_keys() -> str:
    """Formats the table of docs/configuration.md with the keys of a target."""
    return describe_settings("key", SETTINGS)
