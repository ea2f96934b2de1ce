"""A session to work on one model's tables and views, for refreshes and for maintenance."""

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
    """A model, its catalog, and a Spark session that is started at its first use.

    `now` is the time of all work in the session, by default that of its creation. The seconds of performed steps are
    added to `timings`.
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
        """Reads the state of the model's relations from the catalog, without Spark."""
        return observe_model(self.reader, self.model)

    def build_context(self, state: TableState, appended: Appended | None = None) -> Context:
        """Builds the context for steps that were planned for `state`, with a new token; starts Spark.

        The token is part of the names of the branches that the steps create.
        """
        return Context(self.spark(), self.reader, self.model, state, uuid.uuid4().hex[:12], self.now, appended)

    def reconcile_until_done(
        self, state: TableState, fold: bool = False, appended: Appended | None = None, defer: bool = False
    ) -> TableState:
        """Brings the base table and the view up to date with the change table; returns the state after that.

        It performs the steps that `plan_reconciliation` plans until none is left. If `fold`, all unmerged changes are
        merged into the base table; if `defer`, none are merged if a view can show them. `appended` is the commit of
        change rows that was just made, or None. Raises CorruptState if steps are left after many rounds, and
        CommitConflict if another writer is faster.
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
