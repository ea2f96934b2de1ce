// The warehouse as a graph: a column for each layer, rows that flow on the edges, and what waits.

import { Component, html, useEffect, useMemo, useRef, useState } from "./vendor/htm/preact.js";
import { freshness, isLate, layerTitle, leafName, linkTo, short, stateOf, whole } from "./format.js";
import { CARD, GAP, betterLayout, quickLayout } from "./layout.js";
import { State, useViewport } from "./parts.js";
import { store } from "./store.js";

const LEAST_SCALE = 0.45;
const MOST_SCALE = 1.4;
const MARGIN = 240;
const HEADER = 62;

const kept = new Map(); // Better layouts by what they are of.

export function lineage(tables, names) {
  const byName = new Map(tables.map((of) => [of.table, of]));
  const below = new Map();
  for (const of of tables) for (const read of of.reads) below.set(read, [...(below.get(read) ?? []), of.table]);
  const found = new Set(names);
  for (const next of [(name) => byName.get(name)?.reads ?? [], (name) => below.get(name) ?? []]) {
    const waiting = [...names];
    const seen = new Set(names);
    while (waiting.length) {
      for (const other of next(waiting.pop())) {
        if (seen.has(other) || !byName.has(other)) continue;
        seen.add(other);
        found.add(other);
        waiting.push(other);
      }
    }
  }
  return found;
}

function useLayout(tables) {
  const key = `${store.topology} ${tables.length} ${tables[0]?.table} ${tables.at(-1)?.table}`;
  const quick = useMemo(() => kept.get(key) ?? quickLayout(tables), [key]);
  const [better, setBetter] = useState({ key: "", found: null });
  useEffect(() => {
    let isCurrent = true;
    if (kept.has(key) || tables.length < 3) return undefined;
    betterLayout(tables)
      .then((found) => {
        kept.set(key, found);
        if (isCurrent) setBetter({ key, found });
      })
      .catch((error) => console.warn("the graph keeps its first order:", error.message));
    return () => {
      isCurrent = false;
    };
  }, [key]);
  return better.key === key ? better.found : quick;
}

class Card extends Component {
  shouldComponentUpdate(next) {
    return ["table", "place", "age", "isDim", "isSoft", "isMatch"].some((name) => next[name] !== this.props[name]);
  }

  render({ table, place, age, isDim, isSoft, isMatch, onNear }) {
    const rows = table.recent_rows ? `+${short(table.recent_rows)}/min` : "";
    const dead = table.ingestion?.dead_letters ?? 0;
    const label = `${table.table}: ${table.state}, ${age}${dead ? `, ${dead} dead letters` : ""}${rows ? `, ${rows} rows` : ""}`;
    return html`<a
      class=${`card edge-${table.state}${isDim ? " dim" : isSoft ? " soft" : ""}${isMatch ? " match" : ""}`}
      href=${linkTo(table.table)}
      aria-label=${label}
      title=${`${table.table}\n${stateOf(table).text}${table.freshness?.reason ? `\n${table.freshness.reason}` : ""}${table.error ? `\n${table.error}` : ""}`}
      style=${{ left: `${place.x}px`, top: `${place.y}px`, width: `${CARD.width}px`, height: `${CARD.height}px` }}
      onMouseEnter=${() => onNear(table.table)}
      onMouseLeave=${() => onNear("")}
      onFocus=${() => onNear(table.table)}
      onBlur=${() => onNear("")}
    >
      <span class="line"><${State} table=${table} quiet /><span class="name">${leafName(table.table)}</span></span>
      <span class="line small"><span class=${isLate(table) ? "stale" : ""}>${age}</span>${dead ? html`<span class="bad" title=${`${whole(dead)} dead letters in its source`}>✉ ${short(dead)}</span>` : null}<span class="rate">${rows}</span></span>
    </a>`;
  }
}

function edgesOf(tables, places) {
  const byName = new Map(tables.map((of) => [of.table, of]));
  const found = [];
  for (const of of tables) {
    for (const read of of.reads) {
      const from = places.get(read);
      const to = places.get(of.table);
      if (from && to) found.push({ source: byName.get(read), target: of, from, to });
    }
  }
  // One text for each table that lags, however many it reads.
  const lagging = new Map();
  for (const edge of found) {
    const lag = edge.source.readers.find((of) => of.model === edge.target.table);
    if (!lag?.commits) continue;
    const first = lagging.get(edge.target.table) ?? edge;
    lagging.set(edge.target.table, first);
    first.behind = (first.behind ?? 0) + lag.rows;
  }
  return found;
}

