// Operations that change the rows or the versions of a table, with the arguments that the registry declares.

import { html, useState } from "./vendor/htm/preact.js";
import { buildUrl, get, post } from "./api.js";
import { formatTime } from "./format.js";
import { Dialog, Failure, useAction, useAnswer } from "./parts.js";

// The operations on offer, in this order. The service has more than belong on a page.
const OFFERED = {
  savepoint: { title: "Savepoint", kinds: ["model", "ingested"], warning: "" },
  restore: { title: "Restore", kinds: ["model", "ingested"], warning: "The current rows are replaced by those of the version, as a new change, and all downstream tables follow. No version is lost." },
  resume: { title: "End the wait for a cut", kinds: ["model"], warning: "If the table waits for the query of a cut since a restore, its next refresh computes the present query." },
  overwrite: { title: "Overwrite", kinds: ["model"], warning: "The rows of the table are replaced by those that you name, as a new change, and all downstream tables follow." },
  resync: { title: "Resync", kinds: ["ingested"], warning: "The table is read from its source again, and the differences are published as a new change. Until then it shows the current rows." },
  reset: { title: "Reset", kinds: ["model"], warning: "Everything that the model has written is dropped, with all its versions. This can't be undone." },
};

function parseValue(argument, text) {
  if (argument.type === "object") {
    return Object.fromEntries(
      text.split("\n").filter((line) => line.trim()).map((line) => {
        const at = line.indexOf("=");
        if (at < 1) throw new Error(`${formatLabel(argument)}: each line must be COLUMN=VALUE\n  found: ${line}`);
        return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
      }),
    );
  }
  return typeof text === "string" ? text.trim() : text;
}

function formatLabel(argument) {
  return argument.name.replaceAll("_", " ");
}

function Field({ argument, value, versions, onChange }) {
  const id = `argument-${argument.name}`;
  const help = html`<small id=${`${id}-help`}>${argument.description}${argument.type === "object" ? ": COLUMN=VALUE, one on each line" : ""}</small>`;
  if (argument.type === "boolean") {
    return html`<p><label class="field"><input type="checkbox" checked=${value === true} aria-describedby=${`${id}-help`} onChange=${(event) => onChange(event.target.checked)} /> ${formatLabel(argument)}</label> ${help}</p>`;
  }
  const properties = { id, value: value ?? "", "aria-describedby": `${id}-help`, required: argument.is_required, onInput: (event) => onChange(event.target.value) };
  const isVersion = argument.name === "version";
  return html`<p class="argument">
    <label for=${id}>${formatLabel(argument)}${argument.is_required ? "" : " (optional)"}</label>
    ${argument.type === "object" ? html`<textarea rows="2" ...${properties}></textarea>` : html`<input type="text" autocomplete="off" spellcheck=${false} list=${isVersion ? `${id}-known` : null} ...${properties} />`}
    ${isVersion ? html`<datalist id=${`${id}-known`}>${versions.map((version) => html`<option key=${version.value} value=${version.value}>${version.text}</option>`)}</datalist>` : null}
    ${help}
  </p>`;
}

function listVersions(entries) {
  return entries.flatMap((entry) => [...entry.savepoints.map((name) => ({ value: name, text: `savepoint of ${formatTime(entry.at.replace(" ", "T"))}` })), { value: entry.version, text: `${formatTime(entry.at.replace(" ", "T"))}, ${entry.mode}` }]);
}

function Form({ operation, name, onClose }) {
  const [values, setValues] = useState({});
  const [isSure, setSure] = useState(false);
  const [action, run] = useAction();
  const { title, warning } = OFFERED[operation.name];
  const needsVersions = operation.arguments.some((argument) => argument.name === "version");
  const history = useAnswer(`${operation.name} ${name}`, () => (needsVersions ? get(buildUrl("/api/operations/history", [name])) : Promise.resolve(null)));
  const plan = useAnswer(`plan ${operation.name}`, () => (operation.has_plan ? get(buildUrl(`/api/operations/${operation.name}/plan`, [name])) : Promise.resolve(null)));
  const isMissing = operation.arguments.some((argument) => argument.is_required && !String(values[argument.name] ?? "").trim());
  const isReady = !isMissing && (!warning || isSure) && action.busy === "" && (!operation.has_plan || plan.answer);
  const start = (event) => {
    event.preventDefault();
    run("start", async () => {
      const filled = operation.arguments.filter((argument) => values[argument.name] !== undefined && values[argument.name] !== "" && values[argument.name] !== false);
      const parameters = Object.fromEntries(filled.map((argument) => [argument.name, parseValue(argument, values[argument.name])]));
      const body = { tables: [name], ...(operation.arguments.length ? { arguments: parameters } : {}), ...(operation.needs_confirmation ? { confirm: true } : {}) };
      await post(`/api/operations/${operation.name}`, body);
      onClose();
    });
  };
  return html`<form onSubmit=${start}>
    <p>${operation.description[0].toUpperCase()}${operation.description.slice(1)}.</p>
    ${operation.arguments.map(
      (argument) => html`<${Field} key=${argument.name} argument=${argument} value=${values[argument.name]} versions=${listVersions(history.answer?.data ?? [])} onChange=${(value) => setValues({ ...values, [argument.name]: value })} />`,
    )}
    ${operation.has_plan ? (plan.answer ? html`<pre>${plan.answer.lines.filter((line) => !line.includes("--yes")).join("\n")}</pre>` : html`<p>${plan.error ? "" : "Planning…"}</p>`) : null}
    ${warning ? html`<p class="why">${warning}</p><p><label class="field"><input type="checkbox" checked=${isSure} onChange=${(event) => setSure(event.target.checked)} /> Do this to ${name}</label></p>` : null}
    <${Failure} error=${action.error || plan.error} />
    <div class="actions">
      <button type="button" onClick=${onClose}>Close</button>
      <button type="submit" class=${warning ? "danger" : "primary"} disabled=${!isReady}>${title}</button>
    </div>
  </form>`;
}

export function Operations({ name, kind, onClose }) {
  const { answer, error } = useAnswer("operations", () => get("/api/operations"));
  const [chosen, setChosen] = useState("savepoint");
  const offered = Object.keys(OFFERED).filter((name) => OFFERED[name].kinds.includes(kind));
  const operation = answer?.find((entry) => entry.name === chosen);
  return html`<${Dialog} title=${`Change ${name}`} onClose=${onClose}>
    <p><label class="field">Operation <select value=${chosen} onChange=${(event) => setChosen(event.target.value)}>${offered.map((name) => html`<option key=${name} value=${name}>${OFFERED[name].title}</option>`)}</select></label></p>
    <${Failure} error=${error} />
    ${operation ? html`<${Form} key=${chosen} operation=${operation} name=${name} onClose=${onClose} />` : null}
  <//>`;
}
