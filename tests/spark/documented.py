"""Examples of the documentation as models, so that tests run what people read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment

from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

_DOCS = Path(__file__).parents[2] / "docs"


def documented(lake: Warehouse, page: str, heading: str, name: str, number: int = 0) -> Model:
    """The model of one of the SQL examples below a heading; its sources are tables of the warehouse by their names."""
    text = (_DOCS / page).read_text(encoding="utf-8")
    section = re.split(r"^#{1,6} ", text.split(f"\n{heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    example = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)[number]
    config: dict[str, Any] = {}

    def remember(**keys: Any) -> str:
        config.update(keys)
        return ""

    environment = Environment(autoescape=False)
    rendered = environment.from_string(example).render(
        config=remember, changes=lake.changes, source=lambda _, table: table, ref=lambda table: table
    )
    assert config.pop("materialized") == "arctic"
    return lake.model(name, rendered.replace("{", "{{").replace("}", "}}"), **config)
