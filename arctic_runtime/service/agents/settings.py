"""Settings for agents, read from the key `serve.agents` of a target in profiles.yml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.operations.arguments import read_count
from arctic_runtime.plan.config.config_readers import get_reader, read_size
from arctic_runtime.plan.config.maintenance_settings import read_age
from arctic_runtime.plan.config.value_reader import Setting, ValueReader

Allowed = Literal["read", "plan"]
ALLOWED: Final[tuple[Allowed, ...]] = get_args(Allowed)
"""Whether agents only read, or may also propose plans of changes, which people carry out."""


def _read_most(key: str, value: Any) -> int:
    most = read_count(key, value)
    if most < 1:
        raise ConfigError(f"`{key}` must be 1 or more; found {most}")
    return most


AGENT_SETTINGS: Final = (
    Setting(
        "allow",
        get_reader(Allowed),
        "`plan`: agents may also propose changes, each with its plan, which a person carries out by `arctic apply`",
        "`read`",
        "read",
    ),
    Setting(
        "rows",
        ValueReader(_read_most, {"type": "integer", "minimum": 1}),
        "how many items a list in an answer has at most; the answer says what it leaves out",
        "`200`",
        200,
    ),
    Setting("bytes", read_size, "how long an answer is at most, as JSON", "`64 KiB`", 65_536),
    Setting("plan_age", read_age, "how long a proposed plan can be carried out, such as `12h`", "`1d`", 86_400),
)
"""Keys of `serve.agents`."""


@dataclass(frozen=True)
class AgentSettings:
    """What agents may do, and how long an answer and a proposal of theirs are."""

    allow: Allowed = "read"
    rows: int = 200
    bytes: int = 65_536
    plan_age: int = 86_400


def read_agent_settings(written: Any) -> AgentSettings:
    """Reads `serve.agents`; raises ConfigError for unknown keys and invalid values."""
    if not isinstance(written, Mapping):
        raise ConfigError(f"`serve.agents` must be a mapping; found {written!r}")
    known = {setting.name: setting for setting in AGENT_SETTINGS}
    for key in written:
        if key not in known:
            near = suggest_nearest(str(key), known)
            raise ConfigError(f"`serve.agents` has no key `{key}`{near}; known are {', '.join(known)}")
    return AgentSettings(**{key: known[key].read(f"serve.agents.{key}", value) for key, value in written.items()})
