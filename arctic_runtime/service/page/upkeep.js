// Upkeep that is planned: why, what it costs, and after how many reads that is paid back.

import { html } from "./vendor/htm/preact.js";
import { bytes } from "./format.js";
import { TableLink } from "./parts.js";

export function payback(of) {
  if (!of.bytes) return "at once";
  if (!of.waste_bytes) return "–";
  const reads = Math.ceil(of.bytes / of.waste_bytes);
  return reads === 1 ? "after 1 read" : `after ${reads.toLocaleString("en")} reads`;
}

export function UpkeepTable({ plans, withTable }) {
  return html`<table>
    <thead>
      <tr>
        ${withTable ? html`<th scope="col">Table</th>` : null}
        <th scope="col">What</th><th scope="col">Why</th><th scope="col" class="number">Writes</th>
        <th scope="col" class="number wide">Saves a read</th><th scope="col" class="wide">Pays back</th><th scope="col">When</th>
      </tr>
    </thead>
    <tbody>
      ${plans.map(
        (of) => html`<tr key=${`${of.table} ${of.operation}`}>
          ${withTable ? html`<td><${TableLink} name=${of.table} /></td>` : null}
          <td>${of.operation}</td>
          <td class="text">${of.reasons.join("; ")}</td>
          <td class="number">${bytes(of.bytes)}</td>
          <td class="number wide">${bytes(of.waste_bytes)}</td>
          <td class="wide">${payback(of)}</td>
          <td>${of.waits_for ? `waits for ${of.waits_for}` : "next"}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}
