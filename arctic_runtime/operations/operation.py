"""Definition of an operation on tables: its arguments, what it does, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.table import Model
from arctic_runtime.operations.arguments import Reader, read_text
from arctic_runtime.refresh_planner import RefreshPlanner
from arctic_runtime.suggestions import suggest_nearest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.spark.refresh.run import Refresh
    from arctic_runtime.spark.tables.table_session import TableSession

JsonType = Literal["string", "integer", "boolean", "array", "object"]
TableChoice = Literal["one", "any", "named_or_all"]
"""How many tables an operation takes: exactly one; any number, where none means all; or the same with an `all`."""


@dataclass(frozen=True)
class Answer:
    """The outcome of an operation: data that JSON can hold, lines for people, and whether a check failed."""

    data: Any
    lines: tuple[str, ...]
    differs: bool = False

    def __str__(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True)
class OperationContext:
    """The catalog, the project's models, and a Spark session that starts when it is first asked for.

    `progress` gets lines for people while the operation runs.
    """

    reader: CatalogReader
    spark: Callable[[], SparkSession]
    models: tuple[Model, ...]
    progress: Callable[[str], None] = lambda _: None

    def build_planner(self, model: Model) -> RefreshPlanner:
        return RefreshPlanner(model, self.reader)

    def open_table(self, model: Model) -> TableSession:
        from arctic_runtime.spark.tables.table_session import TableSession

        return TableSession(model, self.reader, self.spark)

    def build_refresh(self, model: Model) -> Refresh:
        from arctic_runtime.spark.refresh.run import Refresh

        return Refresh.from_model(model, self.reader, self.spark)


Values = Mapping[str, Any]
"""Values of an operation's arguments by their names, as their readers return them."""

Perform = Callable[[OperationContext, Sequence[Model], Values], Answer]


@dataclass(frozen=True)
class Argument:
    """An argument of an operation; `default` is as a user would write it, and None means that it has no value.

    On the command line it is `option`, or positional. At most one argument of an `exclusive_group` can be given.
    """

    name: str
    help: str
    read: Reader = read_text
    json_type: JsonType = "string"
    default: Any = None
    is_required: bool = False
    is_positional: bool = False
    option: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    exclusive_group: str = ""

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        if self.is_positional:
            return self.metavar
        return self.option or f"--{self.name.replace('_', '-')}"

    def read_value(self, value_given: Any, label: str) -> Any:
        """The value that is meant, if None stands for the default; raises ConfigError, which calls it `label`."""
        if value_given is None and self.is_required:
            raise ConfigError(f"`{label}` has no value")
        written = self.default if value_given is None else value_given
        return None if written is None else self.read(label, written)


@dataclass(frozen=True)
class Operation:
    """Something that users can ask of tables.

    `plan` answers what `perform` would do, and changes nothing. An operation that `needs_confirmation` is only planned
    unless it is confirmed. `macro_arguments` are those of its dbt macro, in their order; None if it has no macro.
    `needs_query` says that the model's query must be compiled, `needs_queries` those of all models, `takes_landing`
    that a landing table can be named, and `needs_key` that it can't be asked of tables without a primary key.
    """

    name: str
    description: str
    tables: TableChoice
    perform: Perform
    needs_spark: bool
    changes: bool
    arguments: tuple[Argument, ...] = ()
    plan: Perform | None = None
    needs_confirmation: bool = False
    needs_query: bool = False
    needs_queries: bool = False
    needs_key: bool = False
    takes_landing: bool = False
    tables_help: str | None = None
    macro_arguments: tuple[str, ...] | None = None

    def get_argument(self, name: str, known: Sequence[str]) -> Argument:
        """The argument of this name, of those that are `known` where it is asked for; raises ConfigError."""
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"{self.name} has no argument {name!r}{suggest_nearest(name, known)}; {has}")
        return next(argument for argument in self.arguments if argument.name == name)

    def read_values(
        self, arguments_given: Mapping[str, Any], known: Sequence[str] | None = None, flags: bool = False
    ) -> Values:
        """The values of all arguments from those that are given, as text or as JSON has them.

        `known` are the arguments that can be given, all unless it says otherwise; `flags` calls them in errors as the
        command line does. Raises ConfigError for an unknown argument, a missing one, or a value that can't be read.
        """
        names = [argument.name for argument in self.arguments] if known is None else known
        for name in arguments_given:
            self.get_argument(name, names)
        self._check_exclusive(arguments_given)
        return {
            argument.name: argument.read_value(
                arguments_given.get(argument.name), argument.flag if flags else argument.name
            )
            for argument in self.arguments
        }

    def run_operation(
        self, context: OperationContext, models: Sequence[Model], values: Values, plan: bool = False
    ) -> Answer:
        """Performs it on tables, or says what it would do; `values` are those that `read` returns.

        Raises ConfigError if it needs a key that a table does not have.
        """
        self.check_keys(models)
        if not plan:
            return self.perform(context, models, values)
        if self.plan is None:
            raise ConfigError(f"{self.name} can't be planned without execution; run it without --plan")
        return self.plan(context, models, values)

    def check_keys(self, models: Sequence[Model]) -> None:
        """Raises ConfigError if it needs a key that a table does not have."""
        for model in models:
            if self.needs_key and model.is_appended:
                events = f"events of {model.ingested_from}" if model.ingested_from is not None else "events"
                raise ConfigError(
                    f"{self.name} needs a primary key, and {model.table} has none: {events} are appended to it.",
                    fix="read its rows by a query; its versions are Iceberg's snapshots",
                )

    def _check_exclusive(self, arguments_given: Mapping[str, Any]) -> None:
        groups: dict[str, str] = {}
        for argument in self.arguments:
            if not argument.exclusive_group or arguments_given.get(argument.name) in (None, False):
                continue
            other = groups.setdefault(argument.exclusive_group, argument.name)
            if other != argument.name:
                raise ConfigError(f"{self.name} takes `{other}` or `{argument.name}`, not both")


def on_one(perform: Callable[[OperationContext, Model, Values], Answer]) -> Perform:
    """Builds the performer of an operation on one table."""

    def perform_on_one(context: OperationContext, models: Sequence[Model], values: Values) -> Answer:
        (model,) = models
        return perform(context, model, values)

    return perform_on_one
