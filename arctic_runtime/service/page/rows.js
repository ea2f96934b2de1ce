// A few rows of a table. They are read when somebody asks for them, and only from a service with a token.

import { html, useState } from "./vendor/htm/preact.js";
import { get } from "./api.js";
import { formatCount } from "./format.js";
import { Failure, useAction } from "./parts.js";

const MANY = 20;

export function SampleRows({ name }) {
  const [sample, setSample] = useState(null);
  const [action, run] = useAction();
  const read = () => run("read", async () => setSample(await get(`/api/tables/${encodeURIComponent(name)}/rows?limit=${MANY}`)));
  return html`<section class="panel full" aria-labelledby="rows-title">
    <h2 id="rows-title">Sample rows</h2>
    ${sample
      ? sample.rows.length
        ? html`<div class="scroll" tabindex="0" role="region" aria-label="Sample rows of the table">
              <table>
                <thead><tr>${sample.columns.map((column) => html`<th scope="col" key=${column}>${column}${sample.masked.includes(column) ? html` <span class="tag">masked</span>` : null}</th>`)}</tr></thead>
                <tbody>${sample.rows.map((row, n) => html`<tr key=${n}>${row.map((value, column) => html`<td key=${column} class="value" title=${value}>${value === null ? html`<i>null</i>` : value}</td>`)}</tr>`)}</tbody>
              </table>
            </div>`
        : html`<p>The table has no rows.</p>`
      : null}
    ${sample?.unmerged_rows ? html`<p>Rows of the last merge: ${formatCount(sample.unmerged_rows)} change rows are not in them yet.</p>` : null}
    <${Failure} error=${action.error} />
    <p class="row"><button type="button" disabled=${action.busy !== ""} onClick=${read}>${action.busy ? "Reading…" : sample ? "Read again" : `Show ${MANY} rows`}</button></p>
  </section>`;
}
