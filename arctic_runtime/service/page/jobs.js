// The list of jobs: their states, reasons, progress and costs.

import { html } from "./vendor/htm/preact.js";
import { remove } from "./api.js";
import { formatAge, formatBytes, formatDuration, formatTime, shortenCount } from "./format.js";
import { Failure, TableLink, useAction } from "./parts.js";

const SIGNS = { waiting: "…", running: "↻", done: "✓", failed: "✕", cancelled: "⊘" };
const RANK = { running: 0, waiting: 1 };

export function formatRowCounts(rows) {
  const { insert = 0, upsert = 0, update = 0, delete: deleted = 0 } = rows;
  return insert || upsert || update || deleted ? `+${shortenCount(insert + upsert)} ~${shortenCount(update)} −${shortenCount(deleted)}` : "";
}

export function Job({ job, now }) {
  const [action, run] = useAction();
  const isOpen = (job.state === "running" || job.state === "waiting") && job.kind !== "ingest";
  const seconds = job.state === "running" && job.began_at ? Math.max(job.seconds, (now - Date.parse(job.began_at)) / 1000) : job.seconds;
  const cost = [formatRowCounts(job.rows), job.bytes ? `${formatBytes(job.bytes)} written` : ""].filter(Boolean).join(", ");
  return html`<li class=${`job job-${job.state}`}>
    <div class="job-head">
      <span class=${`state state-job-${job.state}`}><span class="sign" aria-hidden="true">${SIGNS[job.state]}</span>${job.state}</span>
      <strong>${job.name}</strong>
      <span class="tables">${job.tables.slice(0, 3).map((name) => html`<${TableLink} key=${name} name=${name} /> `)}${job.tables.length > 3 ? `and ${job.tables.length - 3} more` : ""}</span>
      <span class="cost">${cost}</span>
      <span class="time" title=${formatTime(job.queued_at)}>${job.state === "waiting" ? `queued ${formatAge(job.queued_at, now)}` : formatDuration(seconds)}</span>
      ${isOpen
        ? html`<button type="button" disabled=${action.busy !== ""} aria-label=${`Cancel ${job.name} of ${job.tables.join(", ")}`} onClick=${() => run("cancel", () => remove(`/api/jobs/${encodeURIComponent(job.number)}`))}>Cancel</button>`
        : null}
    </div>
    ${job.reason ? html`<p class="reason">${job.reason}</p>` : null}
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

export function Jobs({ jobs, now }) {
  const sorted = sortJobs(jobs);
  const running = sorted.filter((job) => job.state === "running").length;
  const waiting = sorted.filter((job) => job.state === "waiting").length;
  return html`<section class="page" aria-labelledby="jobs-title">
    <h1 id="jobs-title">Jobs</h1>
    <p class="lead">${running} running, ${waiting} waiting. Writers run first; upkeep uses the rest of the budget.</p>
    <ul class="jobs">${sorted.slice(0, 200).map((job) => html`<${Job} key=${job.number} job=${job} now=${now} />`)}</ul>
    ${sorted.length ? null : html`<p class="empty">No job is running, and none ran recently.</p>`}
  </section>`;
}
