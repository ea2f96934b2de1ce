"""Requests to the server of a REST catalog that pyiceberg does not send, or whose answers it can't read in full.

They are sent by the session of pyiceberg's catalog, so with its address, headers and credentials.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from arctic_runtime.catalog.branch.catalog_pointers import ChangeRefused
from arctic_runtime.catalog.branch.metadata_updates import Json
from arctic_runtime.errors import CatalogError, CommitConflict, CommitUnknown
from arctic_runtime.model.names import TableName

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_PATHS = {"TABLE": "namespaces/{namespace}/tables", "VIEW": "namespaces/{namespace}/views"}
_FINAL = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_ACCEPTABLE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.NOT_IMPLEMENTED,
    }
)
"""Answers that are the same when a request is repeated."""

_LOST = frozenset(
    {
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""Answers after which a change may have been carried out."""


@dataclass(frozen=True)
class Loaded:
    """A table or view as a server returns it.

    `file` is the address of its metadata file, empty if the server has none; `config` are the properties with which its
    files are reached, and `has_credentials` says whether the server gave credentials for them.
    """

    kind: str
    file: str
    metadata: Json
    config: Mapping[str, str]
    has_credentials: bool


class RestRequests:
    """Sends requests to the server of pyiceberg's catalog, which `open_catalog` returns.

    Raises CommitConflict if the server refuses a change because something else was changed, CommitUnknown if it may
    have carried out a change, ChangeRefused if it refuses one for another reason, and CatalogError if it fails.
    """

    def __init__(self, open_catalog: Callable[[], Catalog]) -> None:
        self._open = open_catalog

    @property
    def has_transactions(self) -> bool:
        """Whether the server states that one request can change several tables."""
        return self._has_endpoint("/transactions/commit")

    @property
    def has_views(self) -> bool:
        return self._has_endpoint("/views/{view}")

    def load_relation(self, table: TableName) -> Loaded | None:
        """Loads a table or view; None if there is neither."""
        for kind in ("TABLE", "VIEW") if self.has_views else ("TABLE",):
            answer = self._request_relation("GET", kind, table, missing=None)
            if answer is not None:
                config = answer.get("config") or {}
                given = bool(answer.get("storage-credentials")) or any(map(is_credential, config))
                return Loaded(kind, answer.get("metadata-location") or "", answer["metadata"], config, given)
        return None

    def commit_updates(
        self, kind: str, table: TableName, requirements: Sequence[Json], updates: Sequence[Json]
    ) -> None:
        """Commits updates to one table or view, or creates a table."""
        identifier = {"namespace": [table.schema], "name": table.name}
        body = {"identifier": identifier, "requirements": list(requirements), "updates": list(updates)}
        self._request_relation("POST", kind, table, body)

    def commit_transaction(self, changes: Sequence[Json]) -> None:
        """Commits updates to several tables, all of them or none."""
        self._send_request("POST", "transactions/commit", {"table-changes": list(changes)})

    def create_view(self, table: TableName, body: Json) -> None:
        path = _PATHS["VIEW"].format(namespace=_quote_name(table.schema))
        self._send_request("POST", path, body)

    def drop_relation(self, kind: str, table: TableName) -> None:
        """Drops a table or view, and leaves its files; does nothing if it does not exist."""
        self._request_relation("DELETE", kind, table, missing=None)

    def _request_relation(
        self, method: str, kind: str, table: TableName, body: Json | None = None, **options: Any
    ) -> Any:
        path = _PATHS[kind].format(namespace=_quote_name(table.schema))
        return self._send_request(method, f"{path}/{_quote_name(table.name)}", body, **options)

    def _send_request(self, method: str, path: str, body: Json | None = None, **options: Any) -> Any:
        """Sends a request and returns the JSON of its answer, None for an empty one.

        With the option `missing`, this is returned if the server does not have what the path names. Credentials that
        have expired are renewed once.
        """
        from requests import RequestException

        catalog: Any = self._open()
        url = catalog.url(path.replace("{", "{{").replace("}", "}}"))
        data = None if body is None else json.dumps(body).encode()
        try:
            response = catalog._session.request(method, url, data=data)
            if response.status_code == HTTPStatus.UNAUTHORIZED:
                catalog._refresh_token()
                response = catalog._session.request(method, url, data=data)
        except RequestException as error:
            if method == "GET":
                raise
            raise CommitUnknown(f"{method} {path}: the answer of the catalog's server was lost: {error}") from error
        if response.status_code == HTTPStatus.NOT_FOUND and "missing" in options:
            return options["missing"]
        if not response.ok:
            raise _read_refusal(method, path, response)
        return response.json() if response.content else None

    def _has_endpoint(self, ending: str) -> bool:
        catalog: Any = self._open()
        return any(str(endpoint).endswith(ending) for endpoint in catalog._supported_endpoints)


def _quote_name(name: str) -> str:
    """Writes the name of a namespace, table or view as a part of a path."""
    return quote(name, safe="")


def is_credential(key: str) -> bool:
    """Whether a property of a table's files is a credential for an object store."""
    return key in _CREDENTIALS or key.startswith(_CREDENTIAL_PREFIXES)


_CREDENTIALS = frozenset(
    {
        "client.access-key-id",
        "client.credentials-provider",
        "client.secret-access-key",
        "client.session-token",
        "gcs.oauth2.token",
        "s3.access-key-id",
        "s3.secret-access-key",
        "s3.session-token",
    }
)
_CREDENTIAL_PREFIXES = ("adls.sas-token", "adls.auth", "adls.account-key", "adls.connection-string", "adls.token")


def _read_refusal(method: str, path: str, response: Any) -> Exception:
    """Returns the error for an answer that is none of success."""
    try:
        reason = str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        reason = response.reason or f"HTTP {response.status_code}"
    text = f"{method} {path}: the catalog's server answered {response.status_code}: {reason}"
    if response.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
        return CommitConflict(text)
    if response.status_code in _LOST and method != "GET":
        return CommitUnknown(text)
    is_final = response.status_code in _FINAL and method != "GET"
    return ChangeRefused(text) if is_final else CatalogError(text)
