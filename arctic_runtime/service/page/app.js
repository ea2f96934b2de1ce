// The frame of the page: the current view, the search, and the login.

import { html, render, useEffect, useMemo, useRef, useState } from "./vendor/htm/preact.js";
import { forgetToken, get, hasToken, keepToken } from "./api.js";
import { STATES, formatCount } from "./format.js";
import { Graph, findLineage } from "./graph.js";
import { Failure } from "./parts.js";
import { followWarehouse, onChange, store } from "./store.js";
import { TableList } from "./tables.js";

const VIEWS = [
  { path: "", title: "Graph" },
  { path: "tables", title: "Tables" },
  { path: "jobs", title: "Jobs" },
  { path: "diff", title: "Diff" },
  { path: "query", title: "Query" },
  { path: "service", title: "Service" },
];

// Views whose modules are loaded when they are first opened.
const LAZY = {
  table: () => import("./table.js").then((module) => module.TablePage),
  jobs: () => import("./jobs.js").then((module) => module.Jobs),
  diff: () => import("./diff.js").then((module) => module.Diff),
  query: () => import("./query.js").then((module) => module.Query),
  service: () => import("./service.js").then((module) => module.Service),
};

function readRoute() {
  const [view, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  try {
    return { view, name: decodeURIComponent(rest.join("/")) };
  } catch {
    return { view: "", name: "" };
  }
}

function useRoute() {
  const [route, setRoute] = useState(readRoute());
  useEffect(() => {
    const update = () => setRoute(readRoute());
    addEventListener("hashchange", update);
    return () => removeEventListener("hashchange", update);
  }, []);
  return route;
}

// The current time. It redraws the page after each change, and every second to keep ages current.
function useNow() {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const update = () => setNow(Date.now());
    const timer = setInterval(update, 1000);
    const stop = onChange(update);
    return () => {
      clearInterval(timer);
      stop();
    };
  }, []);
  return now;
}

function Lazy({ view, ...properties }) {
  const [module, setModule] = useState({ view: "", part: null, error: "" });
  useEffect(() => {
    let isCurrent = true;
    LAZY[view]()
      .then((part) => isCurrent && setModule({ view, part, error: "" }))
      .catch((error) => isCurrent && setModule({ view, part: null, error }));
    return () => {
      isCurrent = false;
    };
  }, [view]);
  if (module.view !== view || !module.part) return html`<div class="page"><${Failure} error=${module.error} /></div>`;
  return html`<${module.part} ...${properties} />`;
}

function Login({ onDone }) {
  const [error, setError] = useState(hasToken() ? "The service does not accept this token." : "");
  const field = useRef(null);
  async function enter(event) {
    event.preventDefault();
    keepToken(field.current.value.trim());
    try {
      await get("/api/service");
      onDone();
    } catch (problem) {
      forgetToken();
      setError(problem.status === 401 ? "The service does not accept this token." : problem);
    }
  }
  useEffect(() => field.current?.focus(), []);
  return html`<main class="login">
    <form onSubmit=${enter}>
      <h1>dbt-arctic</h1>
      <label for="token">Token of the service</label>
      <input id="token" ref=${field} type="password" autocomplete="off" required spellcheck="false" />
      <button type="submit" class="primary">Enter</button>
      <p class="lead">It is stored in this tab only, until you close it.</p>
      <${Failure} error=${error} />
    </form>
  </main>`;
}

// The page's own connection, then what the service says of itself if that is out of the ordinary, then the worst state of its tables.
function Status({ service, link, tables }) {
  const isConnected = link !== "lost" && Boolean(service);
  const pills = [describeLink(service, link), ...(isConnected ? [describeService(service), describeWarehouse(tables)] : [])];
  return html`<span class="status" role="status">
    ${pills.filter(Boolean).map(({ kind, text, href, title }) => (href ? html`<a class=${`pill ${kind}`} href=${href} title=${title}>${text}</a>` : html`<span class=${`pill ${kind}`} title=${title}>${text}</span>`))}
  </span>`;
}

function describeLink(service, link) {
  const title = "The connection of this page to the service";
  if (link === "lost") return { kind: "bad", text: "not connected", title };
  return { kind: "", text: service ? "connected" : "opening", title };
}

function describeService(service) {
  const more = { href: "#/service", title: "The service" };
  const errors = Object.keys(service.errors).length;
  if (errors) return { kind: "bad", text: `${errors} ${errors === 1 ? "part" : "parts"} not working`, ...more };
  if (service.is_paused) return { kind: "warn", text: "paused", ...more };
  if (service.role !== "leads") return { kind: "warn", text: service.role === "stands_by" ? "standby" : service.role, ...more };
  return null;
}

const WORST = { failed: "bad", missing: "bad", held: "bad", behind: "warn", loading: "info" };

function describeWarehouse(tables) {
  if (!tables.length) return null;
  const stopped = [...new Set(tables.filter(({ ingestion }) => ingestion && !ingestion.is_running).map(({ ingestion }) => ingestion.source))];
  if (stopped.length) return { kind: "bad", text: stopped.length === 1 ? `${stopped[0]} not ingested` : `${stopped.length} sources not ingested`, href: "#/service", title: "No process ingests this source" };
  const count = (state) => tables.filter((table) => table.state === state).length;
  const state = Object.keys(WORST).find(count);
  const more = { href: "#/tables", title: "The worst state of the tables" };
  if (!state) return { kind: "good", text: "up to date", ...more };
  return { kind: WORST[state], text: `${formatCount(count(state))} of ${formatCount(tables.length)} ${state}`, ...more };
}

