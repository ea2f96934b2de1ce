"""Readers of values that users write, each with the JSON schema of the values that it accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
Schema = Mapping[str, Any]

TEXT: Final[Schema] = {"type": "string", "pattern": r"\S"}
PLAIN: Final[Schema] = {"type": ["string", "number", "boolean"]}
PLAIN_VALUES: Final[Schema] = {"type": "object", "additionalProperties": PLAIN}


def close_object(properties: Mapping[str, Schema | bool]) -> dict[str, Any]:
    """Returns the part of a JSON schema by which an object has no other properties than these."""
    return {"properties": properties, "additionalProperties": False}


@dataclass(frozen=True)
class ValueReader(Generic[T]):
    """Function that reads the value of a key; `schema` accepts at least each value that `read` accepts.

    Patterns in a schema are of the kind that Python and JavaScript have in common.
    """

    read: Callable[[str, Any], T]
    schema: Schema

    def __call__(self, key: str, value: Any) -> T:
        """Returns the typed value; raises ConfigError that names the key."""
        return self.read(key, value)


def accept(schema: Schema) -> Callable[[Callable[[str, Any], T]], ValueReader[T]]:
    """Makes a function a reader of the values that `schema` describes."""
    return lambda read: ValueReader(read, schema)


def keep_value(schema: Schema) -> ValueReader[Any]:
    """Returns a reader that returns the value as it is, for a value that is checked where it is used."""
    return ValueReader(_get_value, schema)


def is_off(value: Any) -> bool:
    """Whether a value is `off`, which YAML reads as false; the number 0 is another value."""
    return value is False or value == "off"


def _get_value(_: str, value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Setting:
    """A key that users write outside of a model's configuration; `default` and `meaning` are Markdown."""

    name: str
    read: ValueReader[Any]
    meaning: str
    default: str = ""
    unset: Any = None
    """The typed value if the key is not written."""


def describe_settings(head: str, settings: Iterable[Setting]) -> str:
    """Formats settings as a table in Markdown, whose first column has the title `head`."""
    rows = (f"| `{key.name}` |{key.default and f' {key.default}'} | {key.meaning} |" for key in settings)
    return "\n".join([f"| {head} | default | meaning |\n|---|---|---|", *rows])
