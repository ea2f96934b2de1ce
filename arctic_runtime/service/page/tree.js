// The hash tree of a table as a picture: a row for each depth, and each node as wide as the bytes below it.

import { html } from "./vendor/htm/preact.js";
import { formatBytes, formatCount } from "./format.js";

const WIDTH = 1000;
const ROW = 30;

function placeNodes(nodes) {
  const byPlace = new Map(nodes.map((node) => [`${node.depth}/${node.index}`, node]));
  const boxes = [];
  const place = (node, left, width) => {
    boxes.push({ node, left, width });
    const below = [0, 1].map((n) => byPlace.get(`${node.depth + 1}/${node.index * 2 + n}`)).filter(Boolean);
    let start = left;
    for (const child of below) {
      const part = node.bytes ? (width * child.bytes) / node.bytes : width / below.length;
      place(child, start, part);
      start += part;
    }
  };
  const root = byPlace.get("0/0");
  if (root) place(root, 0, WIDTH);
  return boxes;
}

export function Tree({ tree }) {
  const boxes = placeNodes(tree.nodes);
  const depth = Math.max(0, ...tree.nodes.map((node) => node.depth));
  const files = tree.nodes.find((node) => node.depth === 0)?.files ?? 0;
  const total = tree.nodes.find((node) => node.depth === 0)?.bytes ?? 0;
  const largest = Math.max(1, ...tree.nodes.map((node) => (node.files ? node.bytes / node.files : 0)));
  const label = `${tree.nodes.length} nodes in ${depth + 1} levels, ${formatCount(files)} files of ${formatBytes(files ? total / files : 0)} on average`;
  return html`<div class="tree">
    <p>${label}${tree.partitions > 1 ? `; partition ${tree.partition}, the largest of ${formatCount(tree.partitions)}` : ""}. Darker nodes have larger files.</p>
    <svg viewBox=${`0 0 ${WIDTH} ${(depth + 1) * ROW}`} role="img" aria-label=${label} preserveAspectRatio="none" style=${{ width: "100%", height: `${Math.min(220, (depth + 1) * ROW)}px` }}>
      ${boxes.map(
        ({ node, left, width }) => html`<rect
          key=${`${node.depth}/${node.index}`}
          x=${left.toFixed(2)}
          y=${node.depth * ROW}
          width=${Math.max(1, width).toFixed(2)}
          height=${ROW}
          fill-opacity=${(0.25 + (0.75 * (node.files ? node.bytes / node.files : 0)) / largest).toFixed(2)}
        ><title>${`depth ${node.depth}, node ${node.index}: ${formatBytes(node.bytes)} in ${formatCount(node.files)} files, ${formatCount(node.own_files)} of them its own`}</title></rect>`,
      )}
    </svg>
  </div>`;
}
