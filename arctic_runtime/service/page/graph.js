// The warehouse as a graph: a column for each layer, and edges that show rows that flow and rows that wait.

import { Component, html, useEffect, useMemo, useRef, useState } from "./vendor/htm/preact.js";
import { describeFreshness, describeState, formatCount, getLeafName, isLate, linkTo, listUpstreams, nameLayer, shortenCount } from "./format.js";
import { CARD, GAP, layOutQuickly, layOutWithElk } from "./layout.js";
import { State, useViewport } from "./parts.js";
import { store } from "./store.js";

const LEAST_SCALE = 0.45;
const MOST_SCALE = 1.4;
const MARGIN = 240;
const HEADER = 62;

const layouts = new Map(); // Layouts of ELK by the key of their tables.

export function findLineage(tables, names) {
  const byName = new Map(tables.map((table) => [table.table, table]));
  const below = new Map();
  for (const table of tables) for (const read of listUpstreams(table)) below.set(read, [...(below.get(read) ?? []), table.table]);
  const lineageNames = new Set(names);
  const listAbove = (name) => (byName.has(name) ? listUpstreams(byName.get(name)) : []);
  for (const next of [listAbove, (name) => below.get(name) ?? []]) {
    const waiting = [...names];
    const seen = new Set(names);
    while (waiting.length) {
      for (const other of next(waiting.pop())) {
        if (seen.has(other) || !byName.has(other)) continue;
        seen.add(other);
        lineageNames.add(other);
        waiting.push(other);
      }
    }
  }
  return lineageNames;
}

function useLayout(tables) {
  const key = `${store.topology} ${tables.length} ${tables[0]?.table} ${tables.at(-1)?.table}`;
  const quick = useMemo(() => layouts.get(key) ?? layOutQuickly(tables), [key]);
  const [better, setBetter] = useState({ key: "", layout: null });
  useEffect(() => {
    let isCurrent = true;
    if (layouts.has(key) || tables.length < 3) return undefined;
    layOutWithElk(tables)
      .then((layout) => {
        layouts.set(key, layout);
        if (isCurrent) setBetter({ key, layout });
      })
      .catch((error) => console.warn("the graph keeps its first order:", error.message));
    return () => {
      isCurrent = false;
    };
  }, [key]);
  return better.key === key ? better.layout : quick;
}

class Card extends Component {
  shouldComponentUpdate(next) {
    return ["table", "place", "age", "isDim", "isSoft", "isMatch"].some((name) => next[name] !== this.props[name]);
  }

  render({ table, place, age, isDim, isSoft, isMatch, onNear }) {
    const rows = table.recent_rows ? `+${shortenCount(table.recent_rows)}/min` : "";
    const dead = table.ingestion?.dead_letters ?? 0;
    const label = `${table.table}: ${table.state}, ${age}${dead ? `, ${dead} dead letters` : ""}${rows ? `, ${rows} rows` : ""}`;
    return html`<a
      class=${`card edge-${table.state}${isDim ? " dim" : isSoft ? " soft" : ""}${isMatch ? " match" : ""}`}
      href=${linkTo(table.table)}
      aria-label=${label}
      title=${`${table.table}\n${describeState(table).text}${table.freshness?.reason ? `\n${table.freshness.reason}` : ""}${table.error ? `\n${table.error}` : ""}`}
      style=${{ left: `${place.x}px`, top: `${place.y}px`, width: `${CARD.width}px`, height: `${CARD.height}px` }}
      onMouseEnter=${() => onNear(table.table)}
      onMouseLeave=${() => onNear("")}
      onFocus=${() => onNear(table.table)}
      onBlur=${() => onNear("")}
    >
      <span class="line"><${State} table=${table} quiet /><span class="name">${getLeafName(table.table)}</span></span>
      <span class="line small"><span class=${isLate(table) ? "stale" : ""}>${age}</span>${dead ? html`<span class="bad" title=${`${formatCount(dead)} dead letters in its source`}>✉ ${shortenCount(dead)}</span>` : null}<span class="rate">${rows}</span></span>
    </a>`;
  }
}

