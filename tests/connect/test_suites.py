"""Suites of Spark and of the adapter over Spark Connect; `make test-all` runs all of them so.

A process speaks either to a Spark of its own or to servers, so these tests are in one of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TELLING = (
    "tests/spark/test_session.py::test_settings_of_one_session_are_not_seen_by_another",
    "tests/spark/test_session.py::test_profiles_that_differ_in_their_catalog_share_one_spark",
    "tests/spark/test_session.py::test_a_profile_that_needs_another_spark_is_refused",
    "tests/spark/test_commits.py::test_of_racing_runs_one_applies_the_window_and_the_others_end_well",
    "tests/spark/test_commits.py::test_a_table_that_moved_on_is_not_overwritten",
    "tests/spark/test_commits.py::test_a_write_that_met_a_lock_is_not_sent_twice_to_one_branch",
    "tests/adapter/test_arctic.py::TestLayers::test_a_run_publishes_exactly_what_changed_to_the_next_layer",
    "tests/adapter/test_arctic.py::TestBadRows::test_the_error_names_column_and_rows",
    "tests/adapter/test_promises.py::TestConnections",
)


def test_a_telling_part_of_the_suites_passes_over_connect() -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow", *TELLING],
        cwd=ROOT,
        env={**environment, "ARCTIC_TEST_METHOD": "connect"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
