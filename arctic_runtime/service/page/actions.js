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

export function Actions({ table, service }) {
  const [shown, setShown] = useState("");
  const [action, run] = useAction();
  const name = table.table;
  const isPaused = service?.paused_tables.includes(name);
  const isUpkeepPaused = service?.paused_upkeep.includes(name);
  const busy = action.busy !== "";
  const ask = (path, body) => run(path, () => post(`/api/${path}`, { tables: [name], ...body }));
  const operation = PLANNED.find((entry) => entry.name === shown);
  const isOwn = table.kind === "model" || table.kind === "ingested";
  return html`<div class="actions">
      ${table.kind === "model" ? html`<button type="button" class="primary" disabled=${busy} onClick=${() => ask("refresh")}>Refresh now</button>` : null}
      ${isOwn ? PLANNED.filter((entry) => !entry.needsKey || table.nodes > 0).map((entry) => html`<button type="button" key=${entry.name} onClick=${() => setShown(entry.name)}>${entry.title}…</button>`) : null}
      ${isOwn
        ? isPaused || isUpkeepPaused
          ? html`<button type="button" disabled=${busy} onClick=${() => ask("resume")}>Resume</button>`
          : html`<button type="button" disabled=${busy} onClick=${() => ask("pause")}>Pause</button>
              <button type="button" disabled=${busy} onClick=${() => ask("pause", { upkeep_only: true })}>Pause upkeep</button>`
        : null}
      ${isOwn ? html`<button type="button" onClick=${() => setShown("more")}>Change…</button>` : null}
    </div>
    ${shown === "more" ? html`<${Operations} name=${name} kind=${table.kind} onClose=${() => setShown("")} />` : null}
    ${operation ? html`<${Plan} key=${shown} operation=${operation} name=${name} onClose=${() => setShown("")} />` : null}
    <${Failure} error=${action.error} />`;
}
