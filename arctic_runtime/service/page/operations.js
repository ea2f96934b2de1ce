// Operations that change what a table shows, or which versions it keeps: their fields are those of the registry.

import { html, useState } from "./vendor/htm/preact.js";
import { get, post, query } from "./api.js";
import { clock } from "./format.js";
import { Dialog, Failure, useAction, useAnswer } from "./parts.js";

// What stands here is offered, in this order; the service has more operations than belong onto a page.
const OFFERED = {
  savepoint: { title: "Savepoint", kinds: ["model", "ingested"], warning: "" },
  restore: { title: "Restore", kinds: ["model", "ingested"], warning: "The rows of today are replaced by those of the version, as a new change, and all tables below follow. No version is lost by it." },
  overwrite: { title: "Overwrite", kinds: ["model"], warning: "The rows of the table are replaced by those that you name, as a new change, and all tables below follow." },
  resync: { title: "Load anew", kinds: ["ingested"], warning: "The table is read from its source again, and what differs is published as a new change. Until then it shows the rows of today." },
  reset: { title: "Reset", kinds: ["model"], warning: "Everything that the model has made is dropped, with all its versions. This can't be undone." },
};

function read(argument, text) {
  if (argument.type === "object") {
    return Object.fromEntries(
      text.split("\n").filter((line) => line.trim()).map((line) => {
        const at = line.indexOf("=");
        if (at < 1) throw new Error(`${label(argument)}: each line must be COLUMN=VALUE\n  found: ${line}`);
        return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
      }),
    );
  }
  return typeof text === "string" ? text.trim() : text;
}

function label(argument) {
  return argument.name.replaceAll("_", " ");
}

function Field({ argument, value, versions, onChange }) {
  const id = `argument-${argument.name}`;
  const described = html`<small id=${`${id}-help`}>${argument.description}${argument.type === "object" ? ": COLUMN=VALUE, one on each line" : ""}</small>`;
  if (argument.type === "boolean") {
    return html`<p><label class="field"><input type="checkbox" checked=${value === true} aria-describedby=${`${id}-help`} onChange=${(event) => onChange(event.target.checked)} /> ${label(argument)}</label> ${described}</p>`;
  }
  const given = { id, value: value ?? "", "aria-describedby": `${id}-help`, required: argument.is_required, onInput: (event) => onChange(event.target.value) };
  const isVersion = argument.name === "version";
  return html`<p class="argument">
    <label for=${id}>${label(argument)}${argument.is_required ? "" : " (optional)"}</label>
    ${argument.type === "object" ? html`<textarea rows="2" ...${given}></textarea>` : html`<input type="text" autocomplete="off" spellcheck=${false} list=${isVersion ? `${id}-known` : null} ...${given} />`}
    ${isVersion ? html`<datalist id=${`${id}-known`}>${versions.map((of) => html`<option key=${of.value} value=${of.value}>${of.text}</option>`)}</datalist>` : null}
    ${described}
  </p>`;
}

function known(entries) {
  return entries.flatMap((of) => [...of.savepoints.map((name) => ({ value: name, text: `savepoint of ${clock(of.at.replace(" ", "T"))}` })), { value: of.version, text: `${clock(of.at.replace(" ", "T"))}, ${of.mode}` }]);
}

function Form({ operation, name, onClose }) {
  const [values, setValues] = useState({});
  const [isSure, setSure] = useState(false);
  const [action, run] = useAction();
  const { title, warning } = OFFERED[operation.name];
  const needsVersions = operation.arguments.some((of) => of.name === "version");
  const history = useAnswer(`${operation.name} ${name}`, () => (needsVersions ? get(query("/api/operations/history", [name])) : Promise.resolve(null)));
  const plan = useAnswer(`plan ${operation.name}`, () => (operation.has_plan ? get(query(`/api/operations/${operation.name}/plan`, [name])) : Promise.resolve(null)));
  const isMissing = operation.arguments.some((of) => of.is_required && !String(values[of.name] ?? "").trim());
  const isReady = !isMissing && (!warning || isSure) && action.busy === "" && (!operation.has_plan || plan.answer);
  const start = (event) => {
    event.preventDefault();
    run("start", async () => {
      const filled = operation.arguments.filter((of) => values[of.name] !== undefined && values[of.name] !== "" && values[of.name] !== false);
      const given = Object.fromEntries(filled.map((of) => [of.name, read(of, values[of.name])]));
      const body = { tables: [name], ...(operation.arguments.length ? { arguments: given } : {}), ...(operation.needs_confirmation ? { confirm: true } : {}) };
      await post(`/api/operations/${operation.name}`, body);
      onClose();
    });
  };
  return html`<form onSubmit=${start}>
    <p>${operation.description[0].toUpperCase()}${operation.description.slice(1)}.</p>
    ${operation.arguments.map(
      (of) => html`<${Field} key=${of.name} argument=${of} value=${values[of.name]} versions=${known(history.answer?.data ?? [])} onChange=${(value) => setValues({ ...values, [of.name]: value })} />`,
    )}
    ${operation.has_plan ? (plan.answer ? html`<pre>${plan.answer.lines.filter((line) => !line.includes("--yes")).join("\n")}</pre>` : html`<p>${plan.error ? "" : "Planning…"}</p>`) : null}
    ${warning ? html`<p class="why">${warning}</p><p><label class="field"><input type="checkbox" checked=${isSure} onChange=${(event) => setSure(event.target.checked)} /> Do this to ${name}</label></p>` : null}
    <${Failure} error=${action.error || plan.error} />
    <div class="actions">
      <button type="button" onClick=${onClose}>Leave it</button>
      <button type="submit" class=${warning ? "danger" : "primary"} disabled=${!isReady}>${title}</button>
    </div>
  </form>`;
}

export function Operations({ name, kind, onClose }) {
  const { answer, error } = useAnswer("operations", () => get("/api/operations"));
  const [chosen, setChosen] = useState("savepoint");
  const offered = Object.keys(OFFERED).filter((of) => OFFERED[of].kinds.includes(kind));
  const operation = answer?.find((of) => of.name === chosen);
  return html`<${Dialog} title=${`Change ${name}`} onClose=${onClose}>
    <p><label class="field">What <select value=${chosen} onChange=${(event) => setChosen(event.target.value)}>${offered.map((of) => html`<option key=${of} value=${of}>${OFFERED[of].title}</option>`)}</select></label></p>
    <${Failure} error=${error} />
    ${operation ? html`<${Form} key=${chosen} operation=${operation} name=${name} onClose=${onClose} />` : null}
  <//>`;
}
