// The versions of a table, and the change rows between two of them.

import { html, useState } from "./vendor/htm/preact.js";
import { buildUrl, get, post } from "./api.js";
import { formatCount, formatTime } from "./format.js";
import { Failure, useAction, useAnswer } from "./parts.js";
import { explainReason, nameMode } from "./reasons.js";
import { store } from "./store.js";

const MOST_ROWS = 200;

function Rows({ rows }) {
  if (!rows.length) return html`<p>No row differs between these versions.</p>`;
  const own = Object.keys(rows[0]).filter((name) => !name.startsWith("_"));
  const cell = (value) => (value === null ? html`<i>null</i>` : typeof value === "object" ? JSON.stringify(value) : String(value));
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Change rows">
    <table class="diff">
      <thead><tr><th scope="col">Change</th>${own.map((name) => html`<th scope="col" key=${name}>${name}</th>`)}</tr></thead>
      <tbody>
        ${rows.slice(0, MOST_ROWS).map(
          (row, n) => html`<tr key=${n} class=${`diff-${row._action}`}><td>${row._action}</td>${own.map((name) => html`<td key=${name}>${cell(row[name])}</td>`)}</tr>`,
        )}
      </tbody>
    </table>
    ${rows.length > MOST_ROWS ? html`<p>The first ${MOST_ROWS} of ${formatCount(rows.length)} rows.</p>` : null}
  </div>`;
}

export function Versions({ name, version, hasKey }) {
  const { answer, error } = useAnswer(`${name} ${version}`, () => get(buildUrl("/api/operations/history", [name])));
  const [choice, setChoice] = useState({ from: "", to: "" });
  const [asked, setAsked] = useState("");
  const [action, run] = useAction();
  const entries = answer?.data ?? [];
  const to = choice.to || entries[0]?.version || "";
  const from = choice.from || entries[1]?.version || "";
  const job = store.jobs.get(asked);
  const compare = () =>
    run("compare", async () => {
      const started = await post("/api/operations/changes", { tables: [name], arguments: { start: from, end: to, limit: MOST_ROWS + 1 } });
      if (!store.jobs.has(started.number)) store.jobs.set(started.number, started);
      setAsked(started.number);
    });
  const pick = (which, entry) => html`<input
    type="radio"
    name=${which}
    aria-label=${`${which === "from" ? "From" : "To"} version ${entry.version}`}
    checked=${(which === "from" ? from : to) === entry.version}
    onChange=${() => setChoice({ ...choice, [which]: entry.version })}
  />`;
  return html`<section class="panel full" aria-labelledby="versions-title">
    <h2 id="versions-title">Versions</h2>
    <${Failure} error=${error} />
    ${answer && !entries.length ? html`<p>No version yet.</p>` : null}
    ${entries.length
      ? html`<div class="scroll" tabindex="0" role="region" aria-label="List of versions">
            <table>
              <thead><tr><th scope="col">From</th><th scope="col">To</th><th scope="col">Version</th><th scope="col">At</th><th scope="col">How</th><th scope="col" class="wide">Why</th><th scope="col" class="number">Change rows</th></tr></thead>
              <tbody>
                ${entries.slice(0, 50).map(
                  (entry) => html`<tr key=${entry.version}>
                    <td>${pick("from", entry)}</td><td>${pick("to", entry)}</td>
                    <td>${entry.version}${entry.savepoints.map((label) => html` <span class="tag">${label}</span>`)}</td>
                    <td title=${entry.at}>${formatTime(entry.at.replace(" ", "T"))}</td><td>${nameMode(entry.mode)}</td><td class="text wide" title=${entry.reason}>${explainReason(entry.reason)}</td><td class="number">${formatCount(entry.rows)}</td>
                  </tr>`,
                )}
              </tbody>
            </table>
          </div>
          ${hasKey
            ? html`<p class="row"><button type="button" disabled=${!from || !to || from === to || action.busy !== ""} onClick=${compare}>Compare the two</button> <a class="button" href=${`#/diff/${encodeURIComponent(name)}`}>Compare with another schema</a></p>`
            : null}`
      : null}
    <${Failure} error=${action.error || job?.error} fix=${job?.error_details.fix} />
    <div aria-live="polite">
      ${job && (job.state === "waiting" || job.state === "running") ? html`<p>${job.state === "waiting" ? "Waits for its turn…" : "Reads the change rows…"}</p>` : null}
      ${job?.state === "done" && Array.isArray(job.answer) ? html`<${Rows} rows=${job.answer} />` : null}
    </div>
  </section>`;
}
