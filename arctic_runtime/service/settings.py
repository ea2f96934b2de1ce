"""Settings of a service, read from the key `serve` of a target."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import time
from typing import TYPE_CHECKING, Any

from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.operations.arguments import read_count
from arctic_runtime.plan.config.config_readers import read_size
from arctic_runtime.plan.config.value_reader import (
    Setting,
    ValueReader,
    describe_settings,
    keep_value,
)
from arctic_runtime.plan.maintenance.upkeep import Hours, UpkeepBudget
from arctic_runtime.profile import mask_text
from arctic_runtime.service.agents.settings import AGENT_SETTINGS, AgentSettings, read_agent_settings

if TYPE_CHECKING:
    from arctic_runtime.service.http_settings import HttpSettings

KEYS = ("schema", "http", "upkeep", "agents")
_UNKNOWN = ("unexpected_keyword_argument", "invalid_key")
_KINDS = {"string": "text", "int": "a whole number", "float": "a number", "tuple": "a list", "dataclass": "a mapping"}
"""The first word of pydantic's kinds of errors, and the type that is expected."""

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY, _TIME = "[A-Za-z]{3}", "[0-9]{1,2}:[0-9]{2}"
_HOURS = re.compile(
    r"(?:(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))?\s+)?(?P<begin>\d\d?:\d\d)\s*-\s*(?P<end>\d\d?:\d\d)", re.IGNORECASE
)

_BYTES_OR_NULL = {"anyOf": [read_size.schema, {"type": "null"}]}
_HOURS_TEXT = {"type": "string", "pattern": rf"^\s*(?:{_DAY}(?:-{_DAY})?\s+)?{_TIME}\s*-\s*{_TIME}\s*$"}
UPKEEP_SETTINGS = (
    Setting(
        "jobs",
        ValueReader(read_count, {"type": "integer", "minimum": 1}),
        "jobs of upkeep that run at the same time",
        "1",
    ),
    Setting(
        "bytes_per_minute",
        ValueReader(read_size, _BYTES_OR_NULL),
        (
            "how much upkeep may write. Unused bytes are kept for ten minutes. A larger job begins when ten minutes' "
            "worth is unused, and the next one waits longer"
        ),
        "no limit",
    ),
    Setting(
        "quiet_hours",
        keep_value({"anyOf": [_HOURS_TEXT, {"type": "array", "items": _HOURS_TEXT}, {"type": "null"}]}),
        ("hours of the service's own clock in which no upkeep begins, such as `22:00-06:00` or `mon-fri 08:00-18:00`"),
        "none",
    ),
    Setting(
        "groups",
        keep_value({"type": ["object", "null"], "additionalProperties": read_size.schema}),
        "bytes a minute for the tables of a schema; they count in the whole as well",
        "none",
    ),
)
"""Keys of `serve.upkeep`."""


@dataclass(frozen=True)
class ServeSettings:
    """Settings under the key `serve`: the budget of upkeep, those for agents, and the unchecked `http`.

    `read_http` checks the latter. `schema` is that of the service's own table; empty for the schema of the target.
    """

    budget: UpkeepBudget = field(default_factory=UpkeepBudget)
    http: Mapping[str, Any] = field(default_factory=dict, repr=False)
    agents: AgentSettings = field(default_factory=AgentSettings)
    schema: str = ""


def read_settings(written: Mapping[str, Any]) -> ServeSettings:
    """Reads the settings of a service; raises ConfigError for unknown keys and invalid values."""
    _refuse_unknown("serve", written, KEYS)
    http = _get_or(written, "http", {})
    if not isinstance(http, Mapping):
        raise ConfigError(f"`serve.http` must be a mapping; found {mask_text(repr(http))}")
    agents = read_agent_settings(_get_or(written, "agents", {}))
    schema = written.get("schema")
    if schema is not None and not (isinstance(schema, str) and schema.strip()):
        raise ConfigError(f"`serve.schema` must be the name of a schema; found {schema!r}")
    return ServeSettings(read_budget(_get_or(written, "upkeep", {})), http, agents, schema or "")


def _get_or(written: Mapping[str, Any], key: str, default: Any) -> Any:
    """Returns the value of a key, or `default` if it is missing or null; `false` and empty texts are values."""
    value = written.get(key)
    return default if value is None else value


def read_http(written: Mapping[str, Any]) -> HttpSettings:
    """Reads the settings of the HTTP server; raises ConfigError for unknown keys and invalid values."""
    from pydantic import TypeAdapter, ValidationError

    from arctic_runtime.service.http_settings import HttpSettings

    try:
        return TypeAdapter(HttpSettings).validate_python(dict(written))
    except ValidationError as error:
        errors = [(part["type"], *_locate_error(part["type"], part["loc"]), part["input"]) for part in error.errors()]
    raise _explain_errors(errors)


def _locate_error(kind: str, location: Sequence[int | str]) -> tuple[str, str]:
    """Returns the mapping in which an error is, as `serve.http.users`, and the key in it; indexes are left out."""
    *outer, last = location
    names = [name for name in outer if isinstance(name, str)]
    if isinstance(last, str) or kind in _UNKNOWN:
        names.append(str(last))
    return ".".join(["serve.http", *names[:-1]]), names[-1]


