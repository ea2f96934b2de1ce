// Numbers and times for people.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function whole(number) {
  return typeof number === "number" ? WHOLE.format(number) : String(number ?? "");
}

export function short(number) {
  return Math.abs(number) < 10_000 ? WHOLE.format(number) : SHORT.format(number);
}

export function bytes(number) {
  let unit = 0;
  let value = number;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 90) return `${whole} s`;
  if (whole < 5400) return `${Math.round(whole / 60)} min`;
  if (whole < 129_600) return `${Math.round(whole / 3600)} h`;
  return `${Math.round(whole / 86_400)} d`;
}

export function secondsSince(time, now) {
  return time ? Math.max(0, (now - Date.parse(time)) / 1000) : null;
}

export function ago(time, now) {
  const seconds = secondsSince(time, now);
  if (seconds === null) return "never";
  return seconds < 1.5 ? "now" : `${span(seconds)} ago`;
}

export function clock(time) {
  return time ? new Date(time).toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" }) : "";
}

// The name without its catalog; a part may have dots itself, so schema and table are only told apart for display.
export function shortName(table) {
  const dot = table.indexOf(".");
  return dot < 0 ? table : table.slice(dot + 1);
}

export function schemaOf(table) {
  return table.split(".")[1] ?? "";
}

export function leafName(table) {
  return table.split(".").slice(2).join(".") || table;
}

const NAMED = 0.6; // The share of a layer's tables that make it one with a name.

// What people call a layer: the first word of most of its tables, such as dwd, else their schemas.
export function layerTitle(tables) {
  if (tables.every((of) => of.kind !== "model" && of.kind !== "scheduled")) return "Sources";
  const counts = new Map();
  for (const of of tables) {
    const [word, ...rest] = leafName(of.table).split("_");
    if (rest.length && /^[a-z]{2,5}$/.test(word)) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const [word, count] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
  if (count >= NAMED * tables.length) return word.toUpperCase();
  return [...new Set(tables.map((of) => schemaOf(of.table)))].slice(0, 3).join(", ").toUpperCase();
}

export const STATES = {
  failed: { sign: "✕", text: "Its last refresh, or its ingestion, failed." },
  missing: { sign: "∅", text: "It does not exist." },
  held: { sign: "⊘", text: "It waits: a table above it failed, or its ingestion can't follow." },
  behind: { sign: "◔", text: "It shows its sources later than it should." },
  refreshing: { sign: "↻", text: "It is being refreshed." },
  delayed: { sign: "◷", text: "It may be older, as its target_lag allows." },
  paused: { sign: "‖", text: "It is left alone until somebody resumes it." },
  fresh: { sign: "✓", text: "It shows its sources as they are, through all layers." },
  unknown: { sign: "·", text: "It is written by others." },
};

export function stateOf(table) {
  if (table.kind === "scheduled" && table.state === "unknown") return { sign: "◴", text: `dbt runs it at the times of ${table.schedule}.` };
  return STATES[table.state] ?? { sign: "?", text: table.state };
}

// As of when a table shows its sources, through all layers; of a table that others write, when it changed last.
export function freshness(table, now) {
  if (!table.freshness) return ago(table.changed_at, now);
  return table.freshness.as_of ? `as of ${ago(table.freshness.as_of, now)}` : "not known";
}

// Whether it shows them later than it may.
export function isLate(table) {
  return Boolean(table.freshness) && table.freshness.state !== "fresh" && table.freshness.state !== "delayed";
}

export function linkTo(table) {
  return `#/table/${encodeURIComponent(table)}`;
}
