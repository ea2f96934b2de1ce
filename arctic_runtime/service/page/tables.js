// All tables as a list: a thousand of them are a few rows on the screen.

import { html, useMemo, useRef, useState } from "./vendor/htm/preact.js";
import { bytes, freshness, secondsSince, short, whole } from "./format.js";
import { State, TableLink, useViewport } from "./parts.js";

const ROW = 41;
const MORE = 12;

export function worstLag(table) {
  return table.readers.reduce((most, of) => (of.rows > (most?.rows ?? 0) ? of : most), null);
}

const ORDER = ["failed", "missing", "held", "behind", "refreshing", "delayed", "paused", "fresh", "unknown"];

const COLUMNS = [
  { name: "state", title: "State", of: (t) => ORDER.indexOf(t.state), show: (t) => html`<${State} table=${t} />` },
  { name: "table", title: "Table", of: (t) => t.table, show: (t) => html`<${TableLink} name=${t.table} />` },
  { name: "age", title: "Fresh", of: (t, now) => -(t.freshness ? (secondsSince(t.freshness.as_of, now) ?? 1e9) : -1e9 + (secondsSince(t.changed_at, now) ?? 0)), show: (t, now) => freshness(t, now) },
  { name: "rate", title: "Rows/min", of: (t) => -t.recent_rows, show: (t) => (t.recent_rows ? `+${short(t.recent_rows)}` : "–"), isNumber: true, isWide: true },
  { name: "rows", title: "Rows", of: (t) => -t.rows, show: (t) => short(t.rows), isNumber: true, isWide: true },
  { name: "unmerged", title: "Unmerged", of: (t) => -t.unmerged_rows, show: (t) => (t.unmerged_rows ? short(t.unmerged_rows) : "–"), isNumber: true, isWide: true },
  { name: "size", title: "Size", of: (t) => -t.bytes, show: (t) => bytes(t.bytes), isNumber: true, isWide: true },
  { name: "waste", title: "Wasted reading", of: (t) => -t.waste_bytes, show: (t) => (t.waste_bytes ? bytes(t.waste_bytes) : "–"), isNumber: true, isWide: true },
  { name: "lag", title: "Slowest reader", of: (t) => -(worstLag(t)?.rows ?? -1), show: (t) => (worstLag(t) ? `${short(worstLag(t).rows)} rows behind` : "–"), isNumber: true, isWide: true },
];

export function TableList({ tables, now }) {
  const scroller = useRef(null);
  const view = useViewport(scroller);
  const [sort, setSort] = useState({ name: "state", isReverse: false });
  const column = COLUMNS.find((of) => of.name === sort.name);
  const sorted = useMemo(() => {
    const keys = new Map(tables.map((of) => [of.table, column.of(of, now)]));
    const order = (a, b) => {
      const [one, other] = [keys.get(a.table), keys.get(b.table)];
      return one < other ? -1 : one > other ? 1 : a.table < b.table ? -1 : 1;
    };
    const found = [...tables].sort(order);
    return sort.isReverse ? found.reverse() : found;
  }, [tables, sort]);
  const first = Math.max(0, Math.floor(view.top / ROW) - MORE);
  const last = Math.min(sorted.length, Math.ceil((view.top + view.height) / ROW) + MORE);
  const by = (name) => setSort({ name, isReverse: sort.name === name && !sort.isReverse });
  const ordered = (name) => (sort.name !== name ? "none" : sort.isReverse ? "descending" : "ascending");
  const kind = (of) => `${of.isNumber ? "number" : ""} ${of.isWide ? "wide" : ""}`;
  return html`<section class="list" ref=${scroller} tabindex="0" aria-label="List of tables">
    <table aria-rowcount=${sorted.length + 1}>
      <thead>
        <tr aria-rowindex="1">
          ${COLUMNS.map(
            (of) => html`<th key=${of.name} class=${kind(of)} scope="col" aria-sort=${ordered(of.name)}>
              <button type="button" class="plain" onClick=${() => by(of.name)}>${of.title}</button>
            </th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${first > 0 ? html`<tr aria-hidden="true" style=${{ height: `${first * ROW}px` }}></tr>` : null}
        ${sorted.slice(first, last).map(
          (table, n) => html`<tr key=${table.table} aria-rowindex=${first + n + 2}>
            ${COLUMNS.map((of) => html`<td key=${of.name} class=${kind(of)}>${of.show(table, now)}</td>`)}
          </tr>`,
        )}
        ${last < sorted.length ? html`<tr aria-hidden="true" style=${{ height: `${(sorted.length - last) * ROW}px` }}></tr>` : null}
      </tbody>
    </table>
    ${sorted.length ? null : html`<p class="empty">No table has this name and state.</p>`}
    <p class="hidden" role="status">${whole(sorted.length)} tables</p>
  </section>`;
}
