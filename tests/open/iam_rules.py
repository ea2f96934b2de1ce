"""Rules of IAM that decide about requests to S3 and Glue, as the service authorization reference of AWS has them.

moto checks less: it takes HeadBucket for an action of its own, checks a deletion of several objects against their
bucket, and says that a missing object is missing to whoever asks. So the server of these tests asks this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import parse_qs, unquote

ACCOUNT = "123456789012"
_CREDENTIAL = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/")
_KEY_IN_DELETION = re.compile(r"<Key>([^<]*)</Key>")


@dataclass(frozen=True)
class Need:
    """A right that a request needs: an action, such as `s3:GetObject`, on a resource, which is given by its ARN."""

    action: str
    resource: str


@dataclass(frozen=True)
class Request:
    """A request of HTTP to S3 or Glue."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def key_id(self) -> str:
        """Id of the access key that has signed the request; empty if none has."""
        return self._credential[0]

    @property
    def region(self) -> str:
        """Region that the request was signed for; empty if nobody has signed it."""
        return self._credential[1]

    @property
    def _credential(self) -> tuple[str, str]:
        match = _CREDENTIAL.search(self.headers.get("Authorization", ""))
        return (match[1], match[2]) if match else ("", "")

    @property
    def bucket(self) -> str:
        return unquote(self.path).lstrip("/").partition("/")[0]

    @property
    def key(self) -> str:
        return unquote(self.path).lstrip("/").partition("/")[2]


def list_needs(request: Request) -> list[Need]:
    """Lists the rights that a request needs."""
    target = request.headers.get("X-Amz-Target", "")
    if target.startswith("AWSGlue."):
        catalog = f"arn:aws:glue:{request.region}:{ACCOUNT}"
        return list(_list_glue_needs(catalog, target.removeprefix("AWSGlue."), json.loads(request.body)))
    return list(_list_store_needs(request))


_OBJECT_ACTIONS = {"GET": "GetObject", "HEAD": "GetObject", "PUT": "PutObject", "POST": "PutObject"}


def _list_store_needs(request: Request) -> Iterator[Need]:
    bucket = f"arn:aws:s3:::{request.bucket}"
    asked = parse_qs(request.query, keep_blank_values=True)
    if not request.bucket:
        yield Need("s3:ListAllMyBuckets", "*")
    elif request.method == "POST" and "delete" in asked:
        for key in _KEY_IN_DELETION.findall(request.body.decode()):
            yield Need("s3:DeleteObject", f"{bucket}/{key}")
    elif not request.key:
        yield Need(_name_bucket_action(request.method, asked), bucket)
    elif request.method == "DELETE":
        yield Need("s3:AbortMultipartUpload" if "uploadId" in asked else "s3:DeleteObject", f"{bucket}/{request.key}")
    else:
        yield Need(f"s3:{_OBJECT_ACTIONS[request.method]}", f"{bucket}/{request.key}")
        source = request.headers.get("X-Amz-Copy-Source")
        if source:
            yield Need("s3:GetObject", f"arn:aws:s3:::{unquote(source).lstrip('/')}")


def _name_bucket_action(method: str, asked: Mapping[str, Any]) -> str:
    if method in ("GET", "HEAD"):
        return "s3:GetBucketLocation" if "location" in asked else "s3:ListBucket"
    return {"PUT": "s3:CreateBucket", "DELETE": "s3:DeleteBucket"}.get(method, f"s3:{method}")


def _list_glue_needs(catalog: str, action: str, asked: Mapping[str, Any]) -> Iterator[Need]:
    """Yields the needed rights: a resource of Glue is reached through the catalog and its database.

    Who deletes a database needs the right on all that it has.
    """
    database = asked.get("DatabaseName") or (asked.get("Name") if "Database" in action else None)
    database = database or asked.get("DatabaseInput", {}).get("Name")
    table = asked.get("TableInput", {}).get("Name") or (asked.get("Name") if "Database" not in action else None)
    resources = [f"{catalog}:catalog"]
    if database:
        resources.append(f"{catalog}:database/{database}")
    if action == "GetDatabases":
        resources.append(f"{catalog}:database/*")
    if table:
        resources.append(f"{catalog}:table/{database}/{table}")
    if action == "GetTables":
        resources.append(f"{catalog}:table/{database}/*")
    if action == "DeleteDatabase":
        resources += [f"{catalog}:{kind}/{database}/*" for kind in ("table", "userDefinedFunction")]
    for resource in resources:
        yield Need(f"glue:{action}", resource)


@dataclass(frozen=True)
class Policy:
    """A policy as IAM has it, whose statements allow actions on resources, without conditions."""

    document: Mapping[str, Any]

    def allows(self, need: Need) -> bool:
        return any(
            statement["Effect"] == "Allow"
            and _matches_any(statement["Action"], need.action)
            and _matches_any(statement["Resource"], need.resource)
            for statement in self.document["Statement"]
        )

    def find_refused(self, needs: Iterable[Need]) -> Need | None:
        """Returns the first right that the policy does not give; None if it gives all."""
        return next((need for need in needs if not self.allows(need)), None)

    @property
    def actions(self) -> list[str]:
        return [action for statement in self.document["Statement"] for action in _as_list(statement["Action"])]

    def without(self, action: str) -> Policy:
        """Returns the policy without an action."""
        statements = [
            {**statement, "Action": [one for one in _as_list(statement["Action"]) if one != action]}
            for statement in self.document["Statement"]
        ]
        return Policy({**self.document, "Statement": statements})


def _as_list(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _matches_any(patterns: str | Sequence[str], value: str) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in _as_list(patterns))
