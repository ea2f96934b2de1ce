// The state of the warehouse, kept current by events. Views are redrawn a few times a second at most.

import { Problem, follow, get } from "./api.js";

const KEPT_POINTS = 300;
const POINT_MS = 2000;
const KEPT_JOBS = 500;
const SILENT_MS = 40_000; // The stream sends a sign of life at least every 15 s.
const DRAW_MS = 150;

export const store = {
  tables: new Map(),
  jobs: new Map(),
  service: null,
  batches: new Map(), // Source → its last batch, since the page was opened.
  link: "opening", // opening, open, lost, locked
  error: "",
  event: 0,
  topology: 0, // Grows when tables appear, disappear, or read others.
  points: new Map(), // Table → [{at, unmerged, recent}], since the page was opened.
};

const listeners = new Set();
let isDue = false;
let drawnAt = 0;

export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function scheduleDraw() {
  if (isDue) return;
  isDue = true;
  const draw = () => {
    isDue = false;
    drawnAt = performance.now();
    for (const listener of listeners) listener();
  };
  setTimeout(draw, Math.max(0, drawnAt + DRAW_MS - performance.now()));
}

function addPoint(table, at) {
  let points = store.points.get(table.table);
  if (!points) store.points.set(table.table, (points = []));
  // At most one point in two seconds for tables that change all the time.
  if (points.length > 1 && at - points.at(-2).at < POINT_MS) points.pop();
  points.push({ at, unmerged: table.unmerged_rows, recent: table.recent_rows });
  if (points.length > KEPT_POINTS) points.splice(0, points.length - KEPT_POINTS);
}

function hasSameReads(one, other) {
  return one.layer === other.layer && one.reads.length === other.reads.length && one.reads.every((read, n) => read === other.reads[n]) && one.tested_table === other.tested_table;
}

const onEvent = {
  table(table, at) {
    const known = store.tables.get(table.table);
    store.tables.set(table.table, table);
    if (!known || !hasSameReads(known, table)) store.topology += 1;
    addPoint(table, at);
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

// Reads everything. Tables are shown as soon as they arrive; the oldest answer's number says which events to follow.
async function load() {
  const [tables, service, jobs] = await Promise.all([
    get("/api/tables").then((answer) => {
      store.tables = new Map(answer.tables.map((table) => [table.table, table]));
      store.topology += 1;
      const at = Date.now();
      for (const table of store.tables.values()) addPoint(table, at);
      store.error = "";
      scheduleDraw();
      return answer;
    }),
    get("/api/service"),
    get("/api/jobs"),
  ]);
  store.service = service.service;
  store.jobs = new Map(jobs.jobs.toReversed().map((job) => [job.number, job]));
  store.event = Math.min(tables.event, service.event, jobs.event);
  scheduleDraw();
}

// Reads everything, then follows; starts over when the stream ends, or events were missed.
export async function followWarehouse() {
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
          scheduleDraw();
        },
        () => {
          store.link = "open";
          scheduleDraw();
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
        scheduleDraw();
        return;
      }
      if (!stop.signal.aborted) {
        store.error = error instanceof Problem ? error : "";
        pause = Math.min(pause * 2, 10_000);
      }
    }
    clearInterval(watch);
    store.link = store.tables.size ? "lost" : "opening";
    scheduleDraw();
    if (!stop.signal.aborted) await new Promise((done) => setTimeout(done, pause));
  }
}
