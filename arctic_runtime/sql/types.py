"""Parses Spark's types from text, and formats them as text; names of struct fields may be any text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIELD_NAME = re.compile(r"(?P<word>\w+)|`(?P<quoted>(?:[^`]|``)*)`")
_PRIMITIVE = re.compile(
    r"string collate \w+|interval \w+(?: to \w+)?|[A-Za-z_][A-Za-z0-9_]*(?:\(\s*\d+(?:\s*,\s*\d+)*\s*\))?",
    re.IGNORECASE,
)
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True)
class Primitive:
    """A type that contains no other types; `text` is how Spark writes it, such as `decimal(10,2)`."""

    text: str


@dataclass(frozen=True)
class Array:
    """The type of a list whose elements have one type."""

    element: Type


@dataclass(frozen=True)
class Map:
    """The type of a map whose keys have one type, and whose values have one type."""

    key: Type
    value: Type


@dataclass(frozen=True)
class Struct:
    """The type of a struct: its fields in their order, each a pair of name and type."""

    fields: tuple[tuple[str, Type], ...]


Type = Primitive | Array | Map | Struct


def quote_field(field: str) -> str:
    return f"`{field.replace('`', '``')}`"


def format_field(field: str) -> str:
    """Formats a field's name as Spark shows it, in backticks only if necessary."""
    return field if _PLAIN_NAME.fullmatch(field) else quote_field(field)


def type_text(kind: Type, field: Callable[[str], str] = format_field) -> str:
    """Formats a type as Spark writes it; `field` formats the names of struct fields. `read_type` parses the text."""
    match kind:
        case Primitive(text):
            return text
        case Array(element):
            return format_array_type(type_text(element, field))
        case Map(key, value):
            return map_text(type_text(key, field), type_text(value, field))
        case Struct(fields):
            return format_struct_type(((own, type_text(field_type, field)) for own, field_type in fields), field)


def format_array_type(element: str) -> str:
    return f"array<{element}>"


def map_text(key: str, value: str) -> str:
    return f"map<{key},{value}>"


def format_struct_type(fields: Iterable[tuple[str, str]], field: Callable[[str], str] = format_field) -> str:
    """Formats the type of a struct from pairs of field name and the text of its type; `field` formats the names."""
    return f"struct<{','.join(f'{field(own)}:{type_name}' for own, type_name in fields)}>"


def list_parts(kind: Type) -> tuple[Type, ...]:
    """Returns the types that a type directly contains: those of its elements, its key and value, or its fields.

    Empty for a primitive type.
    """
    match kind:
        case Primitive():
            return ()
        case Array(element):
            return (element,)
        case Map(key, value):
            return (key, value)
        case Struct(fields):
            return tuple(field_type for _, field_type in fields)


def walk_type(kind: Type) -> Iterator[Type]:
    """Yields a type and all types inside of it, at every level, the outer ones first."""
    yield kind
    for part in list_parts(kind):
        yield from walk_type(part)


def list_primitives(kind: Type) -> Iterator[Primitive]:
    return (part for part in walk_type(kind) if isinstance(part, Primitive))


def list_field_names(kind: Type) -> Iterator[str]:
    """Lists the names of the struct fields in a type, at every level."""
    return (own for part in walk_type(kind) if isinstance(part, Struct) for own, _ in part.fields)


def has_map(kind: Type) -> bool:
    """Whether a type is a map or contains one, at any level."""
    return any(isinstance(part, Map) for part in walk_type(kind))


def map_primitives(kind: Type, change: Callable[[str], str]) -> Type:
    """Returns `kind` with the text of each primitive type in it, at every level, replaced by the result of `change`."""
    match kind:
        case Primitive(text):
            return Primitive(change(text))
        case Array(element):
            return Array(map_primitives(element, change))
        case Map(key, value):
            return Map(map_primitives(key, change), map_primitives(value, change))
        case Struct(fields):
            return Struct(tuple((own, map_primitives(field_type, change)) for own, field_type in fields))


def has_variant(kind: Type) -> bool:
    """Whether a type is a variant or contains one, at any level."""
    return any(leaf.text == "variant" for leaf in list_primitives(kind))


def read_type(text: str) -> Type:
    """Parses a type from its text; raises ValueError if the text is anything else than exactly one type."""
    reader = _Reader(text)
    kind = reader.read_type()
    reader.skip_space()
    if reader.at != len(text):
        raise ValueError(f"{text!r} is not the text of a type: it goes on after {text[: reader.at]!r}")
    return kind


class _Reader:
    """Recursive-descent parser of the text of a type; `at` is the position up to which it has read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def read_type(self) -> Type:
        if self._accept_token("array<"):
            element = self.read_type()
            self._expect_token(">")
            return Array(element)
        if self._accept_token("map<"):
            key = self.read_type()
            self._expect_token(",")
            value = self.read_type()
            self._expect_token(">")
            return Map(key, value)
        if self._accept_token("struct<"):
            return Struct(tuple(self._read_fields()))
        return Primitive(self._match_pattern(_PRIMITIVE)[0])

    def _read_fields(self) -> Iterator[tuple[str, Type]]:
        while not self._accept_token(">"):
            match = self._match_pattern(_FIELD_NAME)
            self._expect_token(":")
            yield match["word"] or match["quoted"].replace("``", "`"), self.read_type()
            if not self._accept_token(","):
                self._expect_token(">")
                return

    def skip_space(self) -> None:
        match = _SPACE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def _accept_token(self, token: str) -> bool:
        self.skip_space()
        is_next = self.text[self.at : self.at + len(token)].lower() == token
        self.at += len(token) if is_next else 0
        return is_next

    def _expect_token(self, token: str) -> None:
        if not self._accept_token(token):
            raise ValueError(f"{self.text!r} is not the text of a type: {token!r} is missing at {self.at}")

    def _match_pattern(self, pattern: re.Pattern[str]) -> re.Match[str]:
        self.skip_space()
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ValueError(f"{self.text!r} is not the text of a type: it can't be read from {self.at} on")
        self.at = match.end()
        return match
