"""Declarations: statements of a user that a table of change events has all rows as of a point in the order of events.

A user makes a declaration, for a partition or for the whole table, by an overwrite of these rows. Events from before
that point, by `sequence_by`, then no longer change these rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import is_same_name
from arctic_runtime.model.table import Model

Part = tuple[tuple[str, str], ...]
"""A partition: pairs of a partition column and its value as a text; empty for the whole table."""

WHOLE: Part = ()


@dataclass(frozen=True)
class Declared:
    """Declarations of a table: maps each partition to the point in the order of events as of which it was declared.

    The partition `WHOLE` stands for all rows. A point is a value of `sequence_by`, as a text.
    """

    points: Mapping[Part, str] = field(default_factory=dict)

    def list_earlier_positions(self, part: Part) -> tuple[str, ...]:
        """Lists the points of the declarations that share rows with the partition `part`.

        A new declaration for `part` must not be as of an earlier point than any of these.
        """
        return tuple(
            point for partition, point in self.points.items() if WHOLE in (partition, part) or partition == part
        )

    def add_declaration(self, part: Part, point: str) -> Declared:
        """Returns the declarations with a new one for `part` as of `point`, which replaces the old one for `part`.

        A declaration for all rows also replaces those of all partitions.
        """
        positions = {partition: at for partition, at in self.points.items() if part != WHOLE and partition != part}
        return Declared({**positions, part: point})

    def describe_declarations(self) -> str:
        """Describes the declarations for users: each partition with its point in the order of events."""
        parts = [f"{describe_part(part)} as of {point}" for part, point in self.points.items()]
        return ", ".join(parts)


def describe_part(part: Part) -> str:
    """Describes a partition for users, such as `country = DE`, or `all rows`."""
    return " and ".join(f"{name} = {value}" for name, value in part) or "all rows"


def read_part(model: Model, values: Mapping[str, str]) -> Part:
    """Returns the partition that `values`, by column, identify; without values, the whole table.

    Its columns are in the order of the model's `partition_by`. Raises ConfigError unless `values` has exactly the
    columns that `partition_by` has without a transform, so that two partitions are equal or have no row in common.
    """
    columns = [transform.column for transform in model.config.partition_by if transform.unit == "identity"]
    matches = [
        (name, value) for name in columns for given_name, value in values.items() if is_same_name(given_name, name)
    ]
    if values and (len(matches) != len(columns) or len(values) != len(columns)):
        raise ConfigError(
            f"{model.table}: {', '.join(values)} does not identify a partition.",
            expected=(
                f"a value for each of {', '.join(columns) or 'no column, since the table has no identity partition'}"
            ),
            fix=(
                "give a value for each column of `partition_by` that has no transform, or declare all rows of the table"
            ),
        )
    return tuple(matches)
