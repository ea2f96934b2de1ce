// Planned upkeep: the reason, the cost, and the number of reads that pay it back.

import { html } from "./vendor/htm/preact.js";
import { formatBytes } from "./format.js";
import { TableLink } from "./parts.js";

export function describePayback(plan) {
  if (!plan.bytes) return "at once";
  if (!plan.waste_bytes) return "–";
  const reads = Math.ceil(plan.bytes / plan.waste_bytes);
  return reads === 1 ? "after 1 read" : `after ${reads.toLocaleString("en")} reads`;
}

export function UpkeepTable({ plans, withTable }) {
  return html`<table>
    <thead>
      <tr>
        ${withTable ? html`<th scope="col">Table</th>` : null}
        <th scope="col">Operation</th><th scope="col">Why</th><th scope="col" class="number">Writes</th>
        <th scope="col" class="number wide">Saves per read</th><th scope="col" class="wide">Pays back</th><th scope="col">When</th>
      </tr>
    </thead>
    <tbody>
      ${plans.map(
        (plan) => html`<tr key=${`${plan.table} ${plan.operation}`}>
          ${withTable ? html`<td><${TableLink} name=${plan.table} /></td>` : null}
          <td>${plan.operation}</td>
          <td class="text">${plan.reasons.join("; ")}</td>
          <td class="number">${formatBytes(plan.bytes)}</td>
          <td class="number wide">${formatBytes(plan.waste_bytes)}</td>
          <td class="wide">${describePayback(plan)}</td>
          <td>${plan.waits_for ? `waits for ${plan.waits_for}` : "next"}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}
