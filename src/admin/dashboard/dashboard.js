// Follows the status of a service, which the admin port sends every second, and shows it on the page of the address.

import { byId, say } from "/elements.js";
import { focusContent, pageOf, turnTo } from "/pages.js";

const RETRY_MS = 2000;
/** The silence after which the page no longer shows the last status as live: ten times the time between two statuses. */
const SILENCE_MS = 10000;

let token = sessionStorage.getItem("millstream-token") ?? "";
let page = pageOf(location.hash);
let latest = null;
/** The latest documents by their paths, and the time at which each was requested. */
const documents = new Map();
const requested = new Map();

function showVerdict(level, sentence, advice) {
  byId("verdict").dataset.level = level;
  say("sentence", sentence);
  say("advice", advice);
}

function draw() {
  if (latest) page.draw(latest, documents, page.id);
}

/** Reads the documents of the page that are older than the page wants. */
function refresh() {
  for (const [path, every] of page.needs(page.id)) {
    if (Date.now() - (requested.get(path) ?? 0) < every) continue;
    requested.set(path, Date.now());
    load(path).catch((error) => say("connection", `${path} is not known: ${error.message}.`));
  }
}

/** Forgets the documents that the page does not need, so that their number stays bounded. */
function forget() {
  const needed = new Set(page.needs(page.id).map(([path]) => path));
  for (const path of [...requested.keys()].filter((path) => !needed.has(path))) {
    requested.delete(path);
    documents.delete(path);
  }
}

async function load(path) {
  const answer = await fetch(path, { headers: headers(), signal: AbortSignal.timeout(SILENCE_MS) });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  const document = await answer.json();
  // The reader may have turned the page meanwhile.
  if (!requested.has(path)) return;
  documents.set(path, document);
  draw();
}

function showStatus(status) {
  say("connection", "Live.");
  byId("clock").textContent = new Date().toLocaleTimeString();
  byId("login").hidden = true;
  if (!status.leading) {
    showVerdict("unknown", "This dispatcher does not lead. Open the page of the dispatcher that leads.", "");
    return;
  }
  showVerdict(status.verdict.level, status.verdict.sentence, status.verdict.advice);
  latest = status;
  draw();
  refresh();
}

const headers = () => (token ? { authorization: `Bearer ${token}` } : {});

/**
 * Returns a signal, and a function that postpones it. A host that loses its network ends no connection, so only silence tells of it.
 */
function silence() {
  const ending = new AbortController();
  const end = () => ending.abort(new Error(`no status within ${SILENCE_MS / 1000} seconds`));
  let timer = setTimeout(end, SILENCE_MS);
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(end, SILENCE_MS);
  };
  return { signal: ending.signal, heard };
}

/** Shows the latest of the whole events, for example after the tab was in the background. */
function take(events) {
  const [name, data] = events.slice(events.lastIndexOf("\n\n") + 1).trimStart().split("\n");
  if (name === "event: status") showStatus(JSON.parse(data.slice("data: ".length)));
  if (name === "event: unknown") showVerdict("fault", `The state is unknown: ${data.slice("data: ".length)}.`, "Look at the log of the dispatcher.");
}

/** Reads server-sent events until the connection ends. `EventSource` cannot send a token. */
async function follow() {
  const { signal, heard } = silence();
  const answer = await fetch("/api/v1/live", { headers: headers(), signal });
  if (answer.status === 401) {
    byId("login").hidden = false;
    say("connection", token ? "The token is wrong." : "The port needs a token.");
    return false;
  }
  if (!answer.ok) throw new Error((await answer.text()).trim());
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  // A large status arrives in many parts, which are joined once.
  let parts = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return true;
    heard();
    parts.push(value);
    // The end of an event may be divided between two parts.
    if (!(parts.length > 1 ? `${parts.at(-2).slice(-1)}${value}` : value).includes("\n\n")) continue;
    const text = parts.join("");
    const end = text.lastIndexOf("\n\n");
    parts = [text.slice(end + 2)].filter(Boolean);
    take(text.slice(0, end));
  }
}

async function run() {
  for (;;) {
    try {
      if (!(await follow())) return;
      say("connection", "The connection ended. Connecting again.");
    } catch (error) {
      say("connection", `Not connected: ${error.message}. Connecting again.`);
      showVerdict("unknown", "The dispatcher does not answer.", "Look whether its process runs, and at its log.");
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  sessionStorage.setItem("millstream-token", token);
  run();
});

addEventListener("hashchange", () => {
  // The link to the content is no page.
  if (!location.hash.startsWith("#/")) return;
  page = pageOf(location.hash);
  turnTo(page);
  forget();
  draw();
  if (latest) refresh();
  focusContent();
  scrollTo(0, 0);
});

turnTo(page);
draw();
run();
