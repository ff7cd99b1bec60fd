// Follows the status of a service, which the admin port sends every second, and shows it on the page of the address.

import { byId, say } from "/elements.js";
import { focusContent, pageOf, turnTo } from "/pages.js";

const RETRY_MS = 2000;
/** The silence after which the page no longer shows the last status as live: ten times the time between two statuses. */
const SILENCE_MS = 10000;

let token = sessionStorage.getItem("millstream-token") ?? "";
let page = pageOf(location.hash);
/** The latest status of a dispatcher that led, and the time at which it arrived. */
let latest = null;
let latestTime = "";
/** Whether the dispatcher leads, as far as the page knows. */
let isLeading = false;
/** Whether a loop follows the status. A second loop would only cost the dispatcher a further viewer. */
let isFollowing = false;
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
  // A dispatcher that does not lead has no events.
  if (!isLeading) return;
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
  // The reader may have turned the page meanwhile, or the dispatcher no longer leads.
  if (!isLeading || !requested.has(path)) return;
  documents.set(path, document);
  draw();
}

/** Says that the dispatcher does not lead. Its tables stay, so the sentence tells of which time they are. */
function showFollower() {
  const known = latest ? ` It led until ${latestTime}, and the tables show the service at that time.` : "";
  showVerdict("unknown", `This dispatcher does not lead.${known}`, "Open the page of the dispatcher that leads: /readyz of its admin port answers 200.");
}

function showStatus(status) {
  say("connection", "Live.");
  const time = new Date().toLocaleTimeString();
  byId("clock").textContent = time;
  byId("login").hidden = true;
  isLeading = status.leading;
  if (!isLeading) {
    showFollower();
    return;
  }
  showVerdict(status.verdict.level, status.verdict.sentence, status.verdict.advice);
  latest = status;
  latestTime = time;
  draw();
  refresh();
}

const headers = () => (token ? { authorization: `Bearer ${token}` } : {});

/** An answer without a status, with the reason in words. */
class Refusal extends Error {}

/**
 * Returns a signal, a function that postpones it, and a function that ends the watch. A host that loses its network ends no connection, so only silence tells of it.
 */
function silence() {
  const ending = new AbortController();
  const end = () => ending.abort(new Error(`no status within ${SILENCE_MS / 1000} seconds`));
  let timer = setTimeout(end, SILENCE_MS);
  const over = () => clearTimeout(timer);
  const heard = () => {
    over();
    timer = setTimeout(end, SILENCE_MS);
  };
  return { signal: ending.signal, heard, over };
}

/** Shows the latest of the whole events, for example after the tab was in the background. */
function take(events) {
  const [name, data] = events.slice(events.lastIndexOf("\n\n") + 1).trimStart().split("\n");
  if (name === "event: status") showStatus(JSON.parse(data.slice("data: ".length)));
  if (name === "event: unknown") showVerdict("fault", `The state is unknown: ${data.slice("data: ".length)}.`, "Look at the log of the dispatcher.");
}

/** Follows the status until the connection ends. Returns whether the port permits it. */
async function follow() {
  const { signal, heard, over } = silence();
  try {
    // `EventSource` cannot send a token.
    const answer = await fetch("/api/v1/live", { headers: headers(), signal });
    if (answer.status === 401) return false;
    if (!answer.ok) throw new Refusal((await answer.text()).trim());
    await readEvents(answer.body, heard);
    return true;
  } finally {
    over();
  }
}

/** Reads server-sent events until the body ends. */
async function readEvents(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  // A large status arrives in many parts, which are joined once.
  let parts = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
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

function showTrouble(error) {
  isLeading = false;
  say("connection", `Not connected: ${error.message}. Connecting again.`);
  if (error instanceof Refusal) showVerdict("unknown", "The dispatcher does not show its status now.", "The reason stands at the top of the page.");
  else showVerdict("unknown", "The dispatcher does not answer.", "Look whether its process runs, and at its log.");
}

/** Follows the status, and connects again after every end, until the port asks for another token. */
async function followAlways() {
  for (;;) {
    const tried = token;
    try {
      if (await follow()) say("connection", "The connection ended. Connecting again.");
      else if (tried === token) return;
      else continue;
    } catch (error) {
      showTrouble(error);
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

/** Begins to follow the status, unless a loop does. The loop takes a new token with its next connection. */
async function run() {
  if (isFollowing) return;
  isFollowing = true;
  await followAlways();
  isFollowing = false;
  byId("login").hidden = false;
  say("connection", token ? "The token is wrong." : "The port needs a token.");
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
  refresh();
  focusContent();
  scrollTo(0, 0);
});

turnTo(page);
draw();
run();
