"""The record of a run: what is encoded is decoded, and every key of a run's commit belongs to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.model.clock import ClockReading
from arctic_runtime.model.properties import STORED_NAMES
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.sources.declared import Declared
from arctic_runtime.model.version import Version

TEXTS = st.none() | st.text(min_size=1)
VERSIONS = st.builds(Version, st.text(), st.integers(), st.integers())
PLACES = st.dictionaries(st.lists(st.tuples(st.text(), st.text()), max_size=2).map(tuple), st.text(), min_size=1)
TEXT_FIELDS = (
    *("run", "mode", "reason", "query", "session", "high_watermark", "restored", "aggregate_state"),
    *("no_aggregate_state", "given_up", "judged", "changelog", "repaired", "position", "position_events", "letters"),
    *("truncated", "newest_valid_time"),
)
SUMMARIES = st.builds(
    RunSummary,
    **dict.fromkeys(TEXT_FIELDS, TEXTS),
    offsets=st.none() | st.dictionaries(st.text(), VERSIONS),
    declared=st.none() | st.builds(Declared, PLACES),
    started_ms=st.none() | st.integers(),
    estimated=st.none() | st.integers(0, 10**9).map(lambda milliseconds: milliseconds / 1000),
    source_time_ms=st.none() | st.integers(),
    shown_before_ms=st.none() | st.integers(),
)
FULL = RunSummary(
    *("run", "mode", "reason"),
    {"a": Version("u", 1, 2)},
    *("query", "session", "watermark", "5"),
    Declared({(): "1", (("region", "eu"),): "2"}),
    *("state", "none", "COST", "judged"),
    *(1, 0.5),
    *("input", "keys", "0/16B3748", "3", 1_700_000_000_000, 1_600_000_000_000),
    truncated="7",
    newest_valid_time="8",
    day_texts="lake.ods.orders",
    clock=ClockReading(1_700_000_000_000_000, "Europe/Berlin"),
)


@given(SUMMARIES)
def test_a_record_is_decoded_as_it_was_encoded(summary: RunSummary) -> None:
    assert RunSummary.decode(summary.encode()) == summary


def test_every_key_of_a_run_is_encoded_and_no_other() -> None:
    keys = {name.text for name in STORED_NAMES if "summary of a run's commit to the change table" in name.places}
    assert set(FULL.encode()) == keys


@given(SUMMARIES, SUMMARIES)
def test_an_update_replaces_the_entries_that_it_has(old: RunSummary, new: RunSummary) -> None:
    updated = old.with_entries_from(new)
    assert updated.with_entries_from(new) == updated
    assert RunSummary().with_entries_from(old) == old == old.with_entries_from(RunSummary())
