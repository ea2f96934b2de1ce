// The list of jobs: their states, times, reasons, progress and costs; found by state, kind or text.

import { html, useMemo, useState } from "./vendor/htm/preact.js";
import { remove } from "./api.js";
import { Chart } from "./chart.js";
import { formatAge, formatBytes, formatClock, formatCount, formatSeconds, formatTime, shortenCount } from "./format.js";
import { Failure, TableLink, useAction } from "./parts.js";
import { explainJob } from "./reasons.js";

const SIGNS = { waiting: "…", running: "↻", done: "✓", failed: "✕", cancelled: "⊘" };
const RANK = { running: 0, waiting: 1 };
const SHOWN = 100;
const LEAST_POINTS = 3;
const KINDS = { refresh: "Refreshes", ingest: "Batches of ingestion", upkeep: "Upkeep", operation: "Operations", run: "Runs by dbt", test: "Tests" };

export function formatRowCounts(rows) {
  const { insert = 0, upsert = 0, update = 0, delete: deleted = 0 } = rows;
  return insert || upsert || update || deleted ? `+${shortenCount(insert + upsert)} ~${shortenCount(update)} −${shortenCount(deleted)}` : "";
}

function describeTimes(job, now) {
  if (job.state === "waiting") return `queued ${formatAge(job.queued_at, now)}`;
  const seconds = job.state === "running" && job.began_at ? Math.max(job.seconds, (now - Date.parse(job.began_at)) / 1000) : job.seconds;
  if (job.state === "running") return `for ${formatSeconds(seconds)}, since ${formatClock(job.began_at ?? job.queued_at, now)}`;
  return `${formatSeconds(seconds)}, ended ${formatClock(job.ended_at ?? job.queued_at, now)}`;
}

function listAllTimes(job) {
  const times = { queued: job.queued_at, began: job.began_at, ended: job.ended_at };
  return Object.entries(times).filter(([, time]) => time).map(([name, time]) => `${name} ${formatTime(time)}`).join("\n");
}

export function Job({ job, now }) {
  const [action, run] = useAction();
  const isOpen = (job.state === "running" || job.state === "waiting") && job.kind !== "ingest";
  const cost = [formatRowCounts(job.rows), job.bytes ? `${formatBytes(job.bytes)} written` : ""].filter(Boolean).join(", ");
  return html`<li class=${`job job-${job.state}`}>
    <div class="job-head">
      <span class=${`state state-job-${job.state}`}><span class="sign" aria-hidden="true">${SIGNS[job.state]}</span>${job.state}</span>
      <strong>${job.name}</strong>
      <span class="tables">${job.tables.slice(0, 3).map((name) => html`<${TableLink} key=${name} name=${name} /> `)}${job.tables.length > 3 ? `and ${job.tables.length - 3} more` : ""}</span>
      <span class="cost">${cost}</span>
      <span class="time" title=${listAllTimes(job)}>${describeTimes(job, now)}</span>
      ${isOpen
        ? html`<button type="button" disabled=${action.busy !== ""} aria-label=${`Cancel ${job.name} of ${job.tables.join(", ")}`} onClick=${() => run("cancel", () => remove(`/api/jobs/${encodeURIComponent(job.number)}`))}>Cancel</button>`
        : null}
    </div>
    ${job.reason ? html`<p class="reason" title=${job.reason}>${explainJob(job.reason)}</p>` : null}
    ${job.lines.length
      ? html`<details open=${job.state === "running"}>
          <summary>${job.state === "running" ? job.lines.at(-1) : "Progress"}</summary>
          <pre>${job.lines.join("\n")}</pre>
        </details>`
      : null}
    <${Failure} error=${job.error || action.error} fix=${job.error_details.fix} />
  </li>`;
}

export function sortJobs(jobs) {
  return [...jobs.values()].sort(
    (a, b) => (RANK[a.state] ?? 2) - (RANK[b.state] ?? 2) || Date.parse(b.ended_at ?? b.queued_at) - Date.parse(a.ended_at ?? a.queued_at),
  );
}

function hasText(job, text) {
  return !text || [job.name, job.reason, explainJob(job.reason), job.error, ...job.tables].some((part) => part.toLowerCase().includes(text));
}

