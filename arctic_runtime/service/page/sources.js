// The ingested sources: whether and by which process each is ingested, and how far its tables are.

import { html } from "./vendor/htm/preact.js";
import { formatAge, formatCount, formatDuration } from "./format.js";
import { Failure } from "./parts.js";

// The part of the service under which errors of a source's ingestion are reported.
export function nameIngestPart(source) {
  return `ingest ${source.source}`;
}

function describeSource(source) {
  if (source.error) return { kind: "failed", sign: "✕", text: "failing" };
  if (!source.is_running) return { kind: "failed", sign: "∅", text: "not running" };
  if (source.loaded_tables < source.tables) return { kind: "loading", sign: "⇣", text: "loading" };
  return { kind: "fresh", sign: "✓", text: "running" };
}

function SourceRow({ source, now }) {
  const { kind, sign, text } = describeSource(source);
  const late = source.lag_seconds === null ? "" : `${formatDuration(source.lag_seconds)} behind`;
  return html`<tr>
    <th scope="row" class="text">${source.source}<br /><small>${source.connection}</small></th>
    <td><span class=${`state state-${kind}`}><span class="sign" aria-hidden="true">${sign}</span>${text}</span></td>
    <td class="text">${source.ingested_by || "–"}</td>
    <td class="number">${formatCount(source.loaded_tables)} of ${formatCount(source.tables)}</td>
    <td class="text"><code>${source.position || "–"}</code></td>
    <td title=${source.as_of ? formatAge(source.as_of, now) : ""}>${late || "not known"}</td>
    <td class=${`number ${source.dead_letters ? "bad" : ""}`}>${formatCount(source.dead_letters)}</td>
  </tr>`;
}

export function Sources({ sources, now }) {
  return html`<section class="panel full" aria-labelledby="sources-title">
    <h2 id="sources-title">Sources</h2>
    ${sources.length
      ? html`<div class="scroll" tabindex="0" role="group" aria-label="All sources"><table>
          <thead><tr><th scope="col">Source</th><th scope="col">State</th><th scope="col">Process</th><th scope="col" class="number">Loaded</th><th scope="col">Position</th><th scope="col">Lag</th><th scope="col" class="number">Dead letters</th></tr></thead>
          <tbody>${sources.map((source) => html`<${SourceRow} key=${source.source} source=${source} now=${now} />`)}</tbody>
        </table></div>`
      : html`<p>None: no source of the project is ingested.</p>`}
    ${sources.filter((source) => source.error).map((source) => html`<${Failure} key=${source.source} error=${`${source.source}: ${source.error}`} />`)}
  </section>`;
}
