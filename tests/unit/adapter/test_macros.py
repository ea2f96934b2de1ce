"""dbt reads no project while two macros of one package have a name."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

MACROS = Path(__file__).parents[3] / "dbt/include/arctic/macros"


def test_every_macro_has_a_name_of_its_own() -> None:
    counts = Counter(
        name for file in MACROS.rglob("*.sql") for name in re.findall(r"{%-?\s*macro\s+(\w+)", file.read_text("utf-8"))
    )
    assert len(counts) > 20
    assert [name for name, count in counts.items() if count > 1] == []
