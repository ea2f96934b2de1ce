"""Recognises errors by which PostgreSQL, S3 or Glue refuses a user, and names the right that is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from arctic_runtime.errors import CatalogError

_DOCUMENTED: Final = "see Rights in docs/stores.md"
_USER: Final = "the profile's user"

_STORE_ACTIONS: Final[Mapping[str, str]] = {
    "HeadBucket": "s3:ListBucket",
    "ListObjects": "s3:ListBucket",
    "ListObjectsV2": "s3:ListBucket",
    "HeadObject": "s3:GetObject",
    "GetObject": "s3:GetObject",
    "CopyObject": "s3:PutObject",
    "DeleteObject": "s3:DeleteObject",
    "DeleteObjects": "s3:DeleteObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "PutObject": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject",
}
"""The action of IAM that each operation of S3 needs. S3 also refuses HeadObject of an object that is missing to users
who may not list the bucket."""

_TABLE_RIGHTS: Final[Mapping[str, str]] = {
    "iceberg_tables": "select, insert, update, delete",
    "iceberg_namespace_properties": "select, insert, delete",
}
"""Rights on each of the catalog's tables in PostgreSQL that a user who writes needs."""


@dataclass(frozen=True)
class MissingRight:
    """A right that a user lacks: its name, such as `s3:PutObject`, and advice how the user gets it."""

    name: str
    fix: str


def find_missing_right(reason: str, user: str | None = None) -> MissingRight | None:
    """Returns the right that is missing according to an error's message; None if the message is about something else.

    `user` is the name of the user in PostgreSQL, if it is known.
    """
    for pattern, build in _RULES:
        if (match := pattern.search(reason)) is not None:
            return build(match, user or _USER)
    return None


def to_rights_error(reason: str, action: str, user: str | None = None) -> CatalogError | None:
    """Returns the error for a message that says that `action` needs a right which is missing; None for any other."""
    right = find_missing_right(reason, user)
    if right is None:
        return None
    return CatalogError(
        f"A right is missing: {right.name}.\n  while: {action}", actual=" ".join(reason.split()), fix=right.fix
    )


def _name_action(match: re.Match[str], _user: str) -> MissingRight:
    place = match["resource"]
    return _build_store_right(match["action"], f" on {place}" if place else "")


def _name_operation(match: re.Match[str], _user: str) -> MissingRight:
    action = _STORE_ACTIONS.get(match["operation"], f"s3:{match['operation']}")
    return _build_store_right(action, "")


def _build_store_right(action: str, place: str) -> MissingRight:
    return MissingRight(f"{action}{place}", f"allow {action} in the policy of this user, then run again; {_DOCUMENTED}")


def _name_any_action(_match: re.Match[str], _user: str) -> MissingRight:
    known = "s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject or s3:DeleteObject on the files"
    return MissingRight(f"{known}; the store does not say which", f"compare the rights of this user; {_DOCUMENTED}")


def _name_table_right(match: re.Match[str], user: str) -> MissingRight:
    table = match["table"]
    rights = _TABLE_RIGHTS.get(table, "select")
    return MissingRight(
        f"{rights} on {table}",
        f"the owner of {table} runs `grant {rights} on {table} to {user}`, or for a user who only reads "
        f"`grant select on {table} to {user}`; {_DOCUMENTED}",
    )


def _name_schema_right(match: re.Match[str], user: str) -> MissingRight:
    schema = match.groupdict().get("schema") or "public"
    return MissingRight(
        f"usage on schema {schema}",
        f"its owner runs `grant usage on schema {schema} to {user}`; if the catalog's tables are not there yet, their "
        f"owner creates them first; {_DOCUMENTED}",
    )


def _name_database_right(match: re.Match[str], user: str) -> MissingRight:
    database = match["database"]
    return MissingRight(
        f"connect on database {database}",
        f"its owner runs `grant connect on database {database} to {user}`; {_DOCUMENTED}",
    )


def _name_missing_column(_match: re.Match[str], _user: str) -> MissingRight:
    """Returns the right to add a column that the catalog's tables lack if an older version created them."""
    return MissingRight(
        "the column iceberg_type in the catalog's tables, which only their owner can add",
        f"their owner runs `alter table iceberg_tables add column iceberg_type varchar(5)`; {_DOCUMENTED}",
    )


_RULES: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], MissingRight]], ...]] = (
    (
        re.compile(r'not authorized to perform: (?P<action>[\w-]+:\w+)(?: on resource: "?(?P<resource>[^\s"]+))?'),
        _name_action,
    ),
    (re.compile(r"AWS Error ACCESS_DENIED during (?P<operation>\w+) operation"), _name_operation),
    (re.compile(r"Service: S3, Status Code: 403"), _name_any_action),
    (re.compile(r"permission denied for (?:table|relation|view) \"?(?P<table>\w+)"), _name_table_right),
    (re.compile(r"permission denied for schema \"?(?P<schema>\w+)"), _name_schema_right),
    (re.compile(r"no schema has been selected to create in"), _name_schema_right),
    (re.compile(r"permission denied for database \"?(?P<database>\w+)"), _name_database_right),
    (
        re.compile(r"must be owner of (?:table|relation) iceberg_tables|column \S*iceberg_type\S* does not exist"),
        _name_missing_column,
    ),
)
