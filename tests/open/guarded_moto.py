"""moto behind rules of IAM: `python -m tests.open.guarded_moto` prints its address.

The user of tests has the rights of a policy, which a test gives; whoever has another access key may do everything.
"""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tests.open.glue_catalog import ENVIRONMENT, refuse_stale_versions
from tests.open.iam_rules import Need, Policy, Request, list_needs
from tests.open.moto_server import KEY_ID, MotoServer, main, run_moto

POLICIES = "/tests/policies"

Application = Callable[[dict[str, Any], Any], Any]


@dataclass(frozen=True)
class GuardedMoto:
    """A running server, which gives the user of tests the rights of a policy alone once it has been given one."""

    server: MotoServer

    def give(self, policy: Policy | None) -> None:
        """Gives the user the rights of a policy in the place of those that it had; None gives it all rights."""
        self._post({"policy": policy.document if policy is not None else None})

    def list_used(self) -> set[str]:
        """Lists the actions that the user has asked for since it was given its rights."""
        answer: list[str] = json.loads(self._post({}))
        return set(answer)

    def _post(self, asked: Any) -> str:
        import requests

        answer = requests.post(f"{self.server.endpoint}{POLICIES}", json=asked, timeout=30)
        answer.raise_for_status()
        return answer.text


@contextmanager
def run_guarded_moto() -> Iterator[GuardedMoto]:
    with run_moto("tests.open.guarded_moto") as server:
        yield GuardedMoto(replace(server, key_id="a-key-id-of-the-owner"))


class Guard:
    """Answers requests of the user that lack a right, and passes all others on."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._policy: Policy | None = None
        self._used: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] == POLICIES:
            return _send(start_response, "200 OK", self._answer_tests(json.loads(_take_body(environ))))
        request = _read_request(environ)
        with self._lock:
            policy = self._policy if request.key_id == KEY_ID else None
            needs = list_needs(request) if policy is not None else []
            self._used |= {need.action for need in needs}
        if policy is not None:
            refused = policy.find_refused(needs) or _find_hidden(policy, request)
            if refused is not None:
                return _refuse(start_response, request, refused)
        return self._application(environ, start_response)

    def _answer_tests(self, asked: dict[str, Any]) -> bytes:
        with self._lock:
            if "policy" in asked:
                self._policy, self._used = asked["policy"] and Policy(asked["policy"]), set()
            return json.dumps(sorted(self._used)).encode()


def _take_body(environ: dict[str, Any]) -> bytes:
    """Returns the body of a request, and puts a copy in its place."""
    body: bytes = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _read_request(environ: dict[str, Any]) -> Request:
    """Reads the request without its body, which decides nothing for objects that are read or written."""
    headers = {
        name.removeprefix("HTTP_").replace("_", "-").title(): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    query = environ.get("QUERY_STRING", "")
    body = _take_body(environ) if "X-Amz-Target" in headers or query.startswith("delete") else b""
    return Request(environ["REQUEST_METHOD"], environ["PATH_INFO"], query, headers, body)


def _find_hidden(policy: Policy, request: Request) -> Need | None:
    """Returns the right without which S3 does not say that an object is missing, if it is; else None."""
    if request.method not in ("GET", "HEAD") or not request.key or "X-Amz-Target" in request.headers:
        return None
    need = Need("s3:ListBucket", f"arn:aws:s3:::{request.bucket}")
    return None if policy.allows(need) or _has_object(request.bucket, request.key) else need


def _has_object(bucket: str, key: str) -> bool:
    from moto.backends import get_backend

    from tests.open.iam_rules import ACCOUNT

    found = get_backend("s3")[ACCOUNT]["aws"].buckets.get(bucket)
    return found is not None and key in found.keys


def _refuse(start_response: Any, request: Request, refused: Need) -> list[bytes]:
    """Answers as AWS does: Glue and S3 name the action, but an answer to HEAD has no text."""
    user = "arn:aws:iam::123456789012:user/tests"
    reason = f"User: {user} is not authorized to perform: {refused.action} on resource: {refused.resource} because no"
    reason = f"{reason} identity-based policy allows the {refused.action} action"
    if "X-Amz-Target" in request.headers:
        answer = json.dumps({"__type": "AccessDeniedException", "Message": reason}).encode()
        return _send(start_response, "400 Bad Request", answer)
    if refused.action == "s3:DeleteObject" and request.method == "POST":
        error = f"<Error><Key>{refused.resource.partition('/')[2]}</Key><Code>AccessDenied</Code>"
        error = f"{error}<Message>{reason}</Message></Error>"
        return _send(start_response, "200 OK", f"<DeleteResult>{error}</DeleteResult>".encode())
    text = f"<Error><Code>AccessDenied</Code><Message>{reason}</Message></Error>".encode()
    return _send(start_response, "403 Forbidden", b"" if request.method == "HEAD" else text)


def _send(start_response: Any, status: str, body: bytes) -> list[bytes]:
    start_response(status, [("Content-Length", str(len(body))), ("Content-Type", "text/xml")])
    return [body]


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)
    refuse_stale_versions()
    main(Guard)
