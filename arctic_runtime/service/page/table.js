// One table: its state and why, what reads it, what it is made of, and what can be done with it.

import { html } from "./vendor/htm/preact.js";
import { Actions } from "./actions.js";
import { get, query } from "./api.js";
import { Chart } from "./chart.js";
import { ago, bytes, clock, freshness, leafName, short, span, stateOf, whole } from "./format.js";
import { Job, sortedJobs } from "./jobs.js";
import { Failure, Figure, State, TableLink, useAnswer, useSlowly } from "./parts.js";
import { store } from "./store.js";
import { Tree } from "./tree.js";
import { UpkeepTable } from "./upkeep.js";
import { Versions } from "./versions.js";

const KINDS = {
  model: "kept by a model",
  scheduled: "kept by a model that dbt runs at its times",
  ingested: "ingested from a database or Kafka",
  landing: "a landing table, to which others append events",
  source: "written by others",
};

// The sentence that is the same everywhere: as of when it shows the source; and if it is late, for what, since when, why.
function Shows({ of, now }) {
  const shown = of.as_of ? `It shows the source as of ${clock(of.as_of)} (${ago(of.as_of, now)}).` : "It is not known as of when it shows the source.";
  if (of.state === "fresh") return html`<p class="why">${shown}</p>`;
  const since = of.since ? ` since ${clock(of.since)} (${ago(of.since, now)})` : "";
  return html`<p class="why">${shown} ${of.state === "delayed" ? "A change may wait" : "It is late"} for <b>${of.source}</b>${since}: ${of.reason}.${of.action ? ` What to do: ${of.action}.` : ""}</p>`;
}

function Why({ table, now }) {
  const { state } = table;
  const shows = table.freshness ? html`<${Shows} of=${table.freshness} now=${now} />` : null;
  return html`<${WhyState} table=${table} state=${state} now=${now} />${shows}`;
}

function WhyState({ table, state, now }) {
  if (state === "failed" && !table.ingestion) {
    const retry = table.retry_at ? Math.max(0, (Date.parse(table.retry_at) - now) / 1000) : null;
    return html`<p class="why">Its last refresh failed.${retry === null ? "" : ` It is tried again ${retry < 1 ? "now" : `in ${span(retry)}`}.`}</p>`;
  }
  if (state === "failed") return html`<p class="why">Its ingestion fails, and is tried again by itself.</p>`;
  if (state === "held" && table.held_by) return html`<p class="why">Held back: <${TableLink} name=${table.held_by} /> failed, and this table lies below it.</p>`;
  if (state === "delayed") return html`<p class="why">Its rows may be ${span(table.freshness.allowed_lag_seconds)} old, so it waits.</p>`;
  return html`<p class="why">${stateOf(table).text}</p>`;
}

function Readers({ readers, title }) {
  const most = Math.max(1, ...readers.map((of) => of.rows));
  return html`<section class="panel" aria-labelledby="readers-title">
    <h2 id="readers-title">${title}</h2>
    ${readers.length
      ? html`<table>
          <thead><tr><th scope="col">Reader</th><th scope="col" class="number">Commits</th><th scope="col" class="number">Rows</th><th scope="col" class="wide"><span class="hidden">Lag</span></th></tr></thead>
          <tbody>
            ${[...readers]
              .sort((a, b) => b.rows - a.rows)
              .map(
                (of) => html`<tr key=${of.model}>
                  <td class="text"><${TableLink} name=${of.model} /></td>
                  <td class="number">${whole(of.commits)}</td>
                  <td class="number">${whole(of.rows)}</td>
                  <td class="wide"><div class="bar"><span style=${{ width: `${(100 * of.rows) / most}%` }}></span></div></td>
                </tr>`,
              )}
          </tbody>
        </table>`
      : html`<p>No model reads its changes.</p>`}
  </section>`;
}

