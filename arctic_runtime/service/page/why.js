// Why a row is what it is: the answer of `arctic why` for a key, as a tree that opens and closes.

import { html, useState } from "./vendor/htm/preact.js";
import { buildUrl, get, post } from "./api.js";
import { formatCount } from "./format.js";
import { Failure, useAction, useAnswer } from "./parts.js";
import { store } from "./store.js";

const OPEN_DEPTH = 3;
const OPEN_ITEMS = 3;
const MANY = 50;

function isBranch(value) {
  return value !== null && typeof value === "object" && Object.keys(value).length > 0;
}

function describeValue(value) {
  if (value === null || value === undefined) return "null";
  if (typeof value === "object") return Array.isArray(value) ? "none" : "{}";
  return String(value);
}

// What a branch that is closed has inside: its plain values.
function summarize(value) {
  if (Array.isArray(value)) return `${formatCount(value.length)} ${value.length === 1 ? "item" : "items"}`;
  return Object.entries(value).filter(([, part]) => !isBranch(part) && part !== null && part !== "").slice(0, 4).map(([name, part]) => `${name} ${describeValue(part)}`).join(", ");
}

function Branch({ name, value, depth, isOneOfMany }) {
  const [most, setMost] = useState(MANY);
  const [isOpen, setOpen] = useState(depth < OPEN_DEPTH && !isOneOfMany);
  const entries = Array.isArray(value) ? value.map((part, n) => [String(n + 1), part]) : Object.entries(value);
  return html`<li>
    <details open=${isOpen} onToggle=${(event) => event.target === event.currentTarget && setOpen(event.currentTarget.open)}>
      <summary><b>${name}</b> ${isOpen ? "" : summarize(value)}</summary>
      ${isOpen
        ? html`<ul>
            ${entries.slice(0, most).map(([label, part]) => (isBranch(part) ? html`<${Branch} key=${label} name=${label} value=${part} depth=${depth + 1} isOneOfMany=${Array.isArray(value) && value.length > OPEN_ITEMS} />` : html`<li key=${label}><span class="muted">${label}</span> <span class="leaf">${describeValue(part)}</span></li>`))}
            ${entries.length > most ? html`<li><button type="button" class="plain more" onClick=${() => setMost(most + MANY)}>${formatCount(entries.length - most)} more</button></li>` : null}
          </ul>`
        : null}
    </details>
  </li>`;
}

export function JsonTree({ name, value }) {
  return html`<ul class="json">${isBranch(value) ? html`<${Branch} name=${name} value=${value} depth=${0} />` : html`<li>${describeValue(value)}</li>`}</ul>`;
}

// A field for each column of the key; what is left empty at the end is left out.
export function Why({ name, columns }) {
  const { answer: operations } = useAnswer("operations", () => get("/api/operations"));
  const [values, setValues] = useState(columns.map(() => ""));
  const [asked, setAsked] = useState("");
  const [direct, setDirect] = useState(null);
  const [action, run] = useAction();
  const operation = operations?.find((entry) => entry.name === "why");
  if (!operation) return null;
  const job = store.jobs.get(asked);
  const filled = values.slice(0, values.findLastIndex((value) => value !== "") + 1);
  const ask = (event) => {
    event.preventDefault();
    run("why", async () => {
      setAsked("");
      setDirect(null);
      if (operation.is_answered_at_once) {
        const search = filled.map((value) => `&key=${encodeURIComponent(value)}`).join("");
        setDirect((await get(`${buildUrl("/api/operations/why", [name])}${search}`)).data);
      } else {
        const started = await post("/api/operations/why", { tables: [name], arguments: { key: filled } });
        if (!store.jobs.has(started.number)) store.jobs.set(started.number, started);
        setAsked(started.number);
      }
    });
  };
  const isBusy = action.busy !== "" || Boolean(job && !job.ended_at);
  const answer = direct ?? (job?.state === "done" ? job.answer : null);
  return html`<section class="panel full" aria-labelledby="row-why-title">
    <h2 id="row-why-title">Why is a row as it is?</h2>
    <form class="filter inset" onSubmit=${ask} role="search" aria-label="Row by its key">
      ${columns.map((column, n) => html`<label class="field" key=${column}>${column} <input type="text" autocomplete="off" spellcheck=${false} value=${values[n]} onInput=${(event) => setValues(values.map((value, m) => (m === n ? event.target.value : value)))} /></label>`)}
      <button type="submit" disabled=${isBusy || !filled.length}>${isBusy ? "Following…" : "Follow its changes"}</button>
    </form>
    <${Failure} error=${action.error || job?.error} fix=${job?.error_details?.fix} />
    <div aria-live="polite">${answer ? html`<${JsonTree} name="row" value=${answer} />` : null}</div>
  </section>`;
}
