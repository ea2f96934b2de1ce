// What the page knows of the warehouse, kept up to date by events. Views are drawn anew a few times a second at most.

import { Problem, follow, get } from "./api.js";

const KEPT_POINTS = 300;
const POINT_MS = 2000;
const KEPT_JOBS = 500;
const SILENT_MS = 40_000; // A stream says at least every 15 s that it is alive.
const DRAW_MS = 150;

export const store = {
  tables: new Map(),
  jobs: new Map(),
  service: null,
  batches: new Map(), // Source → its last batch, since the page was opened.
  link: "opening", // opening, open, lost, locked
  error: "",
  event: 0,
  topology: 0, // Moves when tables come, go, or read others.
  points: new Map(), // Table → [{at, unmerged, recent}], since the page was opened.
};

const listeners = new Set();
let isDue = false;
let drawnAt = 0;

export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function changed() {
  if (isDue) return;
  isDue = true;
  const draw = () => {
    isDue = false;
    drawnAt = performance.now();
    for (const listener of listeners) listener();
  };
  setTimeout(draw, Math.max(0, drawnAt + DRAW_MS - performance.now()));
}

function note(table, at) {
  let points = store.points.get(table.table);
  if (!points) store.points.set(table.table, (points = []));
  // Of tables that change all the time, a point each two seconds.
  if (points.length > 1 && at - points.at(-2).at < POINT_MS) points.pop();
  points.push({ at, unmerged: table.unmerged_rows, recent: table.recent_rows });
  if (points.length > KEPT_POINTS) points.splice(0, points.length - KEPT_POINTS);
}

function sameReads(one, other) {
  return one.layer === other.layer && one.reads.length === other.reads.length && one.reads.every((of, n) => of === other.reads[n]);
}

const onEvent = {
  table(table, at) {
    const known = store.tables.get(table.table);
    store.tables.set(table.table, table);
    if (!known || !sameReads(known, table)) store.topology += 1;
    note(table, at);
  },
  job(job) {
    store.jobs.delete(job.number);
    store.jobs.set(job.number, job);
    if (store.jobs.size > KEPT_JOBS) store.jobs.delete(store.jobs.keys().next().value);
  },
  batch(batch, at) {
    store.batches.set(batch.source, { ...batch, at });
  },
  forgotten_job({ number }) {
    store.jobs.delete(number);
  },
  service(service) {
    store.service = service;
  },
};

// Tables are shown as soon as they are there; the number of the oldest answer says which events to follow.
async function load() {
  const [tables, service, jobs] = await Promise.all([
    get("/api/tables").then((found) => {
      store.tables = new Map(found.tables.map((of) => [of.table, of]));
      store.topology += 1;
      const at = Date.now();
      for (const of of store.tables.values()) note(of, at);
      store.error = "";
      changed();
      return found;
    }),
    get("/api/service"),
    get("/api/jobs"),
  ]);
  store.service = service.service;
  store.jobs = new Map(jobs.jobs.toReversed().map((of) => [of.number, of]));
  store.event = Math.min(tables.event, service.event, jobs.event);
  changed();
}

// Reads everything, then follows; starts over when the stream ends, or events were missed.
export async function live() {
  let pause = 500;
  for (;;) {
    const stop = new AbortController();
    let heardAt = Date.now();
    const watch = setInterval(() => Date.now() - heardAt > SILENT_MS && stop.abort(), 5000);
    try {
      await load();
      pause = 500;
      await follow(
        store.event,
        (kind, number, { at, data }) => {
          if (kind === "missed") stop.abort();
          store.event = number;
          onEvent[kind]?.(data, Date.parse(at));
          changed();
        },
        () => {
          store.link = "open";
          changed();
        },
        stop.signal,
        () => {
          heardAt = Date.now();
        },
      );
    } catch (error) {
      if (error instanceof Problem && error.status === 401) {
        clearInterval(watch);
        store.link = "locked";
        changed();
        return;
      }
      if (!stop.signal.aborted) {
        store.error = error instanceof Problem ? error : "";
        pause = Math.min(pause * 2, 10_000);
      }
    }
    clearInterval(watch);
    store.link = store.tables.size ? "lost" : "opening";
    changed();
    if (!stop.signal.aborted) await new Promise((done) => setTimeout(done, pause));
  }
}
