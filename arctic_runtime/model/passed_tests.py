"""Tests that passed in a build, each with the versions of the tables with which it passed.

They are a property of the change table, so that a build publishes them together with the rows. An entry stays true when
the table changes: it is about a version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass

from arctic_runtime.errors import CorruptState
from arctic_runtime.model.version import Version, decode_versions


@dataclass(frozen=True)
class PassedTest:
    """The last pass of a test: a hash of its definition, and the versions of the tables that it read, by their role.

    The roles are `table` for the table that is tested, and `parent` for one that its rows refer to.
    """

    definition: str
    versions: Mapping[str, Version]


def hash_test_name(unique_id: str) -> str:
    """Returns the short text by which a test is stored; `unique_id` is its id in dbt."""
    return hashlib.sha256(unique_id.encode()).hexdigest()[:16]


def encode_passed_tests(tests: Mapping[str, PassedTest], most: int) -> str:
    """Encodes tests, by their hashed names, as one line of JSON; keeps the `most` with the newest versions."""
    newest = sorted(tests.items(), key=lambda item: (-_get_sequence(item[1]), item[0]))[:most]
    texts = {
        name: {"definition": test.definition, **{role: asdict(at) for role, at in sorted(test.versions.items())}}
        for name, test in sorted(newest)
    }
    return json.dumps(texts, separators=(",", ":"))


def _get_sequence(test: PassedTest) -> int:
    return max((version.sequence for version in test.versions.values()), default=0)


def decode_passed_tests(text: str | None) -> dict[str, PassedTest]:
    """Parses JSON of `encode_passed_tests`; empty for None, and for a text that can't be parsed.

    Without its entry, a test looks at all rows.
    """
    try:
        entries = {name: dict(entry) for name, entry in json.loads(text or "{}").items()}
        return {name: _decode_test(entry) for name, entry in entries.items()}
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError, CorruptState):
        return {}


def _decode_test(entry: Mapping[str, object]) -> PassedTest:
    versions = {role: version for role, version in entry.items() if role != "definition"}
    return PassedTest(str(entry["definition"]), decode_versions(json.dumps(versions)))


def merge_passed_tests(
    stored: Mapping[str, PassedTest], passed: Mapping[str, PassedTest], declared: Collection[str]
) -> dict[str, PassedTest]:
    """Returns the stored tests with those that passed now in their place, without tests that are no longer declared."""
    return {name: test for name, test in {**stored, **passed}.items() if name in declared}
