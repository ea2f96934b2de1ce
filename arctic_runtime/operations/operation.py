"""Defines operations on tables: their arguments, the functions that perform or plan them, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError, ConfigError, suggest_nearest
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.model.table_diff import Counterpart
from arctic_runtime.operations.arguments import Reader, read_text
from arctic_runtime.operations.masks import build_mask, mask_row
from arctic_runtime.operations.queries import QueryAnswer
from arctic_runtime.spark.engine.spark_loss import is_of_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.catalog.change_rows.read import ChangeRows
    from arctic_runtime.refresh_planner import RefreshPlanner
    from arctic_runtime.spark.refresh.run import Refresh
    from arctic_runtime.spark.tables.table_session import TableSession

JsonType = Literal["string", "integer", "boolean", "array", "object"]
TableChoice = Literal["one", "any", "named_or_all"]
"""Number of tables that an operation takes.

`one`: exactly one. `any`: any number; if none is named, all tables. `named_or_all`: one or more, or all tables if the
argument `all` is set.
"""


@dataclass(frozen=True)
class Answer:
    """The result of an operation: `data` for JSON, and `lines` of text for people.

    `differs` is True if the result is not as wanted: a check failed, a row does not exist, or work was not done.
    """

    data: Any
    lines: tuple[str, ...]
    differs: bool = False

    def __str__(self) -> str:
        return "\n".join(self.lines)


FindCounterparts = Callable[["str | None", "str | None"], Mapping[TableName, Counterpart]]
"""Function that maps tables to those of the same models in another environment.

It takes the folder of the environment's manifest and the name of its target, of which one is None.
"""


ListDescendants = Callable[[Collection[TableName]], Collection[TableName]]
"""Function that returns the tables that are computed from any of the given ones, also through others."""


def refuse_environment(*_: str | None) -> Mapping[TableName, Counterpart]:
    """Raises ConfigError: other environments are known only to a dbt project."""
    raise ConfigError(
        "The tables of another environment are known only to a dbt project.",
        fix="use `arctic diff` or `open_project`, or name the schema of the other tables",
    )


def list_no_descendants(_: Collection[TableName]) -> Collection[TableName]:
    """Returns nothing, for tables without a project."""
    return ()


Audit = Callable[[Mapping[str, Any]], None]
"""Function that writes facts to an audit log; they have names of tables, and no values of rows."""


def audit_nothing(_: Mapping[str, Any]) -> None:
    """Writes nothing, for processes without an audit log."""


AnswerQuery = Callable[[str, "int | None", Audit], QueryAnswer]
"""Function that answers a query over the tables of a project, as `answer_limited_query` does."""


def refuse_query(*_: Any) -> QueryAnswer:
    """Raises ConfigError: the names of tables in a query are known only to a dbt project."""
    raise ConfigError("The tables of a query are known only to a dbt project.", fix="use `arctic sql`")


@dataclass(frozen=True)
class OperationContext:
    """The environment of an operation: the catalog, all models of the project, and a function that starts Spark.

    `progress` is called with lines for people while the operation runs, and `audit` before it drops tables that the
    request does not name. With `hides_values`, values of masked columns are hashes in every answer, also in those that
    else show rows like a `select`.
    """

    reader: CatalogReader
    spark: Callable[[], SparkSession]
    models: tuple[Model, ...]
    progress: Callable[[str], None] = lambda _: None
    find_counterparts: FindCounterparts = refuse_environment
    list_descendants: ListDescendants = list_no_descendants
    audit: Audit = audit_nothing
    hides_values: bool = False
    answer_query: AnswerQuery = refuse_query

    def show_row(self, model: Model, row: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values of a row, or of a change row with its `_before`, as this answer may show them."""
        return mask_row(build_mask(model.masks), row) if self.hides_values else dict(row)

    def build_planner(self, model: Model) -> RefreshPlanner:
        from arctic_runtime.refresh_planner import RefreshPlanner

        return RefreshPlanner(model, self.reader)

    def open_table(self, model: Model) -> TableSession:
        from arctic_runtime.spark.tables.table_session import TableSession

        return TableSession(model, self.reader, self.spark)

    def build_refresh(self, model: Model) -> Refresh:
        from arctic_runtime.spark.refresh.run import Refresh

        return Refresh.from_model(model, self.reader, self.spark)


Values = Mapping[str, Any]
"""Values of an operation's arguments by name, converted by the arguments' `read` functions."""

Export = Callable[["OperationContext", Model, "Values"], "ChangeRows"]
"""Function that opens all rows of an operation's answer, so that they can be written in a file format."""

Perform = Callable[[OperationContext, Sequence[Model], Values], Answer]


@dataclass(frozen=True)
class Argument:
    """An argument of an operation."""

    name: str
    """Name of the argument; its flag on the command line is derived from it."""

    help: str
    """Description for users."""

    read: Reader = read_text
    """Converts a written value; raises ConfigError for an invalid one."""

    json_type: JsonType = "string"
    """Type of the value in JSON."""

    default: Any = None
    """Value that is used if the user gives none, as a user would write it; None for no default."""

    is_required: bool = False
    """Whether a user must give a value."""

    is_positional: bool = False
    """Whether the argument is positional on the command line, and not an option."""

    option: str = ""
    """Flag of the option on the command line, such as `--from`, if it differs from the name; else empty."""

    metavar: str = ""
    """Placeholder for the value in the help of the command line."""

    choices: tuple[str, ...] = ()
    """Allowed values; empty if any value may be valid."""

    exclusive_group: str = ""
    """Group of arguments of which a user can give at most one; empty for no group."""

    is_local: bool = False
    """Whether the value names files of the user's machine, so that a service does not take the argument."""

    @property
    def flag(self) -> str:
        """The argument's name on the command line: its flag, or its placeholder if it is positional."""
        if self.is_positional:
            return self.metavar
        return self.option or f"--{self.name.replace('_', '-')}"

    def read_value(self, value_given: Any, label: str) -> Any:
        """Converts the value that a user wrote, or the default if it is None; returns None without a default.

        Raises ConfigError for an invalid value, or if a required argument is None. In the message the argument is
        called `label`.
        """
        if value_given is None and self.is_required:
            raise ConfigError(f"`{label}` has no value")
        written = self.default if value_given is None else value_given
        return None if written is None else self.read(label, written)


