"""Declarations of all rows of an event table, or of a partition, as of a place in the order of events."""

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
    """The place in the order of events as of which the rows of each partition were declared; `WHOLE` is all rows."""

    places: Mapping[Part, str] = field(default_factory=dict)

    def list_earlier_positions(self, part: Part) -> tuple[str, ...]:
        """Lists the places of earlier declarations that share rows with `part`; a new one must not be older."""
        return tuple(
            place for partition, place in self.places.items() if WHOLE in (partition, part) or partition == part
        )

    def add_declaration(self, part: Part, place: str) -> Declared:
        """Returns the declarations with a newer one for `part`; one for all rows replaces those of all partitions."""
        positions = {partition: at for partition, at in self.places.items() if part != WHOLE and partition != part}
        return Declared({**positions, part: place})

    def describe_declarations(self) -> str:
        """Describes the declared partitions with their places, for people."""
        parts = [f"{describe_part(part)} as of {place}" for part, place in self.places.items()]
        return ", ".join(parts)


def describe_part(part: Part) -> str:
    """Describes a partition for people."""
    return " and ".join(f"{name} = {value}" for name, value in part) or "all rows"


def read_part(model: Model, values: Mapping[str, str]) -> Part:
    """Returns the partition with these column `values`, its columns in the order of the model's `partition_by`.

    Without values it is the whole table. Raises ConfigError unless there is a value for each identity partition column
    and for no other. So two partitions are equal or have no row in common.
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
