// Requests to the service. The token is stored for this tab only and sent as a header, not as a cookie.

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

function buildHeaders(more) {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

// Keeps integers too large for JavaScript, such as versions, as text.
function keepExactNumber(_, value, context) {
  return typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "")
    ? context.source
    : value;
}

async function readAnswer(response) {
  const text = await response.text();
  if (response.ok) return JSON.parse(text, keepExactNumber);
  let problem = {};
  try {
    problem = JSON.parse(text) ?? {};
  } catch {
    // The answer comes from something else, such as a proxy in front of the service.
  }
  const detail = problem.detail ?? text;
  throw new Problem(response.status, detail || `The service answered with status ${response.status}.`, problem.fix);
}

async function send(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "omit", ...options });
  } catch {
    throw new Problem(0, "The service does not answer.", "check that `arctic serve` is running");
  }
  return readAnswer(response);
}

export function get(path, signal) {
  return send(path, { headers: buildHeaders({}), signal });
}

export function post(path, body) {
  return send(path, {
    method: "POST",
    headers: buildHeaders({ "Content-Type": "application/json" }),
    body: JSON.stringify(body),
  });
}

export function remove(path) {
  return send(path, { method: "DELETE", headers: buildHeaders({}) });
}

export function buildUrl(path, tables, parameters = {}) {
  const search = new URLSearchParams();
  for (const table of tables) search.append("table", table);
  for (const [name, value] of Object.entries(parameters)) search.append(name, String(value));
  return `${path}?${search}`;
}

// Reads server-sent events over `fetch`, since EventSource can't send a header. Returns at the end of the stream.
export async function follow(after, onEvent, onOpen, signal, onBytes) {
  const response = await fetch(`/api/events?after=${after}`, { headers: buildHeaders({}), credentials: "omit", signal });
  if (!response.ok) await readAnswer(response);
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
      if (fields.event) onEvent(fields.event, Number(fields.id), JSON.parse(fields.data, keepExactNumber));
    }
  }
}
