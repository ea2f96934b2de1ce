// A small chart over time, in the colours of the page.

import uPlot from "./vendor/uplot/uplot.js";
import { html, useEffect, useRef } from "./vendor/htm/preact.js";
import { shortenCount } from "./format.js";

const style = document.createElement("link");
style.rel = "stylesheet";
style.href = "/page/vendor/uplot/uPlot.min.css";
document.head.append(style);

function readColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function Chart({ label, times, series }) {
  const place = useRef(null);
  const chart = useRef(null);
  useEffect(() => {
    const container = place.current;
    const buildAxis = () => ({ stroke: readColour("--muted"), grid: { stroke: readColour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" });
    const draw = () => {
      chart.current?.destroy();
      chart.current = new uPlot(
        {
          width: Math.max(200, container.clientWidth),
          height: 170,
          legend: { show: false },
          cursor: { show: false },
          scales: { y: { range: (_, least, most) => [0, Math.max(5, (most ?? 0) * 1.1)] } },
          axes: [
            { ...buildAxis(), values: (_, all) => all.map((at) => new Date(at * 1000).toLocaleTimeString("en-GB")), space: 80, size: 30 },
            { ...buildAxis(), values: (_, all) => all.map(shortenCount), size: 52 },
          ],
          series: [{}, ...series.map((one) => ({ stroke: readColour(one.colour), width: 2, fill: one.fill ? readColour(one.fill) : undefined, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } }))],
        },
        [times, ...series.map((one) => one.values)],
        container,
      );
    };
    draw();
    const sizes = new ResizeObserver(() => chart.current?.setSize({ width: Math.max(200, container.clientWidth), height: 170 }));
    sizes.observe(container);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", draw);
    return () => {
      sizes.disconnect();
      scheme.removeEventListener("change", draw);
      chart.current?.destroy();
    };
  }, []);
  useEffect(() => chart.current?.setData([times, ...series.map((one) => one.values)]), [times.length, times.at(-1)]);
  return html`<div class="chart" ref=${place} role="img" aria-label=${label}></div>`;
}
