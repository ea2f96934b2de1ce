// Positions of tables in the graph, a column for each layer: a quick layout first, then a better one from ELK.

import { listUpstreams } from "./format.js";

export const CARD = { width: 216, height: 50 };
export const GAP = { x: 104, y: 12 };
const SWEEPS = 6;

function groupByLayer(tables) {
  const layers = [...new Set(tables.map((table) => table.layer))].sort((a, b) => a - b);
  const columns = layers.map(() => []);
  for (const table of tables) columns[layers.indexOf(table.layer)].push(table.table);
  return { layers, columns };
}

function findNeighbours(tables) {
  const above = new Map();
  const below = new Map(tables.map((table) => [table.table, []]));
  for (const table of tables) {
    above.set(table.table, listUpstreams(table).filter((read) => below.has(read)));
    for (const read of above.get(table.table)) below.get(read).push(table.table);
  }
  return { above, below };
}

// Sorts each column by the mean position of its neighbours, in alternating sweeps from the left and from the right.
function sortColumns(columns, { above, below }) {
  const place = new Map();
  const renumber = (column) => column.forEach((name, n) => place.set(name, n / Math.max(1, column.length - 1)));
  columns.forEach(renumber);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const [order, near] = sweep % 2 ? [columns.toReversed(), below] : [columns, above];
    for (const column of order) {
      const weight = new Map(
        column.map((name) => {
          const adjacent = near.get(name);
          return [name, adjacent.length ? adjacent.reduce((sum, other) => sum + place.get(other), 0) / adjacent.length : place.get(name)];
        }),
      );
      column.sort((a, b) => weight.get(a) - weight.get(b) || place.get(a) - place.get(b));
      renumber(column);
    }
  }
  return columns;
}

export function layOutQuickly(tables) {
  const { layers, columns } = groupByLayer(tables);
  const sorted = sortColumns(columns, findNeighbours(tables));
  const tallest = Math.max(1, ...sorted.map((column) => column.length));
  const places = new Map();
  sorted.forEach((column, n) => {
    const spread = Math.min(2.5, tallest / Math.max(1, column.length));
    const start = ((tallest - column.length * spread) / 2) * (CARD.height + GAP.y);
    column.forEach((name, row) =>
      places.set(name, { x: n * (CARD.width + GAP.x), y: start + row * spread * (CARD.height + GAP.y) }),
    );
  });
  return measureLayout(places, layers);
}

function measureLayout(places, layers) {
  let height = 0;
  for (const { y } of places.values()) height = Math.max(height, y + CARD.height);
  return { places, layers, width: layers.length * (CARD.width + GAP.x) - GAP.x, height };
}

let worker = null;
let lastRequest = 0;
const waiting = new Map();

function getWorker() {
  if (!worker) {
    worker = new Worker("/page/vendor/elkjs/elk-worker.js");
    worker.onmessage = ({ data }) => {
      const [resolve, reject] = waiting.get(data.id) ?? [];
      waiting.delete(data.id);
      if (data.error) reject?.(new Error(String(data.error.message ?? data.error)));
      else resolve?.(data.data);
    };
    worker.postMessage({ id: 0, cmd: "register", algorithms: ["layered"] });
  }
  return worker;
}

const OPTIONS = {
  "elk.algorithm": "layered",
  "elk.direction": "RIGHT",
  "elk.partitioning.activate": "true",
  "elk.separateConnectedComponents": "false",
  "elk.layered.nodePlacement.strategy": "NETWORK_SIMPLEX",
  "elk.layered.thoroughness": "3",
  "elk.spacing.nodeNode": String(GAP.y),
  "elk.spacing.edgeNode": "6",
  "elk.spacing.edgeEdge": "4",
  "elk.layered.spacing.nodeNodeBetweenLayers": String(GAP.x),
};

// The layout of ELK, with the columns of the layers. Rejects if ELK finds none.
export async function layOutWithElk(tables) {
  const { layers } = groupByLayer(tables);
  const { above } = findNeighbours(tables);
  const ids = new Map(tables.map((table, n) => [table.table, `n${n}`]));
  const large = tables.length > 400;
  const graph = {
    id: "root",
    layoutOptions: large
      ? { ...OPTIONS, "elk.layered.nodePlacement.strategy": "BRANDES_KOEPF", "elk.layered.thoroughness": "1" }
      : OPTIONS,
    children: tables.map((table) => ({
      id: ids.get(table.table),
      ...CARD,
      layoutOptions: { "elk.partitioning.partition": String(layers.indexOf(table.layer)) },
    })),
    edges: tables.flatMap((table) =>
      above.get(table.table).map((read) => ({
        id: `${ids.get(read)}-${ids.get(table.table)}`,
        sources: [ids.get(read)],
        targets: [ids.get(table.table)],
      })),
    ),
  };
  const id = (lastRequest += 1);
  const graphLayout = await new Promise((resolve, reject) => {
    waiting.set(id, [resolve, reject]);
    getWorker().postMessage({ id, cmd: "layout", graph, layoutOptions: {}, options: {} });
  });
  const rows = new Map(graphLayout.children.map((child) => [child.id, child.y]));
  const least = Math.min(...rows.values());
  const places = new Map(
    tables.map((table) => [
      table.table,
      { x: layers.indexOf(table.layer) * (CARD.width + GAP.x), y: rows.get(ids.get(table.table)) - least },
    ]),
  );
  return measureLayout(separateCards(places), layers);
}

// Moves cards of a column apart if they overlap: ELK may have placed one column here as two of its own.
function separateCards(places) {
  const columns = new Map();
  for (const [name, place] of places) {
    if (!columns.has(place.x)) columns.set(place.x, []);
    columns.get(place.x).push([name, place]);
  }
  for (const column of columns.values()) {
    column.sort((a, b) => a[1].y - b[1].y);
    let free = 0;
    for (const [, place] of column) {
      place.y = Math.max(place.y, free);
      free = place.y + CARD.height + GAP.y;
    }
  }
  return places;
}
