"""The operation that compares tables with their recomputed queries, and checks their change rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from arctic_runtime.model.table import Model
from arctic_runtime.operations.operation import Answer, Operation, OperationContext, Values

_MEND = (
    "what to do: `dbt run --full-refresh --select {model}` computes the table again, publishes what differs, and "
    "readers follow it; if it differs again afterwards, the query's own answer changes"
)


def _verify_tables(context: OperationContext, models: Sequence[Model], _: Values) -> Answer:
    from arctic_runtime.spark.refresh.verify import verify_model

    data: dict[str, list[dict[str, Any]]] = {}
    lines: list[str] = []
    for model in models:
        start = time.monotonic()
        findings = verify_model(context.build_refresh(model))
        broken = [finding for finding in findings if finding.broken]
        left_out = [finding for finding in findings if finding.left_out]
        data[str(model.table)] = [asdict(finding) for finding in findings]
        verdict, checks = "differs" if broken else "ok", len(findings) - len(left_out)
        context.progress(f"{verdict:8} {model.table}: {checks} checks in {time.monotonic() - start:.1f} s")
        lines += [f"{model.table}: not checked: {finding.check}: {finding.left_out}" for finding in left_out]
        for finding in broken:
            lines.append(f"{model.table}: {finding.check}: {finding.broken} row(s) break it")
            lines += [f"  example: {example}" for example in finding.examples]
        if broken:
            lines.append(f"{model.table}: {_MEND.format(model=model.table.name)}")
    any_broken = any(finding["broken"] for findings in data.values() for finding in findings)
    return Answer(data, tuple(lines), differs=any_broken)


VERIFY = Operation(
    name="verify",
    description="recompute and compare tables with their queries and their histories",
    tables="any",
    perform=_verify_tables,
    needs_spark=True,
    changes=False,
    needs_query=True,
)
