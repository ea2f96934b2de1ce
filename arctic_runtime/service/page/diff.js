// The differences between tables and those of another environment: by table, by column, and by row.

import { html, useState } from "./vendor/htm/preact.js";
import { get, post } from "./api.js";
import { formatBytes, formatClock, formatCount, formatSeconds, getShortName } from "./format.js";
import { Failure, useAction, useAnswer } from "./parts.js";
import { store } from "./store.js";

const SHOWN = 100;
const CLASSES = { added: "diff-insert", removed: "diff-delete", changed: "diff-update" };

function Value({ value }) {
  if (value === null || value === undefined) return html`<i>null</i>`;
  return html`${typeof value === "object" ? JSON.stringify(value) : String(value)}`;
}

function isSame(one, other) {
  return JSON.stringify(one ?? null) === JSON.stringify(other ?? null);
}

function describeKey(key) {
  return Object.entries(key).map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
}

function listColumnChanges(diff) {
  return [
    ...diff.added_columns.map((column) => `${column.name} (${column.type}) came`),
    ...diff.removed_columns.map((column) => `${column.name} (${column.type}) went`),
    ...diff.retyped_columns.map(([name, before, after]) => `${name}: ${before} became ${after}`),
  ];
}

function ChangedRows({ examples, column }) {
  const rows = examples.filter((row) => row.kind === "changed" && row.before && row.after && !isSame(row.before[column], row.after[column]));
  if (!rows.length) return html`<p>None of the example rows has a change of this column.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`Rows in which ${column} changed`}>
    <table>
      <thead><tr><th scope="col">Key</th><th scope="col">Before</th><th scope="col">After</th><th scope="col" class="wide">Also changed</th></tr></thead>
      <tbody>
        ${rows.slice(0, SHOWN).map((row, n) => {
          const others = Object.keys(row.before).filter((name) => name !== column && name in row.after && !isSame(row.before[name], row.after[name]));
          return html`<tr key=${n}><td class="text">${describeKey(row.key)}</td><td class="text diff-before"><${Value} value=${row.before[column]} /></td><td class="text diff-after"><${Value} value=${row.after[column]} /></td><td class="text wide">${others.join(", ")}</td></tr>`;
        })}
      </tbody>
    </table>
  </div>`;
}

// The sentence about the rows of a table that differ, and about the cost to find them.
function describeRows(diff) {
  const { added, removed, changed } = diff.counts;
  const total = diff.other_rows === null ? "" : `, of ${formatCount(diff.other_rows)}`;
  const read = diff.reads_changes ? "Only rows that changed since the two were one table were compared" : "All rows were compared";
  const cost = diff.cost && diff.cost.bytes !== null ? `, from files of ${formatBytes(diff.cost.bytes)}` : "";
  const time = diff.cost ? ` in ${formatSeconds(diff.cost.seconds)}` : "";
  return `${formatCount(added)} ${added === 1 ? "row" : "rows"} came, ${formatCount(removed)} went, ${formatCount(changed)} changed${total}. ${read}${time}${cost}.`;
}

function Masked({ diff, name }) {
  return diff.masked_columns.includes(name) ? html` <span class="tag">masked</span>` : null;
}

