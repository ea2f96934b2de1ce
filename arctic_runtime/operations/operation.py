"""Definition of an operation on tables: its arguments, the function that performs it, and its answer."""

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
"""Number of tables that an operation takes.

`one` is exactly one. `any` is any number, and all if none is named. `named_or_all` is one or more, or the argument
`all`.
"""


@dataclass(frozen=True)
class Answer:
    """The answer of an operation: data for JSON and lines for people.

    `differs` says that the result is not as it should be: a check failed, a row was not found, or work was not done.
    """

    data: Any
    lines: tuple[str, ...]
    differs: bool = False

    def __str__(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True)
class OperationContext:
    """What an operation works with: the catalog, the project's models, and `spark`, which starts Spark when called.

    `progress` is called with lines for people while the operation runs.
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
"""Values of an operation's arguments, by the arguments' names, as their readers returned them."""

Perform = Callable[[OperationContext, Sequence[Model], Values], Answer]


@dataclass(frozen=True)
class Argument:
    """An argument of an operation; `default` is written as a user would write it, None if there is no default.

    On the command line it is positional, or the option `option`, which is made from the name if it is empty. At most
    one argument of an `exclusive_group` can be given.
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
        """The argument's name on the command line."""
        if self.is_positional:
            return self.metavar
        return self.option or f"--{self.name.replace('_', '-')}"

    def read_value(self, value_given: Any, label: str) -> Any:
        """Reads the value that a user gave, or the default if that is None; None if there is no default either.

        Raises ConfigError for a value that can't be read, or None for a required argument; the error names it `label`.
        """
        if value_given is None and self.is_required:
            raise ConfigError(f"`{label}` has no value")
        written = self.default if value_given is None else value_given
        return None if written is None else self.read(label, written)


@dataclass(frozen=True)
class Operation:
    """An operation that users can perform on tables, and what it needs.

    `plan` answers what `perform` would do, and changes nothing; None if that can't be said. An operation that
    `needs_confirmation` is only planned unless it is confirmed. `macro_arguments` are the arguments of its dbt macro,
    in their order; None if it has no macro. `needs_query` says that the model's query must be compiled, `needs_queries`
    that the queries of all models must be. `takes_landing` says that it can be performed on a landing table, and
    `needs_key` that tables must have a primary key.
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
        """Returns the argument of this name; raises ConfigError if the name is not one of `known`.

        These are the names that the caller accepts.
        """
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"{self.name} has no argument {name!r}{suggest_nearest(name, known)}; {has}")
        return next(argument for argument in self.arguments if argument.name == name)

    def read_values(
        self, arguments_given: Mapping[str, Any], known: Sequence[str] | None = None, flags: bool = False
    ) -> Values:
        """Reads the values of all arguments from those that are given, as text or as values from JSON.

        `known` are the names that can be given, None for all. With `flags`, errors name arguments as the command line
        does. Raises ConfigError for an unknown argument, a missing one, a value that can't be read, or two arguments
        that exclude each other.
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
        """Performs the operation on tables, or with `plan` only says what it would do.

        `values` are those that `read_values` returned. Raises ConfigError if the operation needs a key that a table
        does not have, or can't be planned.
        """
        self.check_keys(models)
        if not plan:
            return self.perform(context, models, values)
        if self.plan is None:
            raise ConfigError(f"{self.name} can't be planned without execution; run it without --plan")
        return self.plan(context, models, values)

    def check_keys(self, models: Sequence[Model]) -> None:
        """Raises ConfigError if the operation needs a key that a table does not have."""
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
    """Returns a function that calls `perform` with the only table of an operation that takes one."""

    def perform_on_one(context: OperationContext, models: Sequence[Model], values: Values) -> Answer:
        (model,) = models
        return perform(context, model, values)

    return perform_on_one
