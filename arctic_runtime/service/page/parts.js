// Components and hooks that several views share.

import { html, useEffect, useRef, useState } from "./vendor/htm/preact.js";
import { describeState, getShortName, linkTo } from "./format.js";

export function State({ table, quiet }) {
  const { sign, text } = describeState(table);
  return html`<span class=${`state state-${table.state}`} title=${text}>
    <span class="sign" aria-hidden="true">${sign}</span>${quiet ? html`<span class="hidden">${table.state}</span>` : table.state}
  </span>`;
}

export function TableLink({ name }) {
  return html`<a href=${linkTo(name)} title=${name}>${getShortName(name)}</a>`;
}

export function Figure({ label, value, note }) {
  return html`<div class="figure">
    <dt>${label}</dt>
    <dd>${value}${note ? html` <small>${note}</small>` : null}</dd>
  </div>`;
}

// `error` is a text or an Error. What to do about it, known from a Problem or as `fix`, has a line of its own.
export function Failure({ error, fix }) {
  if (!error) return null;
  const action = (error instanceof Error ? error.fix : fix) || "";
  const text = error instanceof Error ? error.message : error;
  const end = `\n  what to do: ${action}`;
  return html`<div class="failure" role="alert">
    <pre>${action && text.endsWith(end) ? text.slice(0, -end.length) : text}</pre>
    ${action ? html`<p class="fix">What to do: ${action}</p>` : null}
  </div>`;
}

// An action with its own state: busy while it runs, its error below the buttons.
export function useAction() {
  const [state, setState] = useState({ busy: "", error: "" });
  async function run(name, action) {
    setState({ busy: name, error: "" });
    try {
      await action();
      setState({ busy: "", error: "" });
    } catch (error) {
      setState({ busy: "", error });
    }
  }
  return [state, run];
}

// Reads once for each value of `key`. A late answer for an older key is dropped.
export function useAnswer(key, read) {
  const [state, setState] = useState({ key: null, answer: null, error: "" });
  useEffect(() => {
    let isCurrent = true;
    read()
      .then((answer) => isCurrent && setState({ key, answer, error: "" }))
      .catch((error) => isCurrent && setState({ key, answer: null, error }));
    return () => {
      isCurrent = false;
    };
  }, [key]);
  return state;
}

// The value, updated at most once in so many seconds, for requests that are expensive.
export function useSlowly(value, seconds) {
  const kept = useRef({ value, at: Date.now() });
  if (value !== kept.current.value && Date.now() - kept.current.at > seconds * 1000) kept.current = { value, at: Date.now() };
  return kept.current.value;
}

export function Dialog({ title, onClose, children }) {
  const dialog = useRef(null);
  useEffect(() => {
    const shown = dialog.current;
    shown.showModal();
    return () => shown.open && shown.close();
  }, []);
  return html`<dialog ref=${dialog} aria-label=${title} onClose=${onClose}>
    <h2>${title}</h2>
    ${children}
  </dialog>`;
}

// The visible part of a scrolled element, and its size.
export function useViewport(element) {
  const [view, setView] = useState({ top: 0, left: 0, width: 1200, height: 800 });
  useEffect(() => {
    const scroller = element.current;
    if (!scroller) return undefined;
    let isDue = false;
    const measure = () => {
      isDue = false;
      setView({ top: scroller.scrollTop, left: scroller.scrollLeft, width: scroller.clientWidth, height: scroller.clientHeight });
    };
    const schedule = () => {
      if (!isDue) requestAnimationFrame(measure);
      isDue = true;
    };
    scroller.addEventListener("scroll", schedule, { passive: true });
    const sizes = new ResizeObserver(schedule);
    sizes.observe(scroller);
    measure();
    return () => {
      scroller.removeEventListener("scroll", schedule);
      sizes.disconnect();
    };
  }, []);
  return view;
}
