// The service: its role, its paused tables, and the warehouse layer by layer.

import { html } from "./vendor/htm/preact.js";
import { get, post } from "./api.js";
import { formatAge, formatBytes, formatCount, formatDuration, formatTime, isLate, nameLayer, shortenCount } from "./format.js";
import { Failure, Figure, TableLink, useAction, useAnswer } from "./parts.js";
import { Sources, nameIngestPart } from "./sources.js";
import { store } from "./store.js";
import { findWorstLag } from "./tables.js";
import { UpkeepTable } from "./upkeep.js";

const ROLES = {
  leads: "Leader: it refreshes models and maintains files.",
  starting: "Starting: it is not the leader yet, and has seen no other leader.",
  stands_by: "Standby: another service leads, and this one takes over when that one ends.",
  ending: "Ending: running jobs finish, and no new ones start.",
};

function Layers({ tables }) {
  const layers = [...new Set(tables.map((table) => table.layer))].sort((a, b) => a - b);
  const sum = (members, name) => members.reduce((total, table) => total + table[name], 0);
  return html`<table>
    <thead><tr><th scope="col">Layer</th><th scope="col" class="number">Tables</th><th scope="col" class="number">Rows/min</th><th scope="col" class="number wide">Rows</th><th scope="col" class="number wide">Size</th><th scope="col" class="number wide">Unmerged</th><th scope="col" class="number">Stale</th><th scope="col" class="number">Failing</th><th scope="col">Slowest reader</th></tr></thead>
    <tbody>
      ${layers.map((layer) => {
        const own = tables.filter((table) => table.layer === layer);
        const slowest = own.map((table) => ({ table: table.table, lag: findWorstLag(table) })).filter((entry) => entry.lag).sort((a, b) => b.lag.rows - a.lag.rows)[0];
        return html`<tr key=${layer}>
          <th scope="row">${nameLayer(own)}</th><td class="number">${formatCount(own.length)}</td><td class="number">${shortenCount(sum(own, "recent_rows"))}</td>
          <td class="number wide">${shortenCount(sum(own, "rows"))}</td><td class="number wide">${formatBytes(sum(own, "bytes"))}</td><td class="number wide">${shortenCount(sum(own, "unmerged_rows"))}</td>
          <td class="number">${formatCount(own.filter(isLate).length)}</td>
          <td class="number">${formatCount(own.filter((table) => table.state === "failed" || table.state === "held").length)}</td>
          <td>${slowest ? html`<${TableLink} name=${slowest.lag.model} />, ${shortenCount(slowest.lag.rows)} rows` : "none behind"}</td>
        </tr>`;
      })}
    </tbody>
  </table>`;
}

export function Service({ service, tables, now }) {
  const [action, run] = useAction();
  const upkeep = useAnswer(`${Math.floor(now / 10_000)}`, async () => {
    const [plans, state] = await Promise.all([get("/api/upkeep"), get("/api/service")]);
    store.service = state.service;
    return plans;
  });
  const sources = useAnswer(`${Math.floor(now / 5000)}`, () => get("/api/sources"));
  if (!service) return html`<div class="page"><p class="empty">Reading…</p></div>`;
  const ask = (path, body = {}) => run(path, () => post(`/api/${path}`, { tables: [], ...body }));
  // The error of a source stands in the panel of sources.
  const shown = new Set((sources.answer ?? []).filter((source) => source.error).map(nameIngestPart));
  const errors = Object.entries(service.errors).filter(([part]) => !shown.has(part));
  return html`<section class="page" aria-labelledby="service-title">
    <div class="page-head">
      <h1 id="service-title">${service.project || "Service"}</h1>
      <div class="actions">
        <button type="button" disabled=${action.busy !== ""} onClick=${() => ask("refresh")}>Check all tables now</button>
        ${service.is_paused
          ? html`<button type="button" class="primary" disabled=${action.busy !== ""} onClick=${() => ask("resume")}>Resume all</button>`
          : html`<button type="button" disabled=${action.busy !== ""} onClick=${() => ask("pause")}>Pause all</button>`}
      </div>
    </div>
    <p class="why">${service.is_paused ? "Paused: it shows the current state, and changes nothing until somebody resumes it." : ROLES[service.role]}${service.leader ? ` The leader is ${service.leader}.` : ""}</p>
    <${Failure} error=${action.error} />
    ${errors.map(([part, text]) => html`<${Failure} key=${part} error=${`${part}: ${text}`} />`)}
    <dl class="figures">
      <${Figure} label="Runs" value=${formatDuration((now - Date.parse(service.started_at)) / 1000)} note=${`since ${formatTime(service.started_at)}`} />
      <${Figure} label="Version" value=${service.version} />
      <${Figure} label="Last check" value=${formatAge(service.looked_at, now)} />
      <${Figure} label="Tables" value=${formatCount(tables.length)} />
      <${Figure} label="Paused" value=${formatCount(service.paused_tables.length)} note=${service.paused_upkeep.length ? `upkeep of ${service.paused_upkeep.length} more` : ""} />
    </dl>
    <div class="panels">
      ${sources.answer ? html`<${Sources} sources=${sources.answer} now=${now} />` : html`<${Failure} error=${sources.error} />`}
      <section class="panel full" aria-labelledby="layers-title"><h2 id="layers-title">Layers</h2><div class="scroll" tabindex="0" role="group" aria-label="All layers"><${Layers} tables=${tables} /></div></section>
      <section class="panel full" aria-labelledby="planned-title">
        <h2 id="planned-title">Planned upkeep</h2>
        <${Failure} error=${upkeep.error} />
        ${upkeep.answer?.length ? html`<div class="scroll" tabindex="0" role="group" aria-label="All planned upkeep"><${UpkeepTable} plans=${upkeep.answer} withTable /></div>` : html`<p>None: every table is in order.</p>`}
      </section>
      ${service.paused_tables.length || service.paused_upkeep.length
        ? html`<section class="panel full" aria-labelledby="paused-title"><h2 id="paused-title">Paused</h2>
            <ul>${[...service.paused_tables.map((name) => [name, "paused"]), ...service.paused_upkeep.map((name) => [name, "upkeep paused"])].map(([name, what]) => html`<li key=${`${name} ${what}`}><${TableLink} name=${name} />, ${what}</li>`)}</ul></section>`
        : null}
    </div>
  </section>`;
}
