"""A client of a schema registry with Confluent's HTTP interface, which reads schemas by their ids."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.formats.avro_schema import AvroSchema, parse_avro_schema
from arctic_runtime.profile import mask_secret, mask_text
from arctic_runtime.thresholds import TransportThresholds

if TYPE_CHECKING:
    from requests import Response, Session

_AVRO = "AVRO"
_UNKNOWN_ID = 40403
"""Error code of an id that no schema has; the status 404 alone may also come of a wrong path."""


_AWAY = (502, 503, 504)
"""Statuses of proxies and servers that are starting, after which a request is repeated."""


@dataclass(frozen=True)
class RegistryConnection:
    """The URL of a schema registry, and the settings to connect to it.

    `user` and `password` are sent by basic authentication. `ca_file` has the certificates that are trusted, and
    `certificate_file` this client's own with its key, both in PEM. Raises ConfigError if the settings can't be used.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if "@" in self.url:
            raise ConfigError(
                "The URL of `schema_registry` has a user or a password in it, which logs would show.",
                fix="write `schema_registry: {url: …, user: …, password_env: …}`",
            )
        if parts.scheme not in ("http", "https") or not parts.hostname or "," in self.url or parts.query:
            raise ConfigError(
                "`schema_registry` must be one URL.", expected="such as http://registry:8081", actual=repr(self.url)
            )
        if (self.user is None) != (self.password is None):
            raise ConfigError("`schema_registry` wants `user` and `password` together, and one of them is missing")


class SchemaRegistry:
    """Reads Avro schemas by their ids, each once: a registry never changes the schema of an id.

    No request takes longer than `answer_seconds` of `limits`. Methods can be called by several threads.
    """

    def __init__(self, connection: RegistryConnection, limits: TransportThresholds) -> None:
        self._connection = connection
        self._limits = limits
        self._seconds = limits.answer_seconds
        self._schemas: dict[int, AvroSchema] = {}
        self._lock = threading.Lock()

    def check_registry(self) -> None:
        """Raises SourceError if the registry does not answer, or refuses this user."""
        self._request("/schemas/types")

    def get_schema(self, schema_id: int) -> AvroSchema:
        """Returns the schema of an id.

        Raises SourceError if the registry does not answer or does not know the id, or if the schema can't be used.
        """
        with self._lock:
            if schema_id not in self._schemas:
                self._schemas[schema_id] = self._read_schema(schema_id)
            return self._schemas[schema_id]

    def _read_schema(self, schema_id: int) -> AvroSchema:
        path = f"/schemas/ids/{schema_id}"
        answer = self._request(path)
        body = _read_json(answer)
        if answer.status_code == 404 and body.get("error_code") == _UNKNOWN_ID:
            raise SourceError(
                f"The schema registry has no schema with the id {schema_id}, and messages of Kafka have it.",
                where=self._describe_answer(path),
                expected="the registry with which the messages were written",
                actual=self._mask_address(str(body.get("message", answer.reason))),
                fix="correct `schema_registry`, or register the schema under this id again",
            )
        text, kind = body.get("schema"), body.get("schemaType") or _AVRO
        if answer.status_code != 200 or not isinstance(text, str):
            raise self._build_answer_error(path, _describe_answer(answer, body), "check the URL of `schema_registry`")
        self._check_kind(schema_id, path, str(kind), body.get("references") or ())
        return parse_avro_schema(schema_id, text, self._describe_answer(path))

    def _check_kind(self, schema_id: int, path: str, kind: str, references: Any) -> None:
        """Raises SourceError for a schema that is not Avro, or that refers to other schemas of the registry."""
        if kind != _AVRO:
            raise SourceError(
                f"The schema {schema_id} is of the type {kind}, which is not read.",
                where=self._describe_answer(path),
                expected=_AVRO,
                actual=kind,
                fix="let the producer write Avro, in Kafka Connect by AvroConverter, or JSON without a schema registry",
            )
        if references:
            names = ", ".join(str(reference.get("name", reference)) for reference in references)
            raise SourceError(
                f"The schema {schema_id} refers to other schemas of the registry, which are not read.",
                where=self._describe_answer(path),
                expected="a schema that defines all of its types",
                actual=f"references to {names}",
                fix="register the schema with the types that it refers to inside of it",
            )

    def _request(self, path: str) -> Response:
        """Requests a path of the registry in a thread of its own.

        Raises SourceError if there is no answer in time, if the registry refuses the user (status 401 or 403), or if it
        fails (500 and above). The thread is needed because name servers and slow answers can take longer than the
        timeouts of a request.
        """
        from requests import RequestException

        answers: list[Response] = []
        failures: list[str] = []

        def request() -> None:
            try:
                with self._open_session() as session:
                    answers.append(session.get(f"{self._connection.url.rstrip('/')}{path}", timeout=self._seconds))
            except (RequestException, OSError, ValueError) as error:
                failures.append(str(error))

        thread = threading.Thread(target=request, daemon=True, name="arctic-schema-registry")
        thread.start()
        thread.join(self._seconds)
        if not answers:
            reason = failures[0] if failures else f"no answer within {self._seconds:g} s"
            raise self._build_answer_error(path, reason, "check that it is up, and its URL and certificates")
        answer = answers[0]
        if answer.status_code in (401, 403):
            fix = "correct `user` and `password` of `schema_registry`, or give this user the right to read schemas"
            raise self._build_answer_error(path, _describe_answer(answer, _read_json(answer)), fix)
        if answer.status_code >= 500:
            reason = _describe_answer(answer, _read_json(answer))
            raise self._build_answer_error(path, reason, "start the registry again, or look into its log")
        return answer

    def _open_session(self) -> Session:
        from requests import Session
        from requests.adapters import HTTPAdapter, Retry
        from requests.auth import HTTPBasicAuth

        session, connection = Session(), self._connection
        retries = Retry(
            total=self._limits.registry_retries,
            backoff_factor=self._limits.registry_pause_seconds,
            status_forcelist=_AWAY,
            raise_on_status=False,
        )
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=retries))
        if connection.user is not None and connection.password is not None:
            session.auth = HTTPBasicAuth(connection.user.encode(), connection.password.encode())
        if connection.ca_file is not None:
            session.verify = connection.ca_file
        session.cert = connection.certificate_file
        session.headers["Accept"] = "application/vnd.schemaregistry.v1+json, application/json"
        return session

    def _build_answer_error(self, path: str, reason: str, fix: str) -> SourceError:
        return SourceError(
            "The schema registry doesn't answer as expected.",
            where=self._describe_answer(path),
            expected="an answer with a schema" if path.startswith("/schemas/ids") else "an answer",
            actual=self._mask_address(" ".join(reason.split())),
            fix=fix,
        )

    def _describe_answer(self, path: str) -> str:
        return f"{self._connection.url.rstrip('/')}{path}"

    def _mask_address(self, text: str) -> str:
        """Returns a text without this user's password, and without everything that looks like a secret."""
        user, password = self._connection.user, self._connection.password
        if password:
            login = b64encode(f"{user}:{password}".encode()).decode()
            text = mask_secret(mask_secret(text, login), password)
        return mask_text(text)


def _read_json(answer: Response) -> Mapping[str, Any]:
    """Returns the object in an answer; empty if it has none."""
    try:
        body = answer.json()
    except ValueError:
        return {}
    return body if isinstance(body, Mapping) else {}


def _describe_answer(answer: Response, body: Mapping[str, Any]) -> str:
    return f"HTTP {answer.status_code} {answer.reason} {body.get('message', '')}".rstrip()
