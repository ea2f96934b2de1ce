"""Ranges of offsets follow one another without a gap, whatever Kafka has, or say what is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.kafka.offsets import (
    OffsetRange,
    Partition,
    advance_offsets,
    choose_next_ranges,
    choose_start,
    count_events_left,
    decode_offsets,
    encode_offsets,
    group_by_topic,
)

_partitions = st.tuples(st.text(min_size=1, max_size=3), st.integers(0, 300))
_offsets = st.dictionaries(_partitions, st.integers(0, 2**45), max_size=8)
_counts = st.dictionaries(_partitions, st.integers(0, 1000), min_size=1, max_size=6)


@given(_offsets)
def test_a_position_leads_back_to_its_offsets(offsets: dict[Partition, int]) -> None:
    assert decode_offsets(encode_offsets(offsets)) == offsets


@given(_counts, st.integers(1, 500), st.integers(0, 2**40))
def test_batches_read_every_event_once_and_stay_within_their_limit(
    counts: dict[Partition, int], most: int, first: int
) -> None:
    ends = {partition: first + count for partition, count in counts.items()}
    offsets = dict.fromkeys(counts, first)
    while ranges := choose_next_ranges(offsets, ends, most):
        # A partition whose share is less than one event gives one all the same.
        assert sum(map(len, ranges)) <= most + len(counts)
        assert all(offsets[span.partition] == span.start < span.end <= ends[span.partition] for span in ranges)
        assert {span for _, own in group_by_topic(ranges) for span in own} == set(ranges)
        offsets, before = advance_offsets(offsets, ranges), count_events_left(offsets, ends)
        assert count_events_left(offsets, ends) == before - sum(map(len, ranges))
    assert offsets == ends
    assert count_events_left(offsets, ends) == count_events_left({**offsets, ("not read yet", 0): 1}, ends) == 0


@given(_counts)
def test_a_limit_that_is_not_reached_takes_everything(counts: dict[Partition, int]) -> None:
    ranges = choose_next_ranges(dict.fromkeys(counts, 0), counts, sum(counts.values()) + 1)
    assert {span.partition: span.end for span in ranges} == {one: count for one, count in counts.items() if count}


def test_a_partition_with_much_leaves_something_for_others() -> None:
    ranges = choose_next_ranges({("t", 0): 0, ("t", 1): 0}, {("t", 0): 1_000_000, ("t", 1): 3}, 100)
    assert [(span.partition[1], len(span)) for span in ranges] == [(0, 99), (1, 1)]


def test_topics_that_are_new_begin_with_what_is_there() -> None:
    kept = {("t", 0): OffsetRange(7, 9), ("u", 0): OffsetRange(5, 5)}
    assert choose_start({("t", 0): 8}, kept) == {("t", 0): 8, ("u", 0): 5}


def test_partitions_that_are_new_begin_with_their_first_event() -> None:
    assert choose_start({("t", 0): 8}, {("t", 0): OffsetRange(7, 9), ("t", 1): OffsetRange(0, 2)}) == {
        ("t", 0): 8,
        ("t", 1): 0,
    }
    with pytest.raises(SourceError, match=r"topic t, partition 1(?s:.*)offset 0(?s:.*)from 1 on"):
        choose_start({("t", 0): 8}, {("t", 0): OffsetRange(7, 9), ("t", 1): OffsetRange(1, 2)})


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ({("t", 0): OffsetRange(6, 9)}, "offsets from 6 on: Kafka's retention has deleted what was before"),
        ({("t", 0): OffsetRange(0, 4)}, "offsets up to 4: the topic was deleted and created again"),
        ({("u", 0): OffsetRange(0, 4)}, "no such partition"),
    ],
)
def test_events_that_are_lost_are_an_error_unless_that_is_wanted(
    kept: dict[Partition, OffsetRange], message: str
) -> None:
    with pytest.raises(SourceError, match=rf"(?s)expected: offset 5.*{message}.*on_data_loss: skip"):
        choose_start({("t", 0): 5}, kept)
    assert choose_start({("t", 0): 5}, kept, skips_lost=True) == {one: has.first for one, has in kept.items()}
