// The buttons of a table. An operation that rewrites files shows its plan first.

import { html, useState } from "./vendor/htm/preact.js";
import { buildUrl, get, post } from "./api.js";
import { Operations } from "./operations.js";
import { Dialog, Failure, useAction, useAnswer } from "./parts.js";

const PLANNED = [
  { name: "compact", title: "Compact", modes: ["auto", "full"] },
  { name: "expire", title: "Expire", modes: [] },
  { name: "split", title: "Split nodes", modes: [], needsKey: true },
];

function Plan({ operation, name, onClose }) {
  const [mode, setMode] = useState(operation.modes[0] ?? "");
  const [action, run] = useAction();
  const parameters = mode ? { mode } : {};
  const { answer, error, key } = useAnswer(`${operation.name} ${mode}`, () => get(buildUrl(`/api/operations/${operation.name}/plan`, [name], parameters)));
  const isEmpty = Array.isArray(answer?.data?.steps) && !answer.data.steps.length;
  const isHere = key === `${operation.name} ${mode}`;
  const start = () =>
    run("start", async () => {
      await post(`/api/operations/${operation.name}`, { tables: [name], ...(mode ? { arguments: parameters } : {}) });
      onClose();
    });
  return html`<${Dialog} title=${`${operation.title}: ${name}`} onClose=${onClose}>
    ${operation.modes.length
      ? html`<p><label class="field">Mode <select value=${mode} onChange=${(event) => setMode(event.target.value)}>${operation.modes.map((choice) => html`<option key=${choice} value=${choice}>${choice}</option>`)}</select></label></p>`
      : null}
    <${Failure} error=${(isHere && error) || action.error} />
    ${isHere && answer ? html`<pre>${answer.lines.join("\n") || "Nothing to do."}</pre>` : isHere && error ? null : html`<p>Planning…</p>`}
    <div class="actions">
      <button type="button" onClick=${onClose}>Close</button>
      <button type="button" class="primary" disabled=${!isHere || !answer || isEmpty || action.busy !== ""} onClick=${start}>${isEmpty ? "Nothing to do" : "Do it"}</button>
    </div>
  <//>`;
}

// What may be pressed at any time: nothing here changes or drops rows.
export function Actions({ table, service }) {
  const [action, run] = useAction();
  const name = table.table;
  const isPaused = service?.paused_tables.includes(name);
  const isUpkeepPaused = service?.paused_upkeep.includes(name);
  const busy = action.busy !== "";
  const ask = (path, body) => run(path, () => post(`/api/${path}`, { tables: [name], ...body }));
  return html`<div class="actions">
      ${table.kind === "model" ? html`<button type="button" class="primary" disabled=${busy} onClick=${() => ask("refresh")}>Refresh now</button>` : null}
      ${isOwn(table)
        ? isPaused || isUpkeepPaused
          ? html`<button type="button" disabled=${busy} onClick=${() => ask("resume")}>Resume</button>`
          : html`<button type="button" disabled=${busy} onClick=${() => ask("pause")}>Pause</button>
              <button type="button" disabled=${busy} onClick=${() => ask("pause", { upkeep_only: true })}>Pause upkeep</button>`
        : null}
    </div>
    <${Failure} error=${action.error} />`;
}

export function isOwn(table) {
  return table.kind === "model" || table.kind === "ingested";
}

// What rewrites files, or alters rows and versions, at the end of the page, far from `Refresh now`.
export function Changes({ table }) {
  const [shown, setShown] = useState("");
  const name = table.table;
  const operation = PLANNED.find((entry) => entry.name === shown);
  return html`<section class="panel full" aria-labelledby="changes-title">
    <h2 id="changes-title">Files, rows and versions</h2>
    <div class="danger-zone">
      <p>Rewrites or expires files. Rows stay as they are; the plan is shown first.</p>
      <div class="actions">${PLANNED.filter((entry) => !entry.needsKey || table.nodes > 0).map((entry) => html`<button type="button" key=${entry.name} onClick=${() => setShown(entry.name)}>${entry.title}…</button>`)}</div>
    </div>
    <div class="danger-zone">
      <p>Alters rows or versions: savepoint, restore, overwrite, reset. Each is asked for and confirmed.</p>
      <div class="actions"><button type="button" class="risky" onClick=${() => setShown("more")}>Change…</button></div>
    </div>
    ${shown === "more" ? html`<${Operations} name=${name} kind=${table.kind} onClose=${() => setShown("")} />` : null}
    ${operation ? html`<${Plan} key=${shown} operation=${operation} name=${name} onClose=${() => setShown("")} />` : null}
  </section>`;
}
