// The reasons for the mode of a run, in words. The codes are those of `Reason` in model/step.py; docs/runs.md has more.

export const REASONS = {
  FIRST_RUN: "no earlier run has loaded data",
  CHANGES: "there are new events, or a table that it reads has changed",
  NOTHING_NEW: "no table that it reads has a new version",
  FULL_REFRESH: "a full refresh was asked for",
  ADOPTED: "the table was taken over by `arctic adopt`",
  RESTATED: "`arctic restate` computed a part of the rows anew",
  RESTORED: "the table was taken back to an earlier version",
  FORGOTTEN: "rows were erased by `arctic forget`",
  REPLAYED: "dead letters were applied",
  RESYNCED: "the table was compared with its source",
  OVERWRITTEN: "the rows were replaced by `arctic overwrite`",
  QUERY_CHANGED: "the query, a view that it reads, the key or the configuration has changed",
  EDITED: "the query was edited, and the rows that differ were derived from the table",
  FORWARD: "the query was edited, and holds for what changes from now on; the rows stay",
  REVERTED: "the query is again that of an earlier version, to which the table returned",
  PROMOTED: "the rows are those that a clone has computed with this query",
  WAITS_FOR_RESTORED_QUERY: "the table was restored to a cut, and waits for the query of that cut",
  SCHEMA_ONLY: "only the columns were asked for",
  AS_CONFIGURED: "the model is configured to be computed in full",
  COST: "so many rows have changed that a full computation is cheaper",
  EVERYTHING_AFFECTED: "the changes may affect every row",
  TOO_COMPLEX: "the incremental plan would read too many sources",
  GROUPING_SETS: "`rollup`, `cube` or `grouping sets` of this form has no incremental plan",
  INCREMENT_FAILED: "the incremental computation failed, and the full one succeeded",
  LIMIT: "`limit` or `offset` without an order that tells all rows apart",
  NON_DETERMINISTIC: "the query calls a function without a fixed result",
  NOT_IN_NULLABLE: "`not in` over nullable columns, in a place without a rule",
  NOT_REPEATABLE: "the set of rows depends on a value that is not deterministic",
  NOT_SAME_TO_SPARK: "Spark may read the query differently from the incremental planner",
  ONE_ROW: "the table has one row",
  SCALAR_SUBQUERY: "a correlated scalar subquery of this form has no incremental plan",
  SELF_REFERENCE: "the query reads its own table",
  SOURCE_REPAIRED: "a full refresh repaired rows of a table that it reads",
  SOURCE_REPLACED: "a table that it reads was dropped and created again, replaced or rolled back",
  SOURCE_UNKNOWN: "the query reads a relation without a known version",
  SUBQUERY: "a subquery in a place without a rule",
  UNKNOWN_FUNCTION: "the query calls a function that is not built into Spark",
  UNPARSED: "the query could not be parsed",
  UNRESOLVED: "a name in the query, or a key column, is unknown or ambiguous",
  UNSUPPORTED: "the query has a construct without a rule for incremental maintenance",
  UPSTREAM_EXPIRED: "a table that it reads no longer keeps the version that the last run read",
};

const MODES = { create: "created", incremental: "incremental", full: "in full", unchanged: "unchanged" };
const CODED = /^(\w+) \(([A-Z_]+)\)$/;

export function explainReason(code) {
  return REASONS[code] ?? code;
}

export function nameMode(mode) {
  return MODES[mode] ?? mode;
}

// The reason of a job in words: `full (COST)` becomes a sentence, other texts stay.
export function explainJob(text) {
  const [, mode, code] = CODED.exec(text) ?? [];
  return code ? `${nameMode(mode)}: ${explainReason(code)}` : text;
}
