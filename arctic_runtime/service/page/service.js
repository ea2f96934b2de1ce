// The service: whether it leads, what it leaves alone, and the warehouse layer by layer.

import { html } from "./vendor/htm/preact.js";
import { get, post } from "./api.js";
import { ago, bytes, clock, isLate, layerTitle, short, span, whole } from "./format.js";
import { Failure, Figure, TableLink, useAction, useAnswer } from "./parts.js";
import { store } from "./store.js";
import { worstLag } from "./tables.js";
import { UpkeepTable } from "./upkeep.js";

const ROLES = {
  leads: "It leads: it refreshes models and keeps files in order.",
  starting: "It starts: it has not led yet, and has not seen that another service does.",
  stands_by: "It stands by: another service leads, and this one takes over when that one ends.",
  ending: "It ends: what runs is finished, and nothing new begins.",
};

function Layers({ tables }) {
  const layers = [...new Set(tables.map((of) => of.layer))].sort((a, b) => a - b);
  const sum = (of, name) => of.reduce((total, table) => total + table[name], 0);
  return html`<table>
    <thead><tr><th scope="col">Layer</th><th scope="col" class="number">Tables</th><th scope="col" class="number">Rows/min</th><th scope="col" class="number wide">Rows</th><th scope="col" class="number wide">Size</th><th scope="col" class="number wide">Unmerged</th><th scope="col" class="number">Stale</th><th scope="col" class="number">Failing</th><th scope="col">Slowest reader</th></tr></thead>
    <tbody>
      ${layers.map((layer) => {
        const own = tables.filter((of) => of.layer === layer);
        const slowest = own.map((of) => ({ table: of.table, lag: worstLag(of) })).filter((of) => of.lag).sort((a, b) => b.lag.rows - a.lag.rows)[0];
        return html`<tr key=${layer}>
          <th scope="row">${layerTitle(own)}</th><td class="number">${whole(own.length)}</td><td class="number">${short(sum(own, "recent_rows"))}</td>
          <td class="number wide">${short(sum(own, "rows"))}</td><td class="number wide">${bytes(sum(own, "bytes"))}</td><td class="number wide">${short(sum(own, "unmerged_rows"))}</td>
          <td class="number">${whole(own.filter(isLate).length)}</td>
          <td class="number">${whole(own.filter((of) => of.state === "failed" || of.state === "held").length)}</td>
          <td>${slowest ? html`<${TableLink} name=${slowest.lag.model} />, ${short(slowest.lag.rows)} rows` : "none lags"}</td>
        </tr>`;
      })}
    </tbody>
  </table>`;
}

export function Service({ service, tables, now }) {
  const [action, run] = useAction();
  const upkeep = useAnswer(`${Math.floor(now / 10_000)}`, async () => {
    const [plans, found] = await Promise.all([get("/api/upkeep"), get("/api/service")]);
    store.service = found.service;
    return plans;
  });
  if (!service) return html`<div class="page"><p class="empty">Reading…</p></div>`;
  const ask = (path, body = {}) => run(path, () => post(`/api/${path}`, { tables: [], ...body }));
  const errors = Object.entries(service.errors);
  return html`<section class="page" aria-labelledby="service-title">
    <div class="page-head">
      <h1 id="service-title">${service.project || "Service"}</h1>
      <div class="actions">
        <button type="button" disabled=${action.busy !== ""} onClick=${() => ask("refresh")}>Look at everything now</button>
        ${service.is_paused
          ? html`<button type="button" class="primary" disabled=${action.busy !== ""} onClick=${() => ask("resume")}>Resume all</button>`
          : html`<button type="button" disabled=${action.busy !== ""} onClick=${() => ask("pause")}>Pause all</button>`}
      </div>
    </div>
    <p class="why">${service.is_paused ? "Paused: it shows what is, and changes nothing until somebody resumes it." : ROLES[service.role]}${service.leader ? ` The leader is ${service.leader}.` : ""}</p>
    <${Failure} error=${action.error} />
    ${errors.map(([part, text]) => html`<${Failure} key=${part} error=${`${part}: ${text}`} />`)}
    <dl class="figures">
      <${Figure} label="Runs" value=${span((now - Date.parse(service.started_at)) / 1000)} note=${`since ${clock(service.started_at)}`} />
      <${Figure} label="Version" value=${service.version} />
      <${Figure} label="Last look" value=${ago(service.looked_at, now)} />
      <${Figure} label="Tables" value=${whole(tables.length)} />
      <${Figure} label="Paused" value=${whole(service.paused_tables.length)} note=${service.paused_upkeep.length ? `upkeep of ${service.paused_upkeep.length} more` : ""} />
    </dl>
    <div class="panels">
      <section class="panel full" aria-labelledby="layers-title"><h2 id="layers-title">Layers</h2><div class="scroll" tabindex="0" role="group" aria-label="All layers"><${Layers} tables=${tables} /></div></section>
      <section class="panel full" aria-labelledby="planned-title">
        <h2 id="planned-title">Upkeep that is planned</h2>
        <${Failure} error=${upkeep.error} />
        ${upkeep.answer?.length ? html`<div class="scroll" tabindex="0" role="group" aria-label="All planned upkeep"><${UpkeepTable} plans=${upkeep.answer} withTable /></div>` : html`<p>None: every table is in order.</p>`}
      </section>
      ${service.paused_tables.length || service.paused_upkeep.length
        ? html`<section class="panel full" aria-labelledby="paused-title"><h2 id="paused-title">Left alone</h2>
            <ul>${[...service.paused_tables.map((name) => [name, "paused"]), ...service.paused_upkeep.map((name) => [name, "upkeep paused"])].map(([name, what]) => html`<li key=${`${name} ${what}`}><${TableLink} name=${name} />, ${what}</li>`)}</ul></section>`
        : null}
    </div>
  </section>`;
}
