// One table: its state with the reason, its readers, sources and files, and its operations.

import { html } from "./vendor/htm/preact.js";
import { Actions, Changes, isOwn as isOwnTable } from "./actions.js";
import { buildUrl, get } from "./api.js";
import { Chart } from "./chart.js";
import { Columns, DetailsFailure, Tests } from "./details.js";
import { describeFreshness, describeState, formatAge, formatBytes, formatCount, formatDuration, formatTime, getLeafName, shortenCount } from "./format.js";
import { Job, sortJobs } from "./jobs.js";
import { Failure, Figure, State, TableLink, useAnswer, useSlowly } from "./parts.js";
import { Preview } from "./preview.js";
import { SampleRows } from "./rows.js";
import { explainReason, nameMode } from "./reasons.js";
import { store } from "./store.js";
import { Tree } from "./tree.js";
import { Trend } from "./trend.js";
import { UpkeepTable } from "./upkeep.js";
import { Versions } from "./versions.js";
import { Why as WhyRow } from "./why.js";

const KINDS = {
  model: "maintained by a model",
  scheduled: "maintained by a model that dbt runs on a schedule",
  landing: "a landing table, to which other programs append events",
  source: "written by other programs",
};

function Origin({ table }) {
  const { ingestion, source, tested_table: tested, table: name } = table;
  const isIngested = table.kind === "ingested";
  const sources = useAnswer(isIngested ? source : "", () => (isIngested ? get("/api/sources") : Promise.resolve(null)));
  if (tested) return html`${name}, the quarantine of <${TableLink} name=${tested} />: its rows that fail tests`;
  if (!isIngested) return html`${name}, ${KINDS[table.kind] ?? table.kind}`;
  const connection = sources.answer?.find((entry) => entry.source === source)?.connection;
  return html`${name}, ingested from ${ingestion?.table ? `${ingestion.table} of ` : ""}${source || "a source"}${connection ? ` (${connection})` : ""}`;
}

// The sentence that is the same everywhere: as of when the table shows its source and, if it is late, since when and why.
// A cause that stands below it as the error of the table is not repeated.
function Shows({ freshness, error, now }) {
  const shown = freshness.as_of ? `It shows the source as of ${formatTime(freshness.as_of)} (${formatAge(freshness.as_of, now)}).` : "The time as of which it shows the source is not known.";
  if (freshness.state === "fresh") return html`<p class="why">${shown}</p>`;
  const since = freshness.since ? ` since ${formatTime(freshness.since)} (${formatAge(freshness.since, now)})` : "";
  const isRepeated = error !== "" && freshness.reason.includes(error.split("\n")[0].replace(/\.$/, ""));
  const reason = isRepeated ? "" : `: ${freshness.reason}`;
  const action = freshness.action && !isRepeated ? ` What to do: ${freshness.action}.` : "";
  return html`<p class="why">${shown} ${freshness.state === "delayed" ? "A change may be waiting in" : "It is behind"} <b>${freshness.source}</b>${since}${reason}.${action}</p>`;
}

function Why({ table, now }) {
  const { state } = table;
  const shows = table.freshness ? html`<${Shows} freshness=${table.freshness} error=${table.error} now=${now} />` : null;
  return html`<${WhyState} table=${table} state=${state} now=${now} />${shows}`;
}

function WhyState({ table, state, now }) {
  if (state === "failed" && !table.ingestion) {
    const retry = table.retry_at ? Math.max(0, (Date.parse(table.retry_at) - now) / 1000) : null;
    return html`<p class="why">Its last refresh failed.${retry === null ? "" : ` It is retried ${retry < 1 ? "now" : `in ${formatDuration(retry)}`}.`}</p>`;
  }
  if (state === "failed") return html`<p class="why">Its ingestion failed and is retried automatically.</p>`;
  if (state === "held" && table.held_by) return html`<p class="why">Held back: <${TableLink} name=${table.held_by} /> failed, and this table depends on it.</p>`;
  if (state === "delayed") return html`<p class="why">Its rows may be ${formatDuration(table.freshness.allowed_lag_seconds)} old, so it waits.</p>`;
  return html`<p class="why">${describeState(table).text}</p>`;
}

