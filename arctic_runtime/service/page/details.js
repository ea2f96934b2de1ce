// What a table is: its query, its columns with their origins, and its data tests with their last results.

import { html, useState } from "./vendor/htm/preact.js";
import { formatAge, formatCount, formatTime, linkTo, getShortName } from "./format.js";
import { Failure } from "./parts.js";

const FEW = 12;
const FEW_ORIGINS = 4;
const SIGNS = { pass: "✓", warn: "!", fail: "✕", error: "✕", unknown: "·" };
const WORDS = { pass: "passes", warn: "warns", fail: "fails", error: "can't be run", unknown: "no result yet" };

function Origins({ origins }) {
  const [isAll, setAll] = useState(false);
  if (!origins.length) return html`<span class="muted">–</span>`;
  return html`${origins.slice(0, isAll ? origins.length : FEW_ORIGINS).map(
      (origin) => html`<span class="origin" key=${`${origin.table} ${origin.column}`}><a href=${linkTo(origin.table)} title=${origin.table}>${getShortName(origin.table)}</a>.${origin.column}${origin.uses.join() === "identity" ? "" : html` <small>${origin.uses.join(", ")}</small>`}</span> `,
    )}${origins.length > FEW_ORIGINS && !isAll ? html`<button type="button" class="plain more" onClick=${() => setAll(true)}>and ${origins.length - FEW_ORIGINS} more</button>` : null}`;
}

function ColumnTable({ details }) {
  const [isAll, setAll] = useState(false);
  const { columns } = details;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="List of columns">
      <table>
        <thead><tr><th scope="col">Column</th><th scope="col">Type</th>${details.has_lineage ? html`<th scope="col">Comes from</th>` : null}</tr></thead>
        <tbody>
          ${columns.slice(0, isAll ? columns.length : FEW).map(
            (column) => html`<tr key=${column.name}>
              <td class="text">${column.name}${column.is_key ? html` <span class="tag">key</span>` : null}${column.is_masked ? html` <span class="tag">masked</span>` : null}${column.description ? html`<br /><small>${column.description}</small>` : null}</td>
              <td class="text type"><code>${column.type}</code></td>
              ${details.has_lineage ? html`<td class="text"><${Origins} origins=${column.origins} /></td>` : null}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${columns.length > FEW && !isAll ? html`<p class="row"><button type="button" onClick=${() => setAll(true)}>Show all ${formatCount(columns.length)} columns</button></p>` : null}`;
}

export function Columns({ details }) {
  return html`<section class="panel full" aria-labelledby="columns-title">
    <h2 id="columns-title">Columns</h2>
    ${details.description ? html`<p>${details.description}</p>` : null}
    ${details.columns.length ? html`<${ColumnTable} details=${details} />` : html`<p>The table does not exist yet.</p>`}
    ${details.row_origins.length ? html`<p class="rows-from">Which rows it has is decided by <${Origins} origins=${details.row_origins} /></p>` : null}
    ${details.sql
      ? html`<details class="sql"><summary>SQL</summary><pre tabindex="0">${details.sql}</pre></details>`
      : null}
    ${details.is_cut ? html`<p>Long parts are cut.</p>` : null}
  </section>`;
}

export function Tests({ tests, now }) {
  const bad = tests.filter((test) => test.status === "fail" || test.status === "error").length;
  return html`<section class="panel" aria-labelledby="tests-title">
    <h2 id="tests-title">Tests</h2>
    ${tests.length ? html`<p>${bad ? html`<b class="bad">${bad} of ${tests.length} fail.</b>` : `${formatCount(tests.length)} in the project.`}</p>` : html`<p>The project has none for this table.</p>`}
    ${tests.length
      ? html`<ul class="tests">
          ${tests.map(
            (test) => html`<li key=${test.name} class=${`test-${test.status}`}>
              <span class="state"><span class="sign" aria-hidden="true">${SIGNS[test.status]}</span>${WORDS[test.status]}</span>
              <span class="test-name">${test.name}</span>
              <span class="muted" title=${formatTime(test.at)}>${test.at ? formatAge(test.at, now) : ""}</span>
              ${test.message && test.status !== "pass" ? html`<p class="test-message">${test.message}</p>` : null}
            </li>`,
          )}
        </ul>`
      : null}
  </section>`;
}

export function DetailsFailure({ error }) {
  return error ? html`<section class="panel full"><h2>Columns</h2><${Failure} error=${error} /></section>` : null;
}
