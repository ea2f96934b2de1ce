"""The list of all targets."""

from __future__ import annotations

from tests.fuzz.target import Target
from tests.fuzz.targets.configuration import ARGUMENTS, MODELS, NAMES, PROFILES, SERVED, SOURCES
from tests.fuzz.targets.decoders import AVRO, EVENTS, HISTORIES, POSITIONS, TYPES
from tests.fuzz.targets.http import REQUESTS
from tests.fuzz.targets.queries import CONSTRAINTS, QUERIES_KEPT, QUERY_TEXTS

TARGETS: tuple[Target, ...] = (
    EVENTS,
    AVRO,
    POSITIONS,
    TYPES,
    HISTORIES,
    QUERY_TEXTS,
    QUERIES_KEPT,
    CONSTRAINTS,
    REQUESTS,
    PROFILES,
    MODELS,
    SOURCES,
    SERVED,
    ARGUMENTS,
    NAMES,
)


def get_target(name: str) -> Target:
    return next(target for target in TARGETS if target.name == name)
