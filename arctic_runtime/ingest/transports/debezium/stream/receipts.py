"""Receipts of batches, by which saved batches are acknowledged to the engine; used by several threads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arctic_runtime.ingest.transports.debezium.engine import EmbeddedEngine, Receipt


class Receipts:
    """The receipts of batches that are not acknowledged yet, by the batch's position, in the order of the stream."""

    def __init__(self, flush_seconds: float) -> None:
        self._flush_seconds = flush_seconds
        self._receipts: dict[str, tuple[EmbeddedEngine, Receipt]] = {}
        self._acknowledged_at = 0.0

    def add_receipt(self, position: str, engine: EmbeddedEngine, receipt: Receipt) -> None:
        self._receipts[position] = engine, receipt

    def acknowledge_until(self, position: str) -> None:
        """Acknowledges the batch at `position` and all earlier ones; does nothing if no batch has that position."""
        if position not in self._receipts:
            return
        engine, receipt = self._receipts[position]
        for earlier in list(self._receipts):
            del self._receipts[earlier]
            if earlier == position:
                break
        engine.acknowledge_receipt(receipt)
        self._acknowledged_at = time.monotonic()

    def wait_for_flush(self) -> None:
        """Waits until the engine has sent the last acknowledgement to the source, which it does at its next poll."""
        time.sleep(max(0.0, self._acknowledged_at + self._flush_seconds - time.monotonic()))