function listEdges(tables, places) {
  const byName = new Map(tables.map((table) => [table.table, table]));
  const edges = [];
  for (const table of tables) {
    for (const read of listUpstreams(table)) {
      const from = places.get(read);
      const to = places.get(table.table);
      if (from && to) edges.push({ source: byName.get(read), target: table, from, to });
    }
  }
  // One label for each table that lags, even if it reads several tables.
  const lagging = new Map();
  for (const edge of edges) {
    const lag = edge.source.readers.find((reader) => reader.model === edge.target.table);
    if (!lag?.commits) continue;
    const first = lagging.get(edge.target.table) ?? edge;
    lagging.set(edge.target.table, first);
    first.behind = (first.behind ?? 0) + lag.rows;
  }
  return edges;
}

function Edge({ edge, isDim, withLabel }) {
  const { source, target, from, to } = edge;
  const [x1, y1] = [from.x + CARD.width, from.y + CARD.height / 2];
  const [x2, y2] = [to.x, to.y + CARD.height / 2];
  const bend = Math.max(40, (x2 - x1) / 2);
  const isBroken = target.state === "failed" || target.state === "held";
  const flows = source.recent_rows > 0;
  const kind = isBroken ? "broken" : target.tested_table ? "quarantine" : flows ? "flows" : "idle";
  const width = 1.2 + (flows ? Math.log10(1 + source.recent_rows) / 2.2 : 0);
  const path = `M${x1},${y1}C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`;
  return html`<g class=${isDim ? "dim" : ""}>
    <path class=${`edge ${kind}`} d=${path} stroke-width=${width.toFixed(1)} />
    ${kind === "flows" ? html`<path class="pulse" d=${path} stroke-width=${width.toFixed(1)} />` : null}
    ${edge.behind && withLabel
      ? html`<text class="lag" x=${x2 - 10} y=${y2 - 7} text-anchor="end">${shortenCount(edge.behind)} behind</text>`
      : null}
  </g>`;
}

function LayerHead({ tables, x, scale }) {
  const width = (CARD.width + GAP.x) * scale - 12;
  return html`<div class="layer" style=${{ left: `${x}px`, width: `${width}px` }}><${LayerText} tables=${tables} /></div>`;
}

const QUIET = new Set(["fresh", "unknown"]);

// An overview of any number of tables: a small field for each, in the colour of its state.
function Fields({ byLayer, matches, onClose }) {
  return html`<div class="fields" tabindex="0" role="group" aria-label="All tables by layer">
    ${byLayer.map(
      (layer, n) => html`<section key=${n} aria-label=${nameLayer(layer)}>
        <div class="fields-head"><${LayerText} tables=${layer} /></div>
        <div class="cells">
          ${layer.map(
            (table) => html`<a
              key=${table.table}
              class=${`cell cell-${table.state}${matches && !matches.has(table.table) ? " dim" : ""}${table.recent_rows ? " flows" : ""}`}
              href=${linkTo(table.table)}
              aria-label=${`${table.table}: ${table.state}`}
              title=${`${table.table}: ${table.state}`}
            ><span aria-hidden="true">${QUIET.has(table.state) ? "" : describeState(table).sign}</span></a>`,
          )}
        </div>
      </section>`,
    )}
    <p><button type="button" onClick=${onClose}>Back to the graph</button></p>
  </div>`;
}

function LayerText({ tables }) {
  const rows = tables.reduce((sum, table) => sum + table.recent_rows, 0);
  const bad = tables.filter((table) => table.state === "failed" || table.state === "held").length;
  return html`<strong>${nameLayer(tables)}</strong>
    <span>${formatCount(tables.length)} ${tables.length === 1 ? "table" : "tables"}${bad ? html` · <b class="bad">${bad} failing</b>` : null}</span>
    <span>${rows ? `+${shortenCount(rows)} rows/min` : "no rows flow"}</span>`;
}