function Readers({ readers, title }) {
  const most = Math.max(1, ...readers.map((reader) => reader.rows));
  return html`<section class="panel" aria-labelledby="readers-title">
    <h2 id="readers-title">${title}</h2>
    ${readers.length
      ? html`<table>
          <thead><tr><th scope="col">Reader</th><th scope="col" class="number">Commits</th><th scope="col" class="number">Rows</th><th scope="col" class="wide"><span class="hidden">Lag</span></th></tr></thead>
          <tbody>
            ${[...readers]
              .sort((a, b) => b.rows - a.rows)
              .map(
                (reader) => html`<tr key=${reader.model}>
                  <td class="text"><${TableLink} name=${reader.model} /></td>
                  <td class="number">${formatCount(reader.commits)}</td>
                  <td class="number">${formatCount(reader.rows)}</td>
                  <td class="wide"><div class="bar"><span style=${{ width: `${(100 * reader.rows) / most}%` }}></span></div></td>
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
      : html`<p>Nothing: its rows come from outside the warehouse.</p>`}
  </section>`;
}

function Over({ table, now }) {
  const points = store.points.get(table.table) ?? [];
  const times = [...points.map((point) => point.at / 1000), now / 1000];
  const values = (name) => [...points.map((point) => point[name]), points.at(-1)?.[name] ?? 0];
  return html`<section class="panel" aria-labelledby="over-title">
    <h2 id="over-title">Unmerged rows over time</h2>
    <p>${formatCount(table.unmerged_rows)} rows in ${formatCount(table.unmerged_commits)} commits are not merged yet; readers merge them. Since this page was opened.</p>
    <${Chart}
      label=${`Unmerged rows over time, now ${formatCount(table.unmerged_rows)}`}
      times=${times}
      series=${[{ values: values("unmerged"), colour: "--warn" }, { values: values("recent"), colour: "--flow" }]}
    />
    <p class="legend"><span class="key key-warn"></span>unmerged rows <span class="key key-flow"></span>rows changed in the last minute</p>
  </section>`;
}

function Ingestion({ ingestion, now }) {
  const batch = store.batches.get(ingestion.source);
  return html`<section class="panel" aria-labelledby="ingestion-title">
    <h2 id="ingestion-title">Ingestion</h2>
    <dl class="pairs">
      <dt>Source</dt><dd>${ingestion.table} of ${ingestion.source}</dd>
      <dt>Process</dt><dd>${ingestion.is_running ? ingestion.ingested_by || "–" : html`<b class="bad">not running</b>${ingestion.ingested_by ? `, last ${ingestion.ingested_by}` : ""}`}</dd>
      <dt>Shows it as of</dt><dd>${ingestion.as_of ? `${formatTime(ingestion.as_of)} (${formatAge(ingestion.as_of, now)})` : "not known"}</dd>
      <dt>Last batch</dt><dd>${batch ? `${formatCount(batch.events)} events in ${batch.seconds.toFixed(1)} s, ${formatAge(new Date(batch.at).toISOString(), now)}` : "none since this page was opened"}</dd>
      <dt>Position</dt><dd><code>${ingestion.position || "–"}</code></dd>
      <dt>Dead letters</dt><dd class=${ingestion.dead_letters ? "bad" : ""}>${formatCount(ingestion.dead_letters)}${ingestion.dead_letters ? " in the source: events that could not be applied" : ""}</dd>
    </dl>
  </section>`;
}

function NextRefresh({ table, explain }) {
  if (table.kind === "scheduled") return html`<p>dbt runs it on the schedule <code>${table.schedule}</code>.</p>`;
  if (table.kind !== "model") return html`<p>It is not refreshed: its rows come from outside.</p>`;
  if (explain.error) return html`<${Failure} error=${explain.error} />`;
  if (!explain.answer) return html`<p>Planning…</p>`;
  const { mode, reason, because } = explain.answer.data.decision;
  const lines = explain.answer.lines.slice(2).map((line) => line.trim());
  return html`<p><b>${nameMode(mode)}</b>: ${explainReason(reason)}${because ? ` (${because})` : ""}.</p>
    ${lines.length ? html`<details><summary>Plan</summary><pre>${lines.join("\n")}</pre></details>` : null}`;
}

export function TablePage({ name, table, now }) {
  const isOwn = Boolean(table) && isOwnTable(table);
  const getOwn = (path) => (isOwn ? get(path) : Promise.resolve(null));
  const version = useSlowly(table?.version ?? "", 5);
  const status = useAnswer(`${name} ${version}`, () => getOwn(buildUrl("/api/operations/status", [name])));
  // Reads all manifests.
  const picture = useAnswer(`${name} ${useSlowly(table?.version ?? "", 60)}`, () => getOwn(buildUrl("/api/operations/status", [name], { tree: true })));
  const explain = useAnswer(`${name} ${version} ${useSlowly(table?.state, 5)}`, () => (table?.kind === "model" ? get(buildUrl("/api/operations/explain", [name])) : Promise.resolve(null)));
  // Read anew with each version, and after tests of this table have ended.
  const tested = sortJobs(store.jobs).find((job) => job.kind === "test" && job.ended_at && job.tables.includes(name))?.number ?? "";
  const described = useAnswer(`${name} ${useSlowly(table?.version ?? "", 60)} ${tested}`, () => (table ? get(`/api/tables/${encodeURIComponent(name)}/details`) : Promise.resolve(null)));
  const upkeep = useAnswer(`${name} ${version}`, () => get("/api/upkeep"));
  if (!table) return html`<div class="page"><p class="empty">There is no table <b>${name}</b>. <a href="#/tables">All tables</a></p></div>`;
  const details = status.answer?.data?.[0];
  const tree = picture.answer?.data?.[0]?.tree;
  const planned = (upkeep.answer ?? []).filter((plan) => plan.table === name);
  const jobs = sortJobs(store.jobs).filter((job) => job.tables.includes(name)).slice(0, 5);
  const savepoints = Object.entries(details?.savepoints ?? {});
  return html`<article class="page">
    <div class="page-head">
      <h1>${getLeafName(name)}</h1>
      <${State} table=${table} />
      <${Actions} table=${table} service=${store.service} />
    </div>
    <p class="path"><${Origin} table=${table} /></p>
    <${Why} table=${table} now=${now} />
    <${Failure} error=${table.error} />
    <${Failure} error=${store.service?.errors[`tests of ${name}`]} />
    <dl class="figures">
      <${Figure} label="Freshness" value=${describeFreshness(table, now)} />
      <${Figure} label="Rows" value=${shortenCount(table.rows)} note=${table.recent_rows ? `+${shortenCount(table.recent_rows)}/min` : ""} />
      <${Figure} label="Size" value=${formatBytes(table.bytes)} note=${`${formatCount(table.files)} files`} />
      <${Figure} label="Nodes" value=${formatCount(table.nodes)} />
      <${Figure} label="Versions kept" value=${formatCount(table.versions)} note=${savepoints.length ? `${savepoints.length} named` : ""} />
      ${table.frozen_changes ? html`<${Figure} label="Frozen" value=${`${formatCount(table.frozen_changes)} changes`} note="not applied" />` : null}
      <${Figure} label="Waste per read" value=${table.waste_bytes ? formatBytes(table.waste_bytes) : "nothing"} />
      <${Figure} label="Last confirmed fresh" value=${table.refreshed_at ? formatAge(table.refreshed_at, now) : "–"} />
    </dl>
    <div class="panels">
      <div class="stack">
        <${Readers} readers=${table.readers} title="Read by" />
        ${isOwn ? html`<${Over} key=${name} table=${table} now=${now} />` : null}
      </div>
      <div class="stack">
        <${Reads} reads=${table.reads} />
        ${table.ingestion ? html`<${Ingestion} ingestion=${table.ingestion} now=${now} />` : null}
        <section class="panel" aria-labelledby="next-title">
          <h2 id="next-title">Next refresh</h2>
          <${NextRefresh} table=${table} explain=${explain} />
        </section>
        ${described.answer && (described.answer.tests.length || table.kind === "model") ? html`<${Tests} tests=${described.answer.tests} now=${now} />` : null}
      </div>
      ${table.kind === "model" ? html`<${Preview} key=${name} name=${name} />` : null}
      ${table.freshness ? html`<${Trend} key=${name} name=${name} table=${table} now=${now} />` : null}
      ${described.answer ? html`<${Columns} key=${name} details=${described.answer} />` : html`<${DetailsFailure} error=${described.error} />`}
      ${table.state === "missing" || (table.state === "loading" && !table.version) ? null : html`<${SampleRows} key=${name} name=${name} />`}
      <section class="panel full" aria-labelledby="upkeep-title">
        <h2 id="upkeep-title">Upkeep</h2>
        ${upkeep.error ? html`<${Failure} error=${upkeep.error} />` : null}
        ${planned.length ? html`<${UpkeepTable} plans=${planned} />` : html`<p>None is planned${table.waste_bytes ? `: ${formatBytes(table.waste_bytes)} of waste per read cost less than a rewrite of its files would` : ": its files are in order"}. ${isOwn ? "“Compact…” below shows why each node is skipped." : ""}</p>`}
      </section>
      ${tree || picture.error
        ? html`<section class="panel full" aria-labelledby="tree-title">
            <h2 id="tree-title">Nodes and files</h2>
            ${tree ? html`<${Tree} tree=${tree} />` : html`<p class="text">${picture.error.message}</p>`}
          </section>`
        : null}
      ${status.error ? html`<${Failure} error=${status.error} />` : null}
      ${isOwn ? html`<${Versions} name=${name} version=${version} hasKey=${details?.has_key !== false} />` : null}
      ${isOwn && described.answer?.key.length ? html`<${WhyRow} key=${name} name=${name} columns=${described.answer.key} />` : null}
      ${jobs.length ? html`<section class="panel full" aria-labelledby="own-jobs-title"><h2 id="own-jobs-title">Jobs</h2><ul class="jobs">${jobs.map((job) => html`<${Job} key=${job.number} job=${job} now=${now} />`)}</ul></section>` : null}
      ${isOwn ? html`<${Changes} table=${table} />` : null}
    </div>
  </article>`;
}