def _explain_errors(errors: Sequence[tuple[str, str, str, Any]]) -> ConfigError:
    """Explains the first error of pydantic, of unknown keys before others; it shows no value, which may be a secret."""
    from arctic_runtime.service.http_settings import RECORDS

    kind, place, key, value = next((error for error in errors if error[0] in _UNKNOWN), errors[0])
    if kind in _UNKNOWN:
        return _build_unknown_error(place, key, tuple(part.name for part in fields(RECORDS[place])))
    if kind == "missing":
        missing = [name for other, owner, name, _ in errors if (other, owner) == (kind, place)]
        return ConfigError(f"`{place}` needs {', '.join(missing)}")
    return ConfigError(f"`{place}.{key}` must be {_KINDS[kind.split('_')[0]]}; found a {type(value).__name__}")


def describe_http() -> dict[str, Any]:
    """Returns the JSON schema of `serve.http`; its `$defs` have those of the mappings in it."""
    from pydantic import TypeAdapter

    from arctic_runtime.service.http_settings import HttpSettings

    return TypeAdapter(HttpSettings).json_schema()


def read_budget(written: Any) -> UpkeepBudget:
    """Reads the budget of upkeep, `serve.upkeep`; raises ConfigError for unknown keys and invalid values."""
    if not isinstance(written, Mapping):
        raise ConfigError(f"`serve.upkeep` must be a mapping; found {written!r}")
    _refuse_unknown("serve.upkeep", written, tuple(setting.name for setting in UPKEEP_SETTINGS))
    jobs = read_count("serve.upkeep.jobs", written.get("jobs", 1))
    if jobs < 1:
        raise ConfigError(f"`serve.upkeep.jobs` must be 1 or more; found {jobs}")
    most = written.get("bytes_per_minute")
    groups = _get_or(written, "groups", {})
    if not isinstance(groups, Mapping):
        raise ConfigError(f"`serve.upkeep.groups` must be a mapping of schemas to bytes a minute; found {groups!r}")
    return UpkeepBudget(
        jobs,
        None if most is None else read_size("serve.upkeep.bytes_per_minute", most),
        tuple(_read_hours(text) for text in _to_list(_get_or(written, "quiet_hours", ()))),
        {str(schema): read_size(f"serve.upkeep.groups.{schema}", size) for schema, size in groups.items()},
    )


def _to_list(value: Any) -> list[Any]:
    if not isinstance(value, str | list | tuple):
        raise ConfigError(f"`serve.upkeep.quiet_hours` must be a text or a list of texts; found {value!r}")
    return [value] if isinstance(value, str) else list(value)


def _read_hours(text: Any) -> Hours:
    """Parses quiet hours such as `08:00-18:00` or `mon-fri 22:00-06:00`."""
    match = _HOURS.fullmatch(str(text).strip())
    try:
        if match is None:
            raise ValueError
        first, last = match["first"], match["last"] or match["first"]
        days = frozenset(range(7)) if first is None else _list_days(first, last)
        return Hours(_parse_time(match["begin"]), _parse_time(match["end"]), days)
    except ValueError:
        raise ConfigError(
            f"`serve.upkeep.quiet_hours`: {text!r} can't be read.",
            expected="hours of the service's own clock, such as 08:00-18:00 or mon-fri 22:00-06:00",
            fix="leave `quiet_hours` out if upkeep may begin at any time",
        ) from None


def _list_days(first: str, last: str) -> frozenset[int]:
    begin, end = _DAYS.index(first.lower()), _DAYS.index(last.lower())
    return frozenset((begin + offset) % 7 for offset in range((end - begin) % 7 + 1))


def _parse_time(text: str) -> time:
    hour, minute = map(int, text.split(":"))
    return time(0) if (hour, minute) == (24, 0) else time(hour, minute)


def describe_upkeep_settings() -> str:
    """Formats the table of docs/service.md with the keys of `upkeep`."""
    return describe_settings("key of `upkeep`", UPKEEP_SETTINGS)


def describe_agent_settings() -> str:
    """Formats the table of docs/agents.md with the keys of `agents`."""
    return describe_settings("key of `agents`", AGENT_SETTINGS)


def describe_http_settings() -> str:
    """Formats the table of docs/service.md with the keys of `http`."""
    rows = (
        f"| `{name}` | {_format_default(part['default'])} | {part['description']} |"
        for name, part in describe_http()["properties"].items()
    )
    return "\n".join(["| key of `http` | default | meaning |\n|---|---|---|", *rows])


def _format_default(value: Any) -> str:
    return "none" if value in (None, "", []) else f"`{value}`"


def _refuse_unknown(where: str, written: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in written:
        if key not in known:
            raise _build_unknown_error(where, str(key), known)


def _build_unknown_error(where: str, key: str, known: tuple[str, ...]) -> ConfigError:
    return ConfigError(f"`{where}` has no key `{key}`{suggest_nearest(key, known)}; known are {', '.join(known)}")
