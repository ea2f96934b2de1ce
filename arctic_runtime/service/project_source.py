"""An ingested source of the project, as a service knows it before its first rows arrive."""

from __future__ import annotations

from dataclasses import dataclass

from arctic_runtime.model.names import TableName


@dataclass(frozen=True)
class ProjectSource:
    """A source of the project: its name, its connection for people, without secrets, and its declared tables."""

    name: str
    connection: str = ""
    tables: tuple[TableName, ...] = ()
