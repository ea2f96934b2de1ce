"""A text in the place of a value that a source did not send, such as Debezium's for a value that is kept out of line.

Columns of other types than text hold it in a form of their own.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from base64 import b64encode


def texts_of(marker: str) -> tuple[str, ...]:
    """The marker as texts or JSON have it: text, bytes, hstore, and lists of texts, bytes, numbers and uuids."""
    texts = (marker, base64_of(marker), _compact({marker: marker}))
    lists = ([marker], [base64_of(marker)], numbers_of(marker), [uuid_of(marker)])
    return (*texts, *map(_compact, lists))


def base64_of(marker: str) -> str:
    return b64encode(marker.encode()).decode()


def numbers_of(marker: str) -> list[int]:
    """The marker's bytes, as lists of numbers hold it."""
    return list(marker.encode())


def uuid_of(marker: str) -> str:
    """The marker as a name-based UUID, version 3 without a namespace."""
    digest = hashlib.md5(marker.encode(), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))


def _compact(of: object) -> str:
    return json.dumps(of, separators=(",", ":"))
