"""One table and the means to work on it, for a refresh of its rows and for maintenance of its files."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable

from pyspark.sql import SparkSession

from arctic_runtime.catalog.observation.tables import observe_model
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CorruptState
from arctic_runtime.model.state import TableState
from arctic_runtime.model.step import describe_step
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.reconcile import plan_reconciliation
from arctic_runtime.spark.tables.context import Appended, Context
from arctic_runtime.spark.tables.steps import perform_step
from arctic_runtime.timings import Timings


class TableSession:
    """A model's table, the catalog that holds it, and a Spark session that starts when it is first asked for.

    `now` is the time of everything that is done here. Steps that are performed are added to `timings`.
    """

    def __init__(
        self,
        model: Model,
        reader: CatalogReader,
        spark: Callable[[], SparkSession],
        now: datetime.datetime | None = None,
        timings: Timings | None = None,
    ) -> None:
        self.model = model
        self.reader = reader
        self.spark = spark
        self.now = now or datetime.datetime.now(datetime.timezone.utc)
        self.timings = timings or Timings()

    def observe_state(self) -> TableState:
        """The state of the model's relations, without Spark."""
        return observe_model(self.reader, self.model)

    def build_context(self, state: TableState, appended: Appended | None = None) -> Context:
        """The context of steps that hold for a state, with a token of its own; starts Spark."""
        return Context(self.spark(), self.reader, self.model, state, uuid.uuid4().hex[:12], self.now, appended)

    def reconcile_until_done(
        self, state: TableState, fold: bool = False, appended: Appended | None = None, defer: bool = False
    ) -> TableState:
        """Performs the steps that `plan_reconciliation` plans until none is left, and returns the state after them.

        `appended` is the commit of change rows that was just made, if one was. Raises CorruptState if the table
        does not converge, and CommitConflict if another writer is faster.
        """
        thresholds = self.reader.thresholds.merge
        steps = plan_reconciliation(self.model, state, thresholds, fold, defer)
        for _ in range(thresholds.settling_rounds):
            if not steps:
                return state
            context = self.build_context(state, appended)
            for step in steps:
                with self.timings.measure_step(type(step).__name__):
                    perform_step(step, context)
            state = self.observe_state()
            steps = plan_reconciliation(self.model, state, thresholds, fold, defer)
        raise CorruptState(
            f"{self.model.table}: its base and view did not converge with its change table.",
            expected=f"no step left after {thresholds.settling_rounds} rounds",
            actual="; ".join(describe_step(step) for step in steps),
            fix="find out who else writes to these relations, then run again",
        )
