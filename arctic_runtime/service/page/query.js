// A query over the tables of the project, and its rows: the answer of `arctic sql`, from a service with a token.

import { html, useState } from "./vendor/htm/preact.js";
import { post } from "./api.js";
import { formatCount, formatSeconds } from "./format.js";
import { Failure, useAction } from "./parts.js";

const MANY = 200;
const NUMBERS = /^(tinyint|smallint|int|bigint|float|double|decimal)/;

let kept = ""; // The text stays while this tab is open, also if another view is opened.

function isNumber(column) {
  return NUMBERS.test(column.type);
}

function writeValue(value) {
  return value !== null && typeof value === "object" ? JSON.stringify(value) : String(value);
}

function Rows({ answer }) {
  const { columns, rows } = answer;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Rows of the query">
    <table>
      <thead><tr>${columns.map((column) => html`<th scope="col" key=${column.name} class=${isNumber(column) ? "number" : ""}>${column.name} <small>${column.type}</small></th>`)}</tr></thead>
      <tbody>${rows.map((row, n) => html`<tr key=${n}>${row.map((value, place) => html`<td key=${place} class=${isNumber(columns[place]) ? "number" : "value"} title=${writeValue(value)}>${value === null ? html`<i>null</i>` : writeValue(value)}</td>`)}</tr>`)}</tbody>
    </table>
  </div>`;
}

function describeAnswer({ rows, is_cut: isCut, seconds }) {
  const count = `${formatCount(rows.length)} ${rows.length === 1 ? "row" : "rows"}`;
  return isCut ? `The first ${count}, in ${formatSeconds(seconds)}; there are more.` : `${count} in ${formatSeconds(seconds)}.`;
}

export function Query() {
  const [text, setText] = useState(kept);
  const [answer, setAnswer] = useState(null);
  const [action, run] = useAction();
  const isBusy = action.busy !== "";
  const change = (value) => {
    kept = value;
    setText(value);
  };
  const ask = () =>
    run("query", async () => {
      setAnswer(null);
      setAnswer(await post("/api/operations/sql", { arguments: { query: text, limit: MANY } }));
    });
  const onKey = (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    if (!isBusy && text.trim()) ask();
  };
  return html`<section class="page" aria-labelledby="query-title">
    <h1 id="query-title">Query</h1>
    <p class="lead">One select in Spark's SQL over tables of the project, their versions and change tables. What might be answered otherwise than by Spark is refused.</p>
    <form
      class="query"
      onSubmit=${(event) => {
        event.preventDefault();
        ask();
      }}
    >
      <label class="hidden" for="query-text">Text of the query</label>
      <textarea id="query-text" rows="6" spellcheck=${false} autocomplete="off" placeholder="select … from …" value=${text} onInput=${(event) => change(event.target.value)} onKeyDown=${onKey}></textarea>
      <p class="row"><button type="submit" class="primary" disabled=${isBusy || !text.trim()}>${isBusy ? "Running…" : "Run"}</button> <span class="muted">or Ctrl+Enter</span></p>
    </form>
    <${Failure} error=${action.error} />
    <p role="status">${answer ? describeAnswer(answer) : ""}</p>
    ${answer ? html`<section class="panel" aria-label="Answer"><${Rows} answer=${answer} /></section>` : null}
  </section>`;
}