@dataclass(frozen=True)
class Operation:
    """An operation that users can perform on tables, with its requirements."""

    name: str
    description: str
    tables: TableChoice
    """Number of tables that the operation takes."""

    perform: Perform
    """Function that performs the operation and returns the answer."""

    needs_spark: bool
    """Whether the operation needs Spark, for some tables at least."""

    changes: bool
    """Whether the operation changes tables."""

    arguments: tuple[Argument, ...] = ()
    plan: Perform | None = None
    """Function that describes the effects of `perform`, and changes nothing; None if it can't be planned."""

    plan_needs_spark: bool = False
    """Whether `plan` needs Spark too, as to find rows; other plans read only metadata."""

    needs_confirmation: bool = False
    """True if the operation is only planned unless the user confirms it."""

    needs_admin: bool = False
    """True if the operation replaces or drops rows, so that only administrators of a service may ask for it."""

    needs_query: bool = False
    """Whether the model's query must be compiled."""

    needs_queries: bool = False
    """Whether the queries of all models must be compiled."""

    needs_key: bool = False
    """True if the operation refuses tables without a primary key."""

    takes_landing: bool = False
    """True if the operation takes landing tables as well."""

    export: Export | None = None
    """Function that opens all rows of the answer; None if the answer has no rows to export."""

    tables_help: str | None = None
    """Description of the named tables for the command line; None for the usual one."""

    macro_arguments: tuple[str, ...] | None = None
    """Names of the arguments of the operation's dbt macro, in order; None if it has no macro."""

    @property
    def is_read_without_queries(self) -> bool:
        """Whether the operation only reads tables, and needs no queries of models for that."""
        return not (self.changes or self.needs_query or self.needs_queries)

    def get_argument(self, name: str, known: Sequence[str]) -> Argument:
        """Returns the argument `name`; raises ConfigError if it is not in `known`, the names that a caller accepts."""
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"{self.name} has no argument {name!r}{suggest_nearest(name, known)}; {has}")
        return next(argument for argument in self.arguments if argument.name == name)

    def read_values(
        self, arguments_given: Mapping[str, Any], known: Sequence[str] | None = None, flags: bool = False
    ) -> Values:
        """Converts the arguments that a user gave, texts or JSON values, and adds defaults; returns values by name.

        `known` are the names that the user may give, None for all. If `flags`, errors call arguments by their flags on
        the command line. Raises ConfigError for an unknown or missing argument, an invalid value, or two arguments that
        exclude each other.
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
        """Performs the operation on the tables of `models`; if `plan`, only returns its plan.

        `values` is a result of `read_values`. Raises ConfigError if the operation can't be planned, or if it needs a
        primary key that a table does not have, and CorruptState if Spark can't read a file of a table.
        """
        self.check_keys(models)
        try:
            return self._perform_or_plan(context, models, values, plan)
        except Exception as error:
            if not is_of_spark(error) or (explained := _explain_damage(error, models)) is None:
                raise
            raise explained from error

    def _perform_or_plan(
        self, context: OperationContext, models: Sequence[Model], values: Values, plan: bool
    ) -> Answer:
        if not plan:
            return self.perform(context, models, values)
        if self.plan is None:
            raise ConfigError(f"{self.name} can't be planned without execution; run it without --plan")
        return self.plan(context, models, values)

    def check_keys(self, models: Sequence[Model]) -> None:
        """Raises ConfigError if the operation needs a primary key and one of the tables has none."""
        for model in models:
            if self.needs_key:
                check_key(self.name, model)

    def _check_exclusive(self, arguments_given: Mapping[str, Any]) -> None:
        groups: dict[str, str] = {}
        for argument in self.arguments:
            if not argument.exclusive_group or arguments_given.get(argument.name) in (None, False):
                continue
            other = groups.setdefault(argument.exclusive_group, argument.name)
            if other != argument.name:
                raise ConfigError(f"{self.name} takes `{other}` or `{argument.name}`, not both")


def _explain_damage(error: Exception, models: Sequence[Model]) -> ArcticError | None:
    from arctic_runtime.spark.engine.java.java_errors import to_damage

    return to_damage(error, ", ".join(str(model.table) for model in models))


def check_key(operation: str, model: Model) -> None:
    """Raises ConfigError if a model has no primary key, which the operation of this name needs."""
    if model.is_appended:
        events = f"events of {model.ingested_from}" if model.ingested_from is not None else "events"
        raise ConfigError(
            f"{operation} needs a primary key, and {model.table} has none: {events} are appended to it.",
            fix="read its rows by a query; its versions are Iceberg's snapshots",
        )


def on_one(perform: Callable[[OperationContext, Model, Values], Answer]) -> Perform:
    """Adapts `perform`, which takes one model, to the signature of operations, which take a list of models.

    The list must have exactly one model.
    """

    def perform_on_one(context: OperationContext, models: Sequence[Model], values: Values) -> Answer:
        (model,) = models
        return perform(context, model, values)

    return perform_on_one
