"""A column of a relation, described by its Spark type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dbt.adapters.spark.column import SparkColumn

from dbt.adapters.arctic.relations.identifiers import quote_identifier


@dataclass
class ArcticColumn(SparkColumn):
    """A column with Spark's own type name (`bigint`, `decimal(10,2)`, `struct<a:int>`)."""

    TYPE_LABELS: ClassVar[dict[str, str]] = {"TEXT": "string", "VARCHAR": "string", "INTEGER": "int", "LONG": "bigint"}

    @classmethod
    def translate_type(cls, dtype: str) -> str:
        return cls.TYPE_LABELS.get(dtype.upper(), dtype)

    @classmethod
    def string_type(cls, size: int) -> str:  # noqa: ARG003
        return "string"

    @property
    def data_type(self) -> str:
        return self.translate_type(self.dtype)

    def is_string(self) -> bool:
        return self.dtype.lower().split("(")[0] in ("string", "text", "varchar", "char")

    def is_numeric(self) -> bool:
        return self.dtype.lower().split("(")[0] in ("decimal", "numeric", "dec")

    def is_integer(self) -> bool:
        return self.dtype.lower() in ("tinyint", "smallint", "int", "integer", "bigint", "long")

    def can_expand_to(self, other_column: object) -> bool:  # noqa: ARG002
        """Always False: strings of Iceberg have no maximum length."""
        return False

    @property
    def quoted(self) -> str:
        return quote_identifier(self.column)
