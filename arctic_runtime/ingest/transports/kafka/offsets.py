"""Chooses the Kafka offsets to read next, from the last position and the offsets that Kafka still has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from arctic_runtime.errors import SourceError
from arctic_runtime.model.sources.positions import ParsedPosition, keep_opaque

Partition = tuple[str, int]
"""The name of a topic and the number of one of its partitions."""

Offsets = Mapping[Partition, int]


@dataclass(frozen=True)
class OffsetRange:
    """The offsets of a partition's events that Kafka still has: from `first` to `end`, which is exclusive."""

    first: int
    end: int


@dataclass(frozen=True)
class Range:
    """A range of events of a partition: from the offset `start` to the offset `end`, which is exclusive."""

    partition: Partition
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def encode_offsets(offsets: Offsets) -> str:
    """Encodes offsets as a position: JSON of topic → partition → the offset to read next, as in Spark's source."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(topics)


def decode_offsets(position: str) -> dict[Partition, int]:
    topics: Mapping[str, Mapping[str, int]] = json.loads(position)
    return {
        (topic, int(number)): offset for topic, partitions in topics.items() for number, offset in partitions.items()
    }


def parse_position(position: str) -> ParsedPosition:
    """Parses the text of a position to the offset in each partition; any other text is kept unparsed."""
    try:
        offsets = decode_offsets(position)
    except (ValueError, TypeError, AttributeError):
        return keep_opaque(position)
    topics: dict[str, list[str]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(f"{partition}:{offset}")
    shown = ", ".join(" ".join([topic, *places]) for topic, places in topics.items())
    return ParsedPosition(position, shown or position, offsets or None, is_transaction_end=True)


def choose_start(
    position: Offsets, offsets_kept: Mapping[Partition, OffsetRange], skips_lost: bool = False
) -> dict[Partition, int]:
    """Chooses the offset to read next for every existing partition.

    A partition that `position` does not contain is read from its first event. Raises SourceError if events after the
    position were deleted, or if the topic was created again. With `skips_lost`, nothing is raised, and reading
    continues with the first event that is left.
    """
    known = {topic for topic, _ in position}
    offsets = {}
    for partition, has in offsets_kept.items():
        # A partition that was added to a topic later has lost events if its first ones were deleted.
        wanted = position.get(partition, 0 if partition[0] in known else has.first)
        if not has.first <= wanted <= has.end and not skips_lost:
            raise _build_lost_error(partition, wanted, has)
        offsets[partition] = wanted if has.first <= wanted <= has.end else has.first
    gone = sorted(set(position) - set(offsets_kept))
    if gone and not skips_lost:
        raise _build_lost_error(gone[0], position[gone[0]], None)
    return offsets


def choose_next_ranges(offsets: Offsets, ends: Offsets, max_events: int) -> tuple[Range, ...]:
    """Chooses the next ranges to read, with about `max_events` events in all.

    `offsets` are the offsets to read next, and `ends` the end offsets of partitions. The share of a partition is
    proportional to the number of its unread events, but at least one event.
    """
    rest = {partition: ends[partition] - offset for partition, offset in offsets.items() if partition in ends}
    rest = {partition: count for partition, count in rest.items() if count > 0}
    total = sum(rest.values())
    return tuple(
        Range(partition, offsets[partition], offsets[partition] + min(count, max(1, count * max_events // total)))
        for partition, count in sorted(rest.items())
    )


def cut_ranges(ranges: Iterable[Range], ends: Offsets) -> tuple[Range, ...]:
    """Returns the ranges, shortened to end at the offset that `ends` has for their partition.

    Ranges that become empty are left out; partitions that `ends` does not contain are not shortened.
    """
    cut = (
        replace(offset_range, end=min(offset_range.end, ends.get(offset_range.partition, offset_range.end)))
        for offset_range in ranges
    )
    return tuple(offset_range for offset_range in cut if offset_range.start < offset_range.end)


def advance_offsets(offsets: Offsets, ranges: Iterable[Range]) -> dict[Partition, int]:
    """Returns the offsets to read next after `ranges` were read."""
    return {**offsets, **{offset_range.partition: offset_range.end for offset_range in ranges}}


def count_events_left(offsets: Offsets, ends: Offsets) -> int:
    """Number of events between the offsets to read next and the end offsets, in all partitions."""
    return sum(max(0, end - offsets.get(partition, 0)) for partition, end in ends.items())


def group_by_topic(ranges: Iterable[Range]) -> Iterator[tuple[str, tuple[Range, ...]]]:
    by_topic: dict[str, list[Range]] = {}
    for offset_range in ranges:
        by_topic.setdefault(offset_range.partition[0], []).append(offset_range)
    return ((topic, tuple(own)) for topic, own in by_topic.items())


def _build_lost_error(partition: Partition, wanted: int, partition_kept: OffsetRange | None) -> SourceError:
    topic, number = partition
    if partition_kept is None:
        actual = "no such partition"
    elif wanted < partition_kept.first:
        actual = f"offsets from {partition_kept.first} on: Kafka's retention has deleted what was before"
    else:
        actual = f"offsets up to {partition_kept.end}: the topic was deleted and created again"
    return SourceError(
        "Kafka no longer has events that were not read yet.",
        where=f"topic {topic}, partition {number}",
        expected=f"offset {wanted}",
        actual=actual,
        fix=(
            "run once with `on_data_loss: skip`, which goes on with the first event that is there, and let the source "
            "send all rows again, for instance by a snapshot of Debezium"
        ),
    )