function Examples({ diff }) {
  const { examples } = diff;
  if (!examples.length) return null;
  const names = [...new Set(examples.flatMap((row) => Object.keys(row.after ?? row.before ?? {})))];
  return html`<h3>Example rows</h3>
    <div class="scroll" tabindex="0" role="region" aria-label="Example rows">
      <table>
        <thead><tr><th scope="col">Change</th>${names.map((name) => html`<th scope="col" key=${name}>${name}<${Masked} diff=${diff} name=${name} /></th>`)}</tr></thead>
        <tbody>
          ${examples.slice(0, SHOWN).map(
            (row, n) => html`<tr key=${n} class=${CLASSES[row.kind]}>
              <td>${row.kind}</td>
              ${names.map((name) =>
                row.before && row.after && !isSame(row.before[name], row.after[name])
                  ? html`<td key=${name} class="value"><s><${Value} value=${row.before[name]} /></s> <b><${Value} value=${row.after[name]} /></b></td>`
                  : html`<td key=${name} class="value"><${Value} value=${(row.after ?? row.before)[name]} /></td>`,
              )}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>`;
}

function TableDiff({ diff, ask }) {
  const [column, setColumn] = useState("");
  const [asked, setAsked] = useState("");
  const [action, run] = useAction();
  const chosen = diff.columns.find((entry) => entry.name === column);
  const job = store.jobs.get(asked);
  const found = job?.state === "done" ? job.answer?.find((entry) => entry.table === diff.table) : null;
  const choose = (name) => {
    setColumn(name === column ? "" : name);
    setAsked("");
  };
  const changes = listColumnChanges(diff);
  return html`<section class="panel full" aria-labelledby="one-diff-title">
    <h2 id="one-diff-title">${getShortName(diff.table)} beside ${getShortName(diff.other)}</h2>
    <p>${describeRows(diff)}</p>
    ${diff.breaches.length ? html`<p class="bad">More than allowed: ${diff.breaches.join(", ")}</p>` : null}
    ${changes.length ? html`<p>Columns: ${changes.join("; ")}</p>` : null}
    ${diff.columns.length
      ? html`<div class="chips" role="group" aria-label="Columns with changed values">
          ${diff.columns.map((entry) => html`<button key=${entry.name} type="button" class="chip" aria-pressed=${String(entry.name === column)} onClick=${() => choose(entry.name)}>${entry.name} <b>${formatCount(entry.rows)}</b></button>`)}
        </div>`
      : null}
    ${chosen
      ? html`<h3>Most frequent changes of ${chosen.name}<${Masked} diff=${diff} name=${chosen.name} /></h3>
          <table>
            <thead><tr><th scope="col">Before</th><th scope="col">After</th><th scope="col" class="number">Rows</th></tr></thead>
            <tbody>${chosen.values.map((change, n) => html`<tr key=${n}><td class="text diff-before"><${Value} value=${change.before} /></td><td class="text diff-after"><${Value} value=${change.after} /></td><td class="number">${formatCount(change.rows)}</td></tr>`)}</tbody>
          </table>
          <h3>Changed rows</h3>
          <${ChangedRows} examples=${found ? found.examples : diff.examples} column=${chosen.name} />
          ${!found ? html`<p class="row"><button type="button" disabled=${action.busy !== "" || (job && !job.ended_at)} onClick=${() => run("column", async () => setAsked(await ask(diff.table, chosen.name)))}>${job && !job.ended_at ? "Reading…" : `Find rows in which ${chosen.name} changed`}</button></p>` : null}
          <${Failure} error=${action.error || job?.error} fix=${job?.error_details?.fix} />`
      : html`<${Examples} diff=${diff} />`}
  </section>`;
}

function Summary({ diffs, chosen, onChoose }) {
  const [withSame, setWithSame] = useState(false);
  const [most, setMost] = useState(SHOWN);
  const selection = diffs.filter((diff) => withSame || diff.differs);
  const same = diffs.length - diffs.filter((diff) => diff.differs).length;
  return html`<section class="panel full" aria-labelledby="summary-title">
    <h2 id="summary-title">Tables</h2>
    <p>${formatCount(diffs.length - same)} of ${formatCount(diffs.length)} tables differ. ${same ? html`<label class="field"><input type="checkbox" checked=${withSame} onChange=${(event) => setWithSame(event.target.checked)} /> Show those that are the same</label>` : null}</p>
    ${selection.length
      ? html`<div class="scroll" tabindex="0" role="region" aria-label="Compared tables">
          <table>
            <thead><tr><th scope="col">Table</th><th scope="col" class="number">Came</th><th scope="col" class="number">Went</th><th scope="col" class="number">Changed</th><th scope="col" class="wide">Columns</th></tr></thead>
            <tbody>
              ${selection.slice(0, most).map(
                (diff) => html`<tr key=${diff.table}>
                  <td class="text"><button type="button" class="plain more left" aria-pressed=${String(diff.table === chosen)} onClick=${() => onChoose(diff.table)}>${getShortName(diff.table)}</button></td>
                  <td class="number">${formatCount(diff.counts.added)}</td><td class="number">${formatCount(diff.counts.removed)}</td><td class="number">${formatCount(diff.counts.changed)}</td>
                  <td class="text wide">${[...listColumnChanges(diff), ...diff.columns.map((column) => `${column.name} (${formatCount(column.rows)})`)].slice(0, 8).join(", ")}</td>
                </tr>`,
              )}
            </tbody>
          </table>
        </div>`
      : html`<p>Rows and columns are the same.</p>`}
    ${selection.length > most ? html`<p class="row"><button type="button" onClick=${() => setMost(most + SHOWN)}>Show more</button></p>` : null}
  </section>`;
}

// Starts a comparison as a job; returns the job's number.
async function compare(names, parameters) {
  const started = await post("/api/operations/diff", { tables: names, arguments: parameters });
  if (!store.jobs.has(started.number)) store.jobs.set(started.number, started);
  return started.number;
}

export function Diff({ name, tables, now }) {
  const [table, setTable] = useState(name);
  const [schema, setSchema] = useState("");
  const [asked, setAsked] = useState("");
  const [chosen, setChosen] = useState("");
  const [action, run] = useAction();
  const { answer, error } = useAnswer("operations", () => get("/api/operations"));
  const operation = answer?.find((entry) => entry.name === "diff");
  const last = [...store.jobs.values()].filter((job) => job.name === "diff" && job.state === "done" && Array.isArray(job.answer)).sort((a, b) => Number(b.number) - Number(a.number))[0];
  const job = store.jobs.get(asked) ?? last;
  const diffs = job?.state === "done" && Array.isArray(job.answer) ? job.answer : null;
  const shown = diffs?.find((diff) => diff.table === chosen) ?? (diffs?.length === 1 ? diffs[0] : null);
  const schemas = [...new Set(tables.map((entry) => entry.table.split(".")[1]))].sort();
  const parameters = schema.trim() ? { other_schema: schema.trim() } : {};
  const start = (event) => {
    event.preventDefault();
    setChosen("");
    run("compare", async () => setAsked(await compare(table.trim() ? [table.trim()] : [], parameters)));
  };
  const isBusy = action.busy !== "" || Boolean(job && !job.ended_at);
  return html`<section class="page" aria-labelledby="diff-title">
    <h1 id="diff-title">Differences</h1>
    <p class="lead">Between tables and those of the same names in another schema, or between clones and their origins. With a table, all below it are compared too.</p>
    <form class="filter inset" onSubmit=${start}>
      <label class="field">Table <input type="text" list="diff-tables" placeholder="all" value=${table} spellcheck=${false} autocomplete="off" onInput=${(event) => setTable(event.target.value)} /></label>
      <datalist id="diff-tables">${tables.filter((entry) => entry.kind === "model").map((entry) => html`<option key=${entry.table} value=${entry.table} />`)}</datalist>
      <label class="field">Other schema <input type="text" list="diff-schemas" placeholder="the clones' origins" value=${schema} spellcheck=${false} autocomplete="off" onInput=${(event) => setSchema(event.target.value)} /></label>
      <datalist id="diff-schemas">${schemas.map((entry) => html`<option key=${entry} value=${entry} />`)}</datalist>
      <button type="submit" class="primary" disabled=${isBusy || !operation}>Compare</button>
    </form>
    <${Failure} error=${error || action.error} />
    <${Failure} error=${job?.error} fix=${job?.error_details?.fix} />
    <div aria-live="polite">
      ${job && !job.ended_at ? html`<p class="lead">${job.state === "waiting" ? "Waits for its turn…" : job.lines.at(-1) ?? "Compares…"}</p>` : null}
      ${diffs ? html`<p class="lead">As of ${formatClock(job.ended_at, now)}.</p>` : null}
    </div>
    ${diffs
      ? html`<div class="panels">
          <${Summary} key=${job.number} diffs=${diffs} chosen=${shown?.table} onChoose=${setChosen} />
          ${shown ? html`<${TableDiff} key=${`${job.number} ${shown.table}`} diff=${shown} ask=${(one, column) => compare([one], { other_schema: shown.other.split(".")[1], only: true, column, limit: SHOWN })} />` : null}
        </div>`
      : null}
  </section>`;
}
