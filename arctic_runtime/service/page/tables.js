// All tables as a list. Only the visible rows are drawn.

import { html, useMemo, useRef, useState } from "./vendor/htm/preact.js";
import { describeFreshness, formatBytes, formatCount, measureAge, shortenCount } from "./format.js";
import { State, TableLink, useViewport } from "./parts.js";

const ROW = 41;
const MORE = 12;

export function findWorstLag(table) {
  return table.readers.reduce((most, reader) => (reader.rows > (most?.rows ?? 0) ? reader : most), null);
}

const ORDER = ["failed", "missing", "held", "behind", "loading", "refreshing", "delayed", "paused", "fresh", "unknown"];

const COLUMNS = [
  { name: "state", title: "State", sortKey: (t) => ORDER.indexOf(t.state), show: (t) => html`<${State} table=${t} />` },
  { name: "table", title: "Table", sortKey: (t) => t.table, show: (t) => html`<${TableLink} name=${t.table} />` },
  { name: "age", title: "Fresh", sortKey: (t, now) => -(t.freshness ? (measureAge(t.freshness.as_of, now) ?? 1e9) : -1e9 + (measureAge(t.changed_at, now) ?? 0)), show: (t, now) => describeFreshness(t, now) },
  { name: "rate", title: "Rows/min", sortKey: (t) => -t.recent_rows, show: (t) => (t.recent_rows ? `+${shortenCount(t.recent_rows)}` : "–"), isNumber: true, isWide: true },
  { name: "rows", title: "Rows", sortKey: (t) => -t.rows, show: (t) => shortenCount(t.rows), isNumber: true, isWide: true },
  { name: "unmerged", title: "Unmerged", sortKey: (t) => -t.unmerged_rows, show: (t) => (t.unmerged_rows ? shortenCount(t.unmerged_rows) : "–"), isNumber: true, isWide: true },
  { name: "size", title: "Size", sortKey: (t) => -t.bytes, show: (t) => formatBytes(t.bytes), isNumber: true, isWide: true },
  { name: "waste", title: "Waste per read", sortKey: (t) => -t.waste_bytes, show: (t) => (t.waste_bytes ? formatBytes(t.waste_bytes) : "–"), isNumber: true, isWide: true },
  { name: "lag", title: "Slowest reader", sortKey: (t) => -(findWorstLag(t)?.rows ?? -1), show: (t) => (findWorstLag(t) ? `${shortenCount(findWorstLag(t).rows)} rows behind` : "–"), isNumber: true, isWide: true },
];

export function TableList({ tables, now }) {
  const scroller = useRef(null);
  const view = useViewport(scroller);
  const [sort, setSort] = useState({ name: "state", isReverse: false });
  const column = COLUMNS.find((entry) => entry.name === sort.name);
  const sorted = useMemo(() => {
    const keys = new Map(tables.map((table) => [table.table, column.sortKey(table, now)]));
    const compare = (a, b) => {
      const [one, other] = [keys.get(a.table), keys.get(b.table)];
      return one < other ? -1 : one > other ? 1 : a.table < b.table ? -1 : 1;
    };
    const rows = [...tables].sort(compare);
    return sort.isReverse ? rows.reverse() : rows;
  }, [tables, sort]);
  const first = Math.max(0, Math.floor(view.top / ROW) - MORE);
  const last = Math.min(sorted.length, Math.ceil((view.top + view.height) / ROW) + MORE);
  const sortBy = (name) => setSort({ name, isReverse: sort.name === name && !sort.isReverse });
  const describeOrder = (name) => (sort.name !== name ? "none" : sort.isReverse ? "descending" : "ascending");
  const kind = (column) => `${column.isNumber ? "number" : ""} ${column.isWide ? "wide" : ""}`;
  return html`<section class="list" ref=${scroller} tabindex="0" aria-label="List of tables">
    <table aria-rowcount=${sorted.length + 1}>
      <thead>
        <tr aria-rowindex="1">
          ${COLUMNS.map(
            (column) => html`<th key=${column.name} class=${kind(column)} scope="col" aria-sort=${describeOrder(column.name)}>
              <button type="button" class="plain" onClick=${() => sortBy(column.name)}>${column.title}</button>
            </th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${first > 0 ? html`<tr aria-hidden="true" style=${{ height: `${first * ROW}px` }}></tr>` : null}
        ${sorted.slice(first, last).map(
          (table, n) => html`<tr key=${table.table} aria-rowindex=${first + n + 2}>
            ${COLUMNS.map((column) => html`<td key=${column.name} class=${kind(column)}>${column.show(table, now)}</td>`)}
          </tr>`,
        )}
        ${last < sorted.length ? html`<tr aria-hidden="true" style=${{ height: `${(sorted.length - last) * ROW}px` }}></tr>` : null}
      </tbody>
    </table>
    ${sorted.length ? null : html`<p class="empty">No table has this name and state.</p>`}
    <p class="hidden" role="status">${formatCount(sorted.length)} tables</p>
  </section>`;
}
