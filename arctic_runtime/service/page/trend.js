// Freshness and rows of a table over days, as the service has sampled them.

import { html } from "./vendor/htm/preact.js";
import { get } from "./api.js";
import { Chart } from "./chart.js";
import { formatCount, formatDuration, measureAge, shortenCount } from "./format.js";
import { Failure, useAnswer } from "./parts.js";

const EACH_MS = 300_000;
const BAD = new Set(["failed", "held", "missing", "behind"]);

// How long the samples say that the table was in a state, in words; a sample counts up to the next one, or an hour.
function describeStates(at, states) {
  let bad = 0;
  let all = 0;
  states.forEach((state, n) => {
    const seconds = Math.min(3600, ((at[n + 1] ?? at[n]) - at[n]));
    all += seconds;
    if (BAD.has(state)) bad += seconds;
  });
  if (!all) return "";
  return bad ? `It was late or failing for ${formatDuration(bad)} of ${formatDuration(all)}.` : "It was never late or failing at a sample.";
}

export function Trend({ name, table, now }) {
  const { answer, error } = useAnswer(`${name} ${Math.floor(now / EACH_MS)}`, () => get(`/api/tables/${encodeURIComponent(name)}/trend`));
  if (error) return html`<section class="panel full" aria-labelledby="trend-title"><h2 id="trend-title">History</h2><${Failure} error=${error} /></section>`;
  if (!answer) return null;
  const sampled = answer.at.map((time) => Date.parse(time) / 1000);
  const stale = measureAge(table.freshness?.as_of, now);
  const times = [...sampled, now / 1000];
  const longest = Math.max(0, ...answer.stale_seconds.filter((seconds) => seconds !== null));
  const [first, last] = [answer.rows[0] ?? table.rows, table.rows];
  const grown = last - first;
  return html`<section class="panel full" aria-labelledby="trend-title">
    <h2 id="trend-title">History</h2>
    ${sampled.length
      ? html`<p>${describeStates(sampled, answer.states)} Samples of the last ${formatDuration(now / 1000 - sampled[0])}; two weeks are kept.</p>
          <div class="charts">
            <div>
              <h3>Age of what it shows</h3>
              <${Chart} label=${`Age over time, at most ${formatDuration(longest)}`} times=${times} series=${[{ values: [...answer.stale_seconds, stale], colour: "--warn" }]} range="seconds" format=${formatDuration} />
            </div>
            <div>
              <h3>Rows <small>${grown ? `${grown > 0 ? "+" : "−"}${shortenCount(Math.abs(grown))}` : "unchanged"}</small></h3>
              <${Chart} label=${`Rows over time, now ${formatCount(last)}`} times=${times} series=${[{ values: [...answer.rows, last], colour: "--flow" }]} range="values" />
            </div>
          </div>`
      : html`<p>No sample was taken yet. The service that leads takes one each quarter of an hour.</p>`}
  </section>`;
}
