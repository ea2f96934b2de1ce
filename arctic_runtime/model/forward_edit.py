"""The edit of a query after which a table goes forward: rows stay as they are until changes of sources reach them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from arctic_runtime.errors import CorruptState
from arctic_runtime.model.version import Version


@dataclass(frozen=True)
class ForwardEdit:
    """The newest edit of a query after which a table went forward, with `on_query_change: forward`."""

    version: Version
    """Version of the change table: keys with later change rows have the rows of the present query."""

    at_ms: int
    """Time of the edit, in milliseconds since 1970."""

    rows: int
    """Number of rows that the table had then, at most; as many may be those of earlier queries."""

    def describe_plan(self) -> tuple[str, ...]:
        """Describes for users in a few lines what the run of the edit does."""
        return ("leaves the rows of the table as they are", "then follows the changes of what the query reads")

    def encode(self) -> str:
        """Encodes the edit as one line of JSON, for the summary of a snapshot."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> ForwardEdit:
        """Parses JSON of `encode`; raises CorruptState if the text can't be parsed."""
        try:
            fields = json.loads(text)
            return cls(Version(**fields["version"]), int(fields["at_ms"]), int(fields["rows"]))
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptState(
                "The edit of a query in a snapshot summary can't be read.",
                expected="JSON with a version, a time and a number of rows",
                actual=text,
                fix="run with --full-refresh",
            ) from error
