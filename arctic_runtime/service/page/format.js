// Numbers and times for people.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function formatCount(number) {
  return typeof number === "number" ? WHOLE.format(number) : String(number ?? "");
}

export function shortenCount(number) {
  return Math.abs(number) < 10_000 ? WHOLE.format(number) : SHORT.format(number);
}

export function formatBytes(number) {
  let unit = 0;
  let value = number;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

export function formatDuration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 90) return `${whole} s`;
  if (whole < 5400) return `${Math.round(whole / 60)} min`;
  if (whole < 129_600) return `${Math.round(whole / 3600)} h`;
  return `${Math.round(whole / 86_400)} d`;
}

// Seconds as a stopwatch has them, for axes and durations of jobs.
export function formatSeconds(seconds) {
  if (seconds >= 90) return formatDuration(seconds);
  return `${seconds >= 10 || Number.isInteger(seconds) ? Math.round(seconds) : seconds.toFixed(1)} s`;
}

// The labels of an axis of times, in seconds since 1970: days, minutes or seconds, as its length needs.
export function formatSpan(times) {
  const length = times.length > 1 ? times.at(-1) - times[0] : 0;
  const date = (at) => new Date(at * 1000);
  if (length > 129_600) return times.map((at) => date(at).toLocaleDateString("en-GB", { day: "numeric", month: "short" }));
  const options = length > 900 ? { hour: "2-digit", minute: "2-digit" } : {};
  return times.map((at) => date(at).toLocaleTimeString("en-GB", options));
}

// The time of day, with the date where that is another day.
export function formatClock(time, now) {
  const at = new Date(time);
  const clock = at.toLocaleTimeString("en-GB");
  return at.toDateString() === new Date(now).toDateString() ? clock : `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock}`;
}

export function measureAge(time, now) {
  return time ? Math.max(0, (now - Date.parse(time)) / 1000) : null;
}

export function formatAge(time, now) {
  const seconds = measureAge(time, now);
  if (seconds === null) return "never";
  return seconds < 1.5 ? "now" : `${formatDuration(seconds)} ago`;
}

export function formatTime(time) {
  return time ? new Date(time).toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" }) : "";
}

// The name without its catalog; a part may have dots itself, so this split into schema and table is for display only.
export function getShortName(table) {
  const dot = table.indexOf(".");
  return dot < 0 ? table : table.slice(dot + 1);
}

export function getSchema(table) {
  return table.split(".")[1] ?? "";
}

export function getLeafName(table) {
  return table.split(".").slice(2).join(".") || table;
}

const NAMED = 0.6; // Share of a layer's tables with the same prefix that gives the layer its name.

// The title of a layer: the common prefix of most of its tables, such as dwd, or else their schemas.
export function nameLayer(tables) {
  if (tables.every((table) => table.kind !== "model" && table.kind !== "scheduled")) return "Sources";
  const counts = new Map();
  for (const table of tables) {
    const [word, ...rest] = getLeafName(table.table).split("_");
    if (rest.length && /^[a-z]{2,5}$/.test(word)) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const [word, count] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
  if (count >= NAMED * tables.length) return word.toUpperCase();
  return [...new Set(tables.map((table) => getSchema(table.table)))].slice(0, 3).join(", ").toUpperCase();
}

export const STATES = {
  failed: { sign: "✕", text: "Its last refresh, or its ingestion, failed." },
  missing: { sign: "∅", text: "It does not exist." },
  held: { sign: "⊘", text: "It waits: an upstream table failed, or its ingestion can't follow a change of its source." },
  behind: { sign: "◔", text: "It shows its sources later than it should." },
  loading: { sign: "⇣", text: "It is loaded for the first time, or waits for a table above it that is." },
  refreshing: { sign: "↻", text: "It is being refreshed." },
  delayed: { sign: "◷", text: "Its rows may be older: its target_lag allows it." },
  paused: { sign: "‖", text: "It is not refreshed until somebody resumes it." },
  fresh: { sign: "✓", text: "It shows its sources as they are, through all layers." },
  unknown: { sign: "·", text: "It is written by other programs." },
};

export function describeState(table) {
  if (table.kind === "scheduled" && table.state === "unknown") return { sign: "◴", text: `dbt runs it on the schedule ${table.schedule}.` };
  return STATES[table.state] ?? { sign: "?", text: table.state };
}

// The time as of which a table shows its sources, through all layers; for a source table, the time of its last change.
export function describeFreshness(table, now) {
  if (!table.freshness) return table.state === "loading" ? "loading" : formatAge(table.changed_at, now);
  return table.freshness.as_of ? `as of ${formatAge(table.freshness.as_of, now)}` : table.state === "loading" ? "loading" : "not known";
}

// Whether the table is later than its target_lag allows; one that is loaded for the first time is not.
export function isLate(table) {
  return Boolean(table.freshness) && table.state !== "loading" && table.freshness.state !== "fresh" && table.freshness.state !== "delayed";
}

// The tables to which a table has edges in the graph: those that it reads, or for a quarantine the table that it belongs to.
export function listUpstreams(table) {
  return table.tested_table ? [table.tested_table] : table.reads;
}

export function linkTo(table) {
  return `#/table/${encodeURIComponent(table)}`;
}
