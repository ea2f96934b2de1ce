// What the next refresh of a table will cost, with all tables below it: the answer of `arctic preview`.

import { html, useState } from "./vendor/htm/preact.js";
import { buildUrl, get } from "./api.js";
import { formatBytes, formatCount, formatSeconds } from "./format.js";
import { Failure, TableLink, useAction } from "./parts.js";
import { explainReason } from "./reasons.js";

const WAYS = { nothing: "nothing to do", "own result": "from its own result", incremental: "incremental", full: "in full", refused: "refused" };

// An estimate, and its range where that is wider.
function formatAmount(amount, format) {
  const [low, expected, high] = [amount.low, amount.expected, amount.high].map(format);
  return low === high ? expected : `${expected} (${low} to ${high})`;
}

function formatRows(rows) {
  return formatCount(Math.round(rows));
}

function Row({ model }) {
  const hasCost = model.way !== "nothing" && model.way !== "refused";
  const show = (part, format) => (hasCost ? formatAmount(model[part], format) : "");
  return html`<tr>
    <td class="text"><${TableLink} name=${model.table} /></td>
    <td class="text wide">${WAYS[model.way] ?? model.way}${model.reason ? `: ${explainReason(model.reason)}` : ""}${model.because ? ` (${model.because})` : ""}</td>
    <td class="number">${show("bytes_read", formatBytes)}</td><td class="number">${show("bytes_written", formatBytes)}</td>
    <td class="number">${show("rows_written", formatRows)}</td><td class="number">${show("seconds", formatSeconds)}</td>
    <td class="number">${hasCost && model.past_runs.error !== null ? `${Math.round(100 * model.past_runs.error)}%` : ""}</td>
  </tr>`;
}

export function Preview({ name }) {
  const [preview, setPreview] = useState(null);
  const [action, run] = useAction();
  const ask = () => run("preview", async () => setPreview((await get(buildUrl("/api/operations/preview", [name]))).data));
  return html`<section class="panel full" aria-labelledby="preview-title">
    <h2 id="preview-title">Cost of the next refresh, and of all below</h2>
    <p class="row"><button type="button" disabled=${action.busy !== ""} onClick=${ask}>Estimate</button></p>
    <${Failure} error=${action.error} />
    ${preview
      ? html`<div class="scroll" tabindex="0" role="region" aria-label="Estimated refreshes">
          <table>
            <thead><tr><th scope="col">Table</th><th scope="col" class="wide">Next refresh</th><th scope="col" class="number">Reads</th><th scope="col" class="number">Writes</th><th scope="col" class="number">Rows written</th><th scope="col" class="number">Takes</th><th scope="col" class="number">Off by</th></tr></thead>
            <tbody>${preview.models.map((model) => html`<${Row} key=${model.table} model=${model} />`)}</tbody>
          </table>
        </div>`
      : null}
  </section>`;
}
