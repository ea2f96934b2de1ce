"""Declarations for a table of change events: what all rows are, or those of a partition, as of a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import is_same_name
from arctic_runtime.model.table import Model

Part = tuple[tuple[str, str], ...]
"""A partition: each column that the table is partitioned by, and its value as a text; none for the whole table."""

WHOLE: Part = ()


@dataclass(frozen=True)
class Declared:
    """Up to which place rows are declared, by partition; `WHOLE` stands for all."""

    places: Mapping[Part, str] = field(default_factory=dict)

    def list_earlier_positions(self, part: Part) -> tuple[str, ...]:
        """The places that rows of a partition were declared as of, here or with others; new ones may not be older."""
        return tuple(
            place for partition, place in self.places.items() if WHOLE in (partition, part) or partition == part
        )

    def add_declaration(self, part: Part, place: str) -> Declared:
        """With a newer declaration of a partition, or of all, which stands for those of its partitions as well."""
        positions = {partition: at for partition, at in self.places.items() if part != WHOLE and partition != part}
        return Declared({**positions, part: place})

    def describe_declarations(self) -> str:
        """A few words for people."""
        parts = [f"{describe_part(part)} as of {place}" for part, place in self.places.items()]
        return ", ".join(parts)


def describe_part(part: Part) -> str:
    """A few words for people."""
    return " and ".join(f"{name} = {value}" for name, value in part) or "all rows"


def read_part(model: Model, values: Mapping[str, str]) -> Part:
    """A partition from the values of its columns, in the order in which the model names them.

    Raises ConfigError if it is not a whole partition: so any two are the same or have no row in common.
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
