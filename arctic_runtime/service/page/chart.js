// A small chart over time, in the colours of the page.

import uPlot from "./vendor/uplot/uplot.js";
import { html, useEffect, useRef } from "./vendor/htm/preact.js";
import { formatSpan, shortenCount } from "./format.js";

const HEIGHT = 170;
const SHORTEST = 10; // Seconds that the axis of times has at least.
const style = document.createElement("link");
style.rel = "stylesheet";
style.href = "/page/vendor/uplot/uPlot.min.css";
document.head.append(style);

function readColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const RANGES = {
  zero: (_, least, most) => [0, Math.max(5, (most ?? 0) * 1.1)],
  // Seconds may be few: the axis ends a little above the longest.
  seconds: (_, least, most) => [0, Math.max(1, (most ?? 0) * 1.1)],
  // The range of the values themselves, for numbers that are large and change little.
  values: (_, least, most) => {
    const margin = Math.max(1, ((most ?? 0) - (least ?? 0)) * 0.1);
    return [Math.max(0, (least ?? 0) - margin), (most ?? 0) + margin];
  },
};

// `series` have values, a colour, and `isPoints` for single points. `range` is a key of RANGES; `format` names values.
export function Chart({ label, times, series, range = "zero", format = shortenCount }) {
  const place = useRef(null);
  const chart = useRef(null);
  useEffect(() => {
    const container = place.current;
    const buildAxis = () => ({ stroke: readColour("--muted"), grid: { stroke: readColour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" });
    const buildSeries = (one) => ({
      stroke: readColour(one.colour),
      width: 2,
      fill: one.fill ? readColour(one.fill) : undefined,
      paths: one.isPoints ? () => null : uPlot.paths.stepped({ align: 1 }),
      points: one.isPoints ? { show: true, size: 7, fill: readColour(one.colour), stroke: readColour(one.colour) } : { show: false },
    });
    const draw = () => {
      chart.current?.destroy();
      chart.current = new uPlot(
        {
          width: Math.max(200, container.clientWidth),
          height: HEIGHT,
          legend: { show: false },
          cursor: { show: false },
          scales: { x: { range: (_, first, last) => (last - first < SHORTEST ? [last - SHORTEST, last] : [first, last]) }, y: { range: RANGES[range] } },
          axes: [
            { ...buildAxis(), values: (_, all) => formatSpan(all), space: 80, size: 30 },
            { ...buildAxis(), values: (_, all) => all.map(format), size: 58 },
          ],
          series: [{}, ...series.map(buildSeries)],
        },
        [times, ...series.map((one) => one.values)],
        container,
      );
    };
    draw();
    const sizes = new ResizeObserver(() => chart.current?.setSize({ width: Math.max(200, container.clientWidth), height: HEIGHT }));
    sizes.observe(container);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", draw);
    return () => {
      sizes.disconnect();
      scheme.removeEventListener("change", draw);
      chart.current?.destroy();
    };
  }, []);
  useEffect(() => chart.current?.setData([times, ...series.map((one) => one.values)]), [times.length, times[0], times.at(-1)]);
  return html`<div class="chart" ref=${place} role="img" aria-label=${label}></div>`;
}
