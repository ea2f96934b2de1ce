"""The command `arctic schema`: prints the JSON schema by which an editor completes and checks YAML."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from arctic_runtime.operations.operation import Answer
from dbt.adapters.arctic.schemas import models, profile, sources

SCHEMAS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "profile": profile.build_schema,
    "models": models.build_schema,
    "sources": sources.build_schema,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("document", choices=tuple(SCHEMAS), help="what the schema describes")


def perform_command(options: argparse.Namespace) -> Answer:
    """Returns the schema `options.document`."""
    schema = SCHEMAS[options.document]()
    return Answer(schema, tuple(json.dumps(schema, indent=2, ensure_ascii=False).splitlines()))
