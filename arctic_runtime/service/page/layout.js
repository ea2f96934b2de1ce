// Where tables stand in the graph: a column for each layer. A first order comes at once, a better one from ELK.

export const CARD = { width: 216, height: 50 };
export const GAP = { x: 104, y: 12 };
const SWEEPS = 6;

function columnsOf(tables) {
  const layers = [...new Set(tables.map((of) => of.layer))].sort((a, b) => a - b);
  const columns = layers.map(() => []);
  for (const of of tables) columns[layers.indexOf(of.layer)].push(of.table);
  return { layers, columns };
}

function neighbours(tables) {
  const above = new Map();
  const below = new Map(tables.map((of) => [of.table, []]));
  for (const of of tables) {
    above.set(of.table, of.reads.filter((read) => below.has(read)));
    for (const read of above.get(of.table)) below.get(read).push(of.table);
  }
  return { above, below };
}

// Sorts each column by the middle of its neighbours in the columns before it, then after it, some times over.
function sorted(columns, { above, below }) {
  const place = new Map();
  const renumber = (column) => column.forEach((name, n) => place.set(name, n / Math.max(1, column.length - 1)));
  columns.forEach(renumber);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const [order, near] = sweep % 2 ? [columns.toReversed(), below] : [columns, above];
    for (const column of order) {
      const weight = new Map(
        column.map((name) => {
          const of = near.get(name);
          return [name, of.length ? of.reduce((sum, other) => sum + place.get(other), 0) / of.length : place.get(name)];
        }),
      );
      column.sort((a, b) => weight.get(a) - weight.get(b) || place.get(a) - place.get(b));
      renumber(column);
    }
  }
  return columns;
}

export function quickLayout(tables) {
  const { layers, columns } = columnsOf(tables);
  const found = sorted(columns, neighbours(tables));
  const tallest = Math.max(1, ...found.map((column) => column.length));
  const places = new Map();
  found.forEach((column, n) => {
    const spread = Math.min(2.5, tallest / Math.max(1, column.length));
    const start = ((tallest - column.length * spread) / 2) * (CARD.height + GAP.y);
    column.forEach((name, row) =>
      places.set(name, { x: n * (CARD.width + GAP.x), y: start + row * spread * (CARD.height + GAP.y) }),
    );
  });
  return finished(places, layers);
}

function finished(places, layers) {
  let height = 0;
  for (const { y } of places.values()) height = Math.max(height, y + CARD.height);
  return { places, layers, width: layers.length * (CARD.width + GAP.x) - GAP.x, height };
}

let worker = null;
let asked = 0;
const waiting = new Map();

function engine() {
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

// The order of ELK with columns as they are; null where it can't tell one.
export async function betterLayout(tables) {
  const { layers } = columnsOf(tables);
  const { above } = neighbours(tables);
  const ids = new Map(tables.map((of, n) => [of.table, `n${n}`]));
  const large = tables.length > 400;
  const graph = {
    id: "root",
    layoutOptions: large
      ? { ...OPTIONS, "elk.layered.nodePlacement.strategy": "BRANDES_KOEPF", "elk.layered.thoroughness": "1" }
      : OPTIONS,
    children: tables.map((of) => ({
      id: ids.get(of.table),
      ...CARD,
      layoutOptions: { "elk.partitioning.partition": String(layers.indexOf(of.layer)) },
    })),
    edges: tables.flatMap((of) =>
      above.get(of.table).map((read) => ({
        id: `${ids.get(read)}-${ids.get(of.table)}`,
        sources: [ids.get(read)],
        targets: [ids.get(of.table)],
      })),
    ),
  };
  const id = (asked += 1);
  const found = await new Promise((resolve, reject) => {
    waiting.set(id, [resolve, reject]);
    engine().postMessage({ id, cmd: "layout", graph, layoutOptions: {}, options: {} });
  });
  const rows = new Map(found.children.map((child) => [child.id, child.y]));
  const least = Math.min(...rows.values());
  const places = new Map(
    tables.map((of) => [
      of.table,
      { x: layers.indexOf(of.layer) * (CARD.width + GAP.x), y: rows.get(ids.get(of.table)) - least },
    ]),
  );
  return finished(packed(places), layers);
}

// Lets no two cards of a column overlap: ELK may have put what is one column here into two.
function packed(places) {
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