function Reads({ reads }) {
  return html`<section class="panel" aria-labelledby="reads-title">
    <h2 id="reads-title">Reads</h2>
    ${reads.length
      ? html`<table><tbody>
          ${reads.map((name) => {
            const above = store.tables.get(name);
            return html`<tr key=${name}><td class="text"><${TableLink} name=${name} /></td><td>${above ? html`<${State} table=${above} />` : "not seen"}</td></tr>`;
          })}
        </tbody></table>`
      : html`<p>Nothing: this is where rows come in.</p>`}
  </section>`;
}

function Over({ table, now }) {
  const points = store.points.get(table.table) ?? [];
  const times = [...points.map((of) => of.at / 1000), now / 1000];
  const values = (name) => [...points.map((of) => of[name]), points.at(-1)?.[name] ?? 0];
  return html`<section class="panel" aria-labelledby="over-title">
    <h2 id="over-title">Unmerged rows over time</h2>
    <p>${whole(table.unmerged_rows)} rows in ${whole(table.unmerged_commits)} commits are not merged yet; readers merge them. Since this page was opened.</p>
    <${Chart}
      label=${`Unmerged rows over time, now ${whole(table.unmerged_rows)}`}
      times=${times}
      series=${[{ values: values("unmerged"), colour: "--warn" }, { values: values("recent"), colour: "--flow" }]}
    />
    <p class="legend"><span class="key key-warn"></span>unmerged rows <span class="key key-flow"></span>rows changed in the last minute</p>
  </section>`;
}

function Ingestion({ of, now }) {
  const batch = store.batches.get(of.source);
  return html`<section class="panel" aria-labelledby="ingestion-title">
    <h2 id="ingestion-title">Ingestion</h2>
    <dl class="pairs">
      <dt>Source</dt><dd>${of.table} of ${of.source}${of.is_running ? "" : html` <b class="bad">not running</b>`}</dd>
      <dt>Shows it as of</dt><dd>${of.as_of ? `${clock(of.as_of)} (${ago(of.as_of, now)})` : "not known"}</dd>
      <dt>Last batch</dt><dd>${batch ? `${whole(batch.events)} events in ${batch.seconds.toFixed(1)} s, ${ago(new Date(batch.at).toISOString(), now)}` : "none since this page was opened"}</dd>
      <dt>Position</dt><dd><code>${of.position || "–"}</code></dd>
      <dt>Dead letters</dt><dd class=${of.dead_letters ? "bad" : ""}>${whole(of.dead_letters)}${of.dead_letters ? " in the source: events that could not be applied" : ""}</dd>
    </dl>
    <${Failure} error=${of.error} />
  </section>`;
}

function NextRefresh({ table, explain }) {
  if (table.kind === "scheduled") return html`<p>dbt runs it at the times of <code>${table.schedule}</code>.</p>`;
  if (table.kind !== "model") return html`<p>It is not refreshed: its rows come from outside.</p>`;
  if (explain.error) return html`<${Failure} error=${explain.error} />`;
  const lines = explain.answer?.lines.slice(1).map((line) => line.trim());
  return html`<pre>${lines?.join("\n") ?? "Planning…"}</pre>`;
}