function Filter({ search, onSearch, state, onState, tables, field }) {
  const counts = {};
  for (const table of tables) counts[table.state] = (counts[table.state] ?? 0) + 1;
  return html`<div class="filter">
    <input
      ref=${field}
      type="search"
      placeholder="Search tables  ( / )"
      aria-label="Search tables"
      value=${search}
      spellcheck="false"
      onInput=${(event) => onSearch(event.target.value)}
    />
    <div class="chips" role="group" aria-label="States">
      ${Object.keys(STATES)
        .filter((name) => counts[name] || name === state)
        .map(
          (name) => html`<button
            key=${name}
            type="button"
            class=${`chip state-${name}`}
            aria-pressed=${String(state === name)}
            title=${STATES[name].text}
            onClick=${() => onState(state === name ? "" : name)}
          ><span class="sign" aria-hidden="true">${STATES[name].sign}</span>${name} <b>${formatCount(counts[name] ?? 0)}</b></button>`,
        )}
    </div>
  </div>`;
}

function App() {
  const { view, name } = useRoute();
  const now = useNow();
  const [search, setSearch] = useState("");
  const [state, setState] = useState("");
  const field = useRef(null);
  const last = useRef("");
  if (view !== "table") last.current = view;

  useEffect(() => {
    const onKey = (event) => {
      const isTyping = event.target.closest?.("input, textarea, select, dialog");
      if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        if (field.current) field.current.focus();
        else {
          location.hash = "#/tables";
          setTimeout(() => field.current?.focus());
        }
      }
      if (event.key === "Escape" && !event.target.closest?.("dialog")) {
        if (document.activeElement === field.current) field.current.blur();
        if (readRoute().view === "table") location.hash = `#/${last.current}`;
        else {
          setSearch("");
          setState("");
        }
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);

  const all = useMemo(() => [...store.tables.values()], [now]);
  const text = search.trim().toLowerCase();
  const isFiltered = text !== "" || state !== "";
  const selection = useMemo(
    () => all.filter((table) => (!state || table.state === state) && (!text || table.table.toLowerCase().includes(text))),
    [all, text, state],
  );

  useEffect(() => {
    const title = view === "table" ? name : VIEWS.find((entry) => entry.path === view)?.title;
    document.title = title ? `${title} – dbt-arctic` : "dbt-arctic";
  }, [view, name]);

  if (store.link === "locked") {
    return html`<${Login} onDone=${() => {
      store.link = "opening";
      followWarehouse();
    }} />`;
  }
  const isList = view === "" || view === "tables";
  return html`
    <a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault();
      document.getElementById("main").focus();
    }}>Skip to the content</a>
    <header>
      <a class="brand" href="#/" aria-label=${store.service?.project || "dbt-arctic"}><img src="/page/icon.svg" alt="" width="22" height="22" /><span>${store.service?.project || "dbt-arctic"}</span></a>
      <nav aria-label="Views">
        ${VIEWS.map((entry) => html`<a key=${entry.path} href=${`#/${entry.path}`} aria-current=${view === entry.path ? "page" : undefined}>${entry.title}</a>`)}
      </nav>
      <${Status} service=${store.service} link=${store.link} tables=${all} />
    </header>
    <main id="main" tabindex="-1">
      ${isList ? html`<h1 class="hidden">${view === "" ? "Graph of tables" : "All tables"}</h1>` : null}
      ${isList ? html`<${Filter} search=${search} onSearch=${setSearch} state=${state} onState=${setState} tables=${all} field=${field} />` : null}
      <${Failure} error=${store.error} />
      ${view === "" ? html`<${GraphView} all=${all} selection=${selection} isFiltered=${isFiltered} now=${now} />` : null}
      ${view === "tables" ? html`<${TableList} tables=${selection} now=${now} />` : null}
      ${view === "table" ? html`<${Lazy} key=${name} view="table" name=${name} table=${store.tables.get(name)} now=${now} />` : null}
      ${view === "jobs" ? html`<${Lazy} view="jobs" jobs=${store.jobs} now=${now} />` : null}
      ${view === "diff" ? html`<${Lazy} key=${name} view="diff" name=${name} tables=${all} now=${now} />` : null}
      ${view === "query" ? html`<${Lazy} view="query" />` : null}
      ${view === "service" ? html`<${Lazy} view="service" service=${store.service} tables=${all} now=${now} />` : null}
    </main>
  `;
}

function GraphView({ all, selection, isFiltered, now }) {
  const matches = isFiltered ? new Set(selection.map((table) => table.table)) : null;
  const shown = isFiltered ? findLineage(all, [...matches]) : null;
  const tables = shown ? all.filter((table) => shown.has(table.table)) : all;
  if (!all.length) return html`<p class="loading">${store.link === "open" ? "There are no tables yet." : "Reading the state of the warehouse…"}</p>`;
  if (!tables.length) return html`<p class="empty">No table has this name and state.</p>`;
  return html`<${Graph} all=${all} tables=${tables} matches=${matches} now=${now} />`;
}

// `/diff` is a path of the service, so that it can be written to somebody.
if (location.pathname === "/diff") history.replaceState(null, "", `/#/diff${location.hash.replace(/^#/, "")}`);

document.getElementById("app").replaceChildren();
render(html`<${App} />`, document.getElementById("app"));
followWarehouse();