export function Graph({ all, tables, matches, now }) {
  const scroller = useRef(null);
  const view = useViewport(scroller);
  const layout = useLayout(tables);
  const [wanted, setScale] = useState(0);
  const [near, setNear] = useState("");
  const [asFields, setFields] = useState(false);
  const fitting = Math.min(1, (view.width - 48) / Math.max(1, layout.width));
  const scale = wanted || Math.max(view.width < 700 ? 0.75 : 0.6, fitting);

  const lit = useMemo(() => (near ? findLineage(tables, [near]) : null), [near, tables]);
  const byLayer = layout.layers.map((layer) => tables.filter((table) => table.layer === layer));
  const left = Math.max(24, (view.width - layout.width * scale) / 2);
  const top = (view.top - HEADER) / scale - MARGIN;
  const bottom = (view.top + view.height) / scale + MARGIN;
  const start = (view.left - left) / scale - MARGIN;
  const end = (view.left - left + view.width) / scale + MARGIN;
  const isSeen = ({ x, y }) => y + CARD.height > top && y < bottom && x + CARD.width > start && x < end;
  const seen = tables.filter((table) => layout.places.has(table.table) && isSeen(layout.places.get(table.table)));
  const edges = listEdges(tables, layout.places).filter(
    ({ from, to }) => Math.max(from.y, to.y) + CARD.height > top && Math.min(from.y, to.y) < bottom,
  );

  const zoom = (factor) => setScale(Math.min(MOST_SCALE, Math.max(LEAST_SCALE, scale * factor)));
  const fitAll = () => {
    const all = Math.min(fitting, (view.height - HEADER - 40) / Math.max(1, layout.height));
    if (all < LEAST_SCALE) setFields(true);
    else setScale(all);
  };
  const onWheel = (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.1 : 1 / 1.1);
  };

  return html`<section class="graph-view" aria-label="Graph of tables">
    ${asFields ? html`<${Fields} byLayer=${byLayer} matches=${matches} onClose=${() => setFields(false)} />` : null}
    <div class=${`graph${asFields ? " away" : ""}`} ref=${scroller} tabindex="0" role="group" aria-label="Tables by layer" onWheel=${onWheel}>
      <div class="layers" style=${{ width: `${layout.width * scale + 2 * left}px`, height: `${HEADER}px` }}>
        ${byLayer.map((layerTables, n) => html`<${LayerHead} key=${n} tables=${layerTables} x=${left + n * (CARD.width + GAP.x) * scale} scale=${scale} />`)}
      </div>
      <div class="canvas" style=${{ width: `${layout.width * scale + 2 * left}px`, height: `${layout.height * scale + 48}px` }}>
        <div class=${`plane${scale < 0.45 ? " far" : ""}`} style=${{ left: `${left}px`, transform: `scale(${scale})` }}>
          <svg aria-hidden="true" width=${layout.width} height=${layout.height}>
            ${edges.map(
              (edge) => html`<${Edge}
                key=${`${edge.source.table}→${edge.target.table}`}
                edge=${edge}
                withLabel=${scale > 0.55}
                isDim=${lit && !(lit.has(edge.source.table) && lit.has(edge.target.table))}
              />`,
            )}
          </svg>
          ${seen.map(
            (table) => html`<${Card}
              key=${table.table}
              table=${table}
              place=${layout.places.get(table.table)}
              age=${describeFreshness(table, now)}
              isDim=${Boolean(lit && !lit.has(table.table))}
              isSoft=${Boolean(matches && !matches.has(table.table))}
              isMatch=${Boolean(matches?.has(table.table))}
              onNear=${setNear}
            />`,
          )}
        </div>
      </div>
    </div>
    <div class=${`zoom${asFields ? " away" : ""}`} role="group" aria-label="Zoom">
      <button type="button" aria-label="Smaller" onClick=${() => zoom(1 / 1.25)}>−</button>
      <button type="button" aria-label="Show all tables" onClick=${fitAll}>⤢</button>
      <button type="button" aria-label="Larger" onClick=${() => zoom(1.25)}>+</button>
    </div>
    ${tables.length < all.length
      ? html`<p class="note">${formatCount(matches?.size ?? 0)} of ${formatCount(all.length)} tables, with everything upstream and downstream</p>`
      : null}
  </section>`;
}