export function TablePage({ name, table, now }) {
  const isOwn = table?.kind === "model" || table?.kind === "ingested";
  const own = (path) => (isOwn ? get(path) : Promise.resolve(null));
  const version = useSlowly(table?.version ?? "", 5);
  const status = useAnswer(`${name} ${version}`, () => own(query("/api/operations/status", [name])));
  // Reads all manifests.
  const drawn = useAnswer(`${name} ${useSlowly(table?.version ?? "", 60)}`, () => own(query("/api/operations/status", [name], { tree: true })));
  const explain = useAnswer(`${name} ${version} ${useSlowly(table?.state, 5)}`, () => (table?.kind === "model" ? get(query("/api/operations/explain", [name])) : Promise.resolve(null)));
  const upkeep = useAnswer(`${name} ${version}`, () => get("/api/upkeep"));
  if (!table) return html`<div class="page"><p class="empty">There is no table <b>${name}</b>. <a href="#/tables">All tables</a></p></div>`;
  const found = status.answer?.data?.[0];
  const tree = drawn.answer?.data?.[0]?.tree;
  const planned = (upkeep.answer ?? []).filter((of) => of.table === name);
  const jobs = sortedJobs(store.jobs).filter((of) => of.tables.includes(name)).slice(0, 5);
  const savepoints = Object.entries(found?.savepoints ?? {});
  return html`<article class="page">
    <div class="page-head">
      <h1>${leafName(name)}</h1>
      <${State} table=${table} />
      <${Actions} table=${table} service=${store.service} />
    </div>
    <p class="path">${name}, ${KINDS[table.kind] ?? table.kind}</p>
    <${Why} table=${table} now=${now} />
    <${Failure} error=${table.error} />
    <${Failure} error=${store.service?.errors[`tests of ${name}`]} />
    <dl class="figures">
      <${Figure} label="Freshness" value=${freshness(table, now)} />
      <${Figure} label="Rows" value=${short(table.rows)} note=${table.recent_rows ? `+${short(table.recent_rows)}/min` : ""} />
      <${Figure} label="Size" value=${bytes(table.bytes)} note=${`${whole(table.files)} files`} />
      <${Figure} label="Nodes" value=${whole(table.nodes)} />
      <${Figure} label="Versions kept" value=${whole(table.versions)} note=${savepoints.length ? `${savepoints.length} named` : ""} />
      <${Figure} label="Wasted by each read" value=${table.waste_bytes ? bytes(table.waste_bytes) : "nothing"} />
      <${Figure} label="Known fresh" value=${table.refreshed_at ? ago(table.refreshed_at, now) : "–"} />
    </dl>
    <div class="panels">
      <div class="stack">
        <${Readers} readers=${table.readers} title="Read by, and how far behind" />
        ${isOwn ? html`<${Over} key=${name} table=${table} now=${now} />` : null}
      </div>
      <div class="stack">
        <${Reads} reads=${table.reads} />
        ${table.ingestion ? html`<${Ingestion} of=${table.ingestion} now=${now} />` : null}
        <section class="panel" aria-labelledby="next-title">
          <h2 id="next-title">Next refresh</h2>
          <${NextRefresh} table=${table} explain=${explain} />
        </section>
      </div>
      <section class="panel full" aria-labelledby="upkeep-title">
        <h2 id="upkeep-title">Upkeep</h2>
        ${upkeep.error ? html`<${Failure} error=${upkeep.error} />` : null}
        ${planned.length ? html`<${UpkeepTable} plans=${planned} />` : html`<p>None is planned${table.waste_bytes ? `: ${bytes(table.waste_bytes)} wasted by each read are less than it would cost to write its files anew` : ", its files are as they should be"}. ${isOwn ? "“Compact…” shows why each node is left alone." : ""}</p>`}
      </section>
      ${tree || drawn.error
        ? html`<section class="panel full" aria-labelledby="tree-title">
            <h2 id="tree-title">Nodes and files</h2>
            ${tree ? html`<${Tree} tree=${tree} />` : html`<p class="text">${drawn.error.message}</p>`}
          </section>`
        : null}
      ${status.error ? html`<${Failure} error=${status.error} />` : null}
      ${isOwn ? html`<${Versions} name=${name} version=${version} hasKey=${found?.has_key !== false} />` : null}
      ${jobs.length ? html`<section class="panel full" aria-labelledby="own-jobs-title"><h2 id="own-jobs-title">Jobs</h2><ul class="jobs">${jobs.map((job) => html`<${Job} key=${job.number} job=${job} now=${now} />`)}</ul></section>` : null}
    </div>
  </article>`;
}
