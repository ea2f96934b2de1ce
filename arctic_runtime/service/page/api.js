// Requests to the service. The token is kept for this tab alone, and sent as a header: no cookie that other pages use.

const TOKEN = "arctic-token";

export class Problem extends Error {
  constructor(status, detail, fix = "") {
    super(detail);
    this.status = status;
    this.fix = fix;
  }
}

export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

export function hasToken() {
  return Boolean(sessionStorage.getItem(TOKEN));
}

export function forgetToken() {
  sessionStorage.removeItem(TOKEN);
}

function headers(more) {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

// Whole numbers too large for JavaScript, such as versions, stay the text that they are.
function exact(_, value, context) {
  return typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "")
    ? context.source
    : value;
}

async function answered(response) {
  const text = await response.text();
  if (response.ok) return JSON.parse(text, exact);
  let problem = {};
  try {
    problem = JSON.parse(text) ?? {};
  } catch {
    // Not from the service itself, such as from a proxy in front of it.
  }
  const detail = problem.detail ?? text;
  throw new Problem(response.status, detail || `The service answered with status ${response.status}.`, problem.fix);
}

async function send(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "omit", ...options });
  } catch {
    throw new Problem(0, "The service does not answer.", "see whether `arctic serve` still runs");
  }
  return answered(response);
}

export function get(path, signal) {
  return send(path, { headers: headers({}), signal });
}

export function post(path, body) {
  return send(path, {
    method: "POST",
    headers: headers({ "Content-Type": "application/json" }),
    body: JSON.stringify(body),
  });
}

export function remove(path) {
  return send(path, { method: "DELETE", headers: headers({}) });
}

export function query(path, tables, given = {}) {
  const parameters = new URLSearchParams();
  for (const table of tables) parameters.append("table", table);
  for (const [name, value] of Object.entries(given)) parameters.append(name, String(value));
  return `${path}?${parameters}`;
}

// Server-sent events over `fetch`, since EventSource can send no header. Returns when the stream has ended.
export async function follow(after, onEvent, onOpen, signal, onBytes) {
  const response = await fetch(`/api/events?after=${after}`, { headers: headers({}), credentials: "omit", signal });
  if (!response.ok) await answered(response);
  onOpen();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onBytes();
    const messages = (rest + value).split("\n\n");
    rest = messages.pop();
    for (const message of messages) {
      const fields = {};
      for (const line of message.split("\n")) {
        const colon = line.indexOf(": ");
        if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 2);
      }
      if (fields.event) onEvent(fields.event, Number(fields.id), JSON.parse(fields.data, exact));
    }
  }
}
