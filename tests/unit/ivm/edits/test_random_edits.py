"""Random queries with random edits: whatever is planned is exact, and most of what people do is planned."""

from __future__ import annotations

from types import ModuleType

import pytest

from arctic_runtime.ivm.edits import edit, inserts, table_rows
from tests.unit.ivm.edits.random_edits import EDITS
from tests.unit.ivm.edits.seeds import edit_seeds

STEP = 60


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 20))])
def test_a_random_edit_gives_the_rows_of_the_new_query(part: int) -> None:
    counts = edit_seeds(range(STEP * part, STEP * (part + 1)))
    assert counts.wrong == []
    assert len(EDITS - set(counts.planned)) < 4
    assert sum(counts.read.values()) > sum(counts.reasons.values())


@pytest.mark.parametrize(
    ("module", "proof"),
    [
        (edit, "is_implied"),
        pytest.param(edit, "is_unique", marks=pytest.mark.slow),
        pytest.param(inserts, "is_implied", marks=pytest.mark.slow),
        pytest.param(table_rows, "is_one_partner", marks=pytest.mark.slow),
    ],
)
def test_some_seed_finds_a_rule_that_asks_for_no_proof(
    module: ModuleType, proof: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, proof, lambda *_: True)
    assert any(edit_seeds(range(seed, seed + 10)).wrong for seed in range(0, 400, 10))
