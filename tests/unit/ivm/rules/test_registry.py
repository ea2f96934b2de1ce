"""Each operator of a query has a rule."""

from __future__ import annotations

from typing import get_args

from arctic_runtime.ivm.algebra.tree import Node
from arctic_runtime.ivm.rules.registry import RULES


def test_each_operator_has_a_rule() -> None:
    missing = sorted(operator.__name__ for operator in set(get_args(Node)) - set(RULES))
    assert not missing, (
        f"operators without a rule: {', '.join(missing)}. "
        "Write one in arctic_runtime/ivm/rules, and enter it in arctic_runtime/ivm/rules/registry.py."
    )
    assert set(RULES) == set(get_args(Node)), "a rule is entered for a class that is no operator"