// A point for each job that ended: when, and after how long.
function Durations({ jobs }) {
  const ended = jobs.filter((job) => job.ended_at && job.began_at).sort((a, b) => Date.parse(a.ended_at) - Date.parse(b.ended_at));
  if (ended.length < LEAST_POINTS) return null;
  const times = ended.map((job) => Date.parse(job.ended_at) / 1000);
  const select = (isFailed) => ended.map((job) => ((job.state === "failed") === isFailed ? job.seconds : null));
  const longest = ended.reduce((most, job) => (job.seconds > most.seconds ? job : most));
  const sorted = ended.map((job) => job.seconds).sort((a, b) => a - b);
  const text = `${formatCount(ended.length)} ended jobs took ${formatSeconds(sorted[Math.floor(sorted.length / 2)])} at the median, and ${formatSeconds(longest.seconds)} at the most (${longest.name} of ${longest.tables[0] ?? "the service"}).`;
  return html`<section class="panel durations" aria-labelledby="durations-title">
    <h2 id="durations-title">Durations</h2>
    <p>${text}</p>
    <${Chart} label=${text} times=${times} series=${[{ values: select(false), colour: "--flow", isPoints: true }, { values: select(true), colour: "--bad", isPoints: true }]} range="seconds" format=${formatSeconds} />
    <p class="legend"><span class="key dot key-flow"></span>done or cancelled <span class="key dot key-bad"></span>failed</p>
  </section>`;
}

export function Jobs({ jobs, now }) {
  const [text, setText] = useState("");
  const [state, setState] = useState("");
  const [kind, setKind] = useState("");
  const [most, setMost] = useState(SHOWN);
  const sorted = useMemo(() => sortJobs(jobs), [now]);
  const wanted = text.trim().toLowerCase();
  const matching = sorted.filter((job) => (!kind || job.kind === kind) && hasText(job, wanted));
  const selection = matching.filter((job) => !state || job.state === state);
  const count = (name) => matching.filter((job) => job.state === name).length;
  const kinds = Object.keys(KINDS).filter((name) => name === kind || sorted.some((job) => job.kind === name));
  const choose = (set) => (value) => {
    set(value);
    setMost(SHOWN);
  };
  return html`<section class="page" aria-labelledby="jobs-title">
    <h1 id="jobs-title">Jobs</h1>
    <p class="lead">${sorted.filter((job) => job.state === "running").length} running, ${sorted.filter((job) => job.state === "waiting").length} waiting. Writers run first; upkeep uses the rest of the budget.</p>
    <div class="filter inset">
      <input type="search" placeholder="Search jobs" aria-label="Search jobs by table, name, reason or error" value=${text} spellcheck="false" onInput=${(event) => choose(setText)(event.target.value)} />
      <label class="field">Kind <select value=${kind} onChange=${(event) => choose(setKind)(event.target.value)}><option value="">all</option>${kinds.map((name) => html`<option key=${name} value=${name}>${KINDS[name]}</option>`)}</select></label>
      <div class="chips" role="group" aria-label="States of jobs">
        ${Object.keys(SIGNS).filter((name) => count(name) || name === state).map((name) => html`<button key=${name} type="button" class=${`chip state-job-${name}`} aria-pressed=${String(state === name)} onClick=${() => choose(setState)(state === name ? "" : name)}><span class="sign" aria-hidden="true">${SIGNS[name]}</span>${name} <b>${formatCount(count(name))}</b></button>`)}
      </div>
    </div>
    <${Durations} key=${`${kind} ${state} ${wanted} ${selection.length < LEAST_POINTS}`} jobs=${selection} />
    <ul class="jobs">${selection.slice(0, most).map((job) => html`<${Job} key=${job.number} job=${job} now=${now} />`)}</ul>
    ${selection.length > most ? html`<p class="row"><button type="button" onClick=${() => setMost(most + SHOWN)}>Show more of the ${formatCount(selection.length)} jobs</button></p>` : null}
    ${sorted.length ? null : html`<p class="empty">No job is running, and none ran recently.</p>`}
    ${sorted.length && !selection.length ? html`<p class="empty">No job has this text, kind and state.</p>` : null}
    <p class="hidden" role="status">${formatCount(selection.length)} jobs</p>
  </section>`;
}