function Edge({ edge, isDim, withLabel }) {
  const { source, target, from, to } = edge;
  const [x1, y1] = [from.x + CARD.width, from.y + CARD.height / 2];
  const [x2, y2] = [to.x, to.y + CARD.height / 2];
  const bend = Math.max(40, (x2 - x1) / 2);
  const isBroken = target.state === "failed" || target.state === "held";
  const flows = source.recent_rows > 0;
  const kind = isBroken ? "broken" : flows ? "flows" : "idle";
  const width = 1.2 + (flows ? Math.log10(1 + source.recent_rows) / 2.2 : 0);
  const path = `M${x1},${y1}C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`;
  return html`<g class=${isDim ? "dim" : ""}>
    <path class=${`edge ${kind}`} d=${path} stroke-width=${width.toFixed(1)} />
    ${flows && !isBroken ? html`<path class="pulse" d=${path} stroke-width=${width.toFixed(1)} />` : null}
    ${edge.behind && withLabel
      ? html`<text class="lag" x=${x2 - 10} y=${y2 - 7} text-anchor="end">${short(edge.behind)} behind</text>`
      : null}
  </g>`;
}

function LayerHead({ tables, x, scale }) {
  const width = (CARD.width + GAP.x) * scale - 12;
  return html`<div class="layer" style=${{ left: `${x}px`, width: `${width}px` }}><${LayerText} tables=${tables} /></div>`;
}

const QUIET = new Set(["fresh", "unknown"]);

// All tables at a glance, however many: a small field for each, in the colour of its state.
function Fields({ byLayer, matches, onClose }) {
  return html`<div class="fields" tabindex="0" role="group" aria-label="All tables by layer">
    ${byLayer.map(
      (of, n) => html`<section key=${n} aria-label=${layerTitle(of)}>
        <div class="fields-head"><${LayerText} tables=${of} /></div>
        <div class="cells">
          ${of.map(
            (table) => html`<a
              key=${table.table}
              class=${`cell cell-${table.state}${matches && !matches.has(table.table) ? " dim" : ""}${table.recent_rows ? " flows" : ""}`}
              href=${linkTo(table.table)}
              aria-label=${`${table.table}: ${table.state}`}
              title=${`${table.table}: ${table.state}`}
            ><span aria-hidden="true">${QUIET.has(table.state) ? "" : stateOf(table).sign}</span></a>`,
          )}
        </div>
      </section>`,
    )}
    <p><button type="button" onClick=${onClose}>Back to the graph</button></p>
  </div>`;
}

function LayerText({ tables }) {
  const rows = tables.reduce((sum, of) => sum + of.recent_rows, 0);
  const bad = tables.filter((of) => of.state === "failed" || of.state === "held").length;
  return html`<strong>${layerTitle(tables)}</strong>
    <span>${whole(tables.length)} ${tables.length === 1 ? "table" : "tables"}${bad ? html` · <b class="bad">${bad} failing</b>` : null}</span>
    <span>${rows ? `+${short(rows)} rows/min` : "no rows flow"}</span>`;
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

  const lit = useMemo(() => (near ? lineage(tables, [near]) : null), [near, tables]);
  const byLayer = layout.layers.map((layer) => tables.filter((of) => of.layer === layer));
  const left = Math.max(24, (view.width - layout.width * scale) / 2);
  const top = (view.top - HEADER) / scale - MARGIN;
  const bottom = (view.top + view.height) / scale + MARGIN;
  const start = (view.left - left) / scale - MARGIN;
  const end = (view.left - left + view.width) / scale + MARGIN;
  const isSeen = ({ x, y }) => y + CARD.height > top && y < bottom && x + CARD.width > start && x < end;
  const seen = tables.filter((of) => layout.places.has(of.table) && isSeen(layout.places.get(of.table)));
  const edges = edgesOf(tables, layout.places).filter(
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
        ${byLayer.map((of, n) => html`<${LayerHead} key=${n} tables=${of} x=${left + n * (CARD.width + GAP.x) * scale} scale=${scale} />`)}
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
            (of) => html`<${Card}
              key=${of.table}
              table=${of}
              place=${layout.places.get(of.table)}
              age=${freshness(of, now)}
              isDim=${Boolean(lit && !lit.has(of.table))}
              isSoft=${Boolean(matches && !matches.has(of.table))}
              isMatch=${Boolean(matches?.has(of.table))}
              onNear=${setNear}
            />`,
          )}
        </div>
      </div>
    </div>
    <div class=${`zoom${asFields ? " away" : ""}`} role="group" aria-label="Zoom">
      <button type="button" aria-label="Smaller" onClick=${() => zoom(1 / 1.25)}>−</button>
      <button type="button" aria-label="Show all of it" onClick=${fitAll}>⤢</button>
      <button type="button" aria-label="Larger" onClick=${() => zoom(1.25)}>+</button>
    </div>
    ${tables.length < all.length
      ? html`<p class="note">${whole(matches?.size ?? 0)} of ${whole(all.length)} tables, with all above and below them</p>`
      : null}
  </section>`;
}
