"""An ingested source of the project, as a service knows it before its first rows arrive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from arctic_runtime.model.names import TableName


@dataclass(frozen=True)
class ProjectSource:
    """A source of the project: its name, its connection for people, without secrets, and its declared tables.

    `names` are the names of these tables in the source, and `dead_letters` is the table that stores its progress.
    """

    name: str
    connection: str = ""
    tables: tuple[TableName, ...] = ()
    names: Mapping[TableName, str] = field(default_factory=dict)
    dead_letters: TableName | None = None
