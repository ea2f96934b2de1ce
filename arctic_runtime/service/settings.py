"""Settings of a service, read from the key `serve` of a target in profiles.yml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import time
from typing import Any, TypeVar

from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.operations.arguments import read_count
from arctic_runtime.plan.config.config_readers import read_size
from arctic_runtime.plan.maintenance.upkeep import Hours, UpkeepBudget
from arctic_runtime.profile import mask_text
from arctic_runtime.service.http_settings import HttpSettings, HttpUser, OpenIdSettings

T = TypeVar("T")
KEYS = ("http", "upkeep")
UPKEEP_KEYS = ("jobs", "bytes_per_minute", "quiet_hours", "groups")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(
    r"(?:(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))?\s+)?(?P<begin>\d\d?:\d\d)\s*-\s*(?P<end>\d\d?:\d\d)", re.IGNORECASE
)


@dataclass(frozen=True)
class ServeSettings:
    """Settings under the key `serve`: the budget of upkeep, and the unchecked `http`, which `read_http` checks."""

    budget: UpkeepBudget = field(default_factory=UpkeepBudget)
    http: Mapping[str, Any] = field(default_factory=dict, repr=False)


def read_settings(written: Mapping[str, Any]) -> ServeSettings:
    """Reads the settings of a service; raises ConfigError for unknown keys and invalid values."""
    _refuse_unknown("serve", written, KEYS)
    http = written.get("http") or {}
    if not isinstance(http, Mapping):
        raise ConfigError(f"`serve.http` must be a mapping; found {mask_text(repr(http))}")
    return ServeSettings(read_budget(written.get("upkeep") or {}), http)


def read_http(written: Mapping[str, Any]) -> HttpSettings:
    """Reads the settings of the HTTP server; raises ConfigError for unknown keys and invalid values."""
    kinds = {setting.name: type(setting.default) for setting in fields(HttpSettings)}
    _refuse_unknown("serve.http", written, tuple(kinds))
    built: dict[str, Any] = {}
    for key, value in written.items():
        label = f"serve.http.{key}"
        if key == "open_id":
            built[key] = _read_record(label, value, OpenIdSettings)
            continue
        _check_kind(label, value, kinds[key])
        if key == "users":
            built[key] = tuple(_read_record(label, user, HttpUser) for user in value)
        else:
            built[key] = tuple(value) if kinds[key] is tuple else value
    return HttpSettings(**built)


def _read_record(label: str, written: Any, record: type[T]) -> T:
    """Reads a mapping with the fields of a dataclass; raises ConfigError for unknown, missing and wrong ones."""
    if not isinstance(written, Mapping):
        raise ConfigError(f"`{label}` must be a mapping; found a {type(written).__name__}")
    known = {part.name: part for part in fields(record)}  # type: ignore[arg-type]
    _refuse_unknown(label, written, tuple(known))
    missing = [name for name, part in known.items() if part.default is MISSING and name not in written]
    if missing:
        raise ConfigError(f"`{label}` needs {', '.join(missing)}")
    for key, value in written.items():
        default = known[key].default
        _check_kind(f"{label}.{key}", value, str if default is MISSING else type(default))
    return record(**written)


def _check_kind(label: str, value: Any, kind: type) -> None:
    names = {str: "text", int: "a whole number", float: "a number", tuple: "a list"}
    accepted = {int: (int,), float: (int, float), tuple: (list, tuple)}.get(kind, (kind,))
    if not isinstance(value, accepted) or isinstance(value, bool):
        raise ConfigError(f"`{label}` must be {names[kind]}; found a {type(value).__name__}")


def read_budget(written: Any) -> UpkeepBudget:
    """Reads the budget of upkeep, `serve.upkeep`; raises ConfigError for unknown keys and invalid values."""
    if not isinstance(written, Mapping):
        raise ConfigError(f"`serve.upkeep` must be a mapping; found {written!r}")
    _refuse_unknown("serve.upkeep", written, UPKEEP_KEYS)
    jobs = read_count("serve.upkeep.jobs", written.get("jobs", 1))
    if jobs < 1:
        raise ConfigError(f"`serve.upkeep.jobs` must be 1 or more; found {jobs}")
    most = written.get("bytes_per_minute")
    groups = written.get("groups") or {}
    if not isinstance(groups, Mapping):
        raise ConfigError(f"`serve.upkeep.groups` must be a mapping of schemas to bytes a minute; found {groups!r}")
    return UpkeepBudget(
        jobs,
        None if most is None else read_size("serve.upkeep.bytes_per_minute", most),
        tuple(_read_hours(text) for text in _to_list(written.get("quiet_hours") or ())),
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
        ) from None


def _list_days(first: str, last: str) -> frozenset[int]:
    begin, end = _DAYS.index(first.lower()), _DAYS.index(last.lower())
    return frozenset((begin + offset) % 7 for offset in range((end - begin) % 7 + 1))


def _parse_time(text: str) -> time:
    hour, minute = map(int, text.split(":"))
    return time(0) if (hour, minute) == (24, 0) else time(hour, minute)


def _refuse_unknown(where: str, written: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in written:
        if key not in known:
            raise ConfigError(
                f"`{where}` has no key `{key}`{suggest_nearest(str(key), known)}; known are {', '.join(known)}"
            )
