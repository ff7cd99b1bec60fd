// Draws tables and lists. Text is only set as text, never as HTML, because names of workers and datasets come from users. Cells that have
// not changed stay, so that the keyboard's focus and the reader's selection stay as well.

const ROWS_MAX = 200;
/** The number of rows from which on a table has a filter. */
const FILTER_FROM = 10;

export const byId = (id) => document.getElementById(id);

/** Returns an element with a text and a class. */
export function element(name, text, kind) {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

/** Sets a text only if it has changed, so that screen readers do not repeat it. */
export function say(id, text) {
  if (byId(id).textContent !== text) byId(id).textContent = text;
}

export const isKnown = (value) => value !== null && value !== undefined;
export const whole = (value) => Math.round(value).toLocaleString("en");
export const rate = (value) => (value >= 100 ? whole(value) : value.toFixed(1));
export const percent = (share) => (isKnown(share) ? `${(share * 100).toFixed(0)} %` : "unknown");
export const time = (ns) => (!isKnown(ns) ? "unknown" : ns >= 1e6 ? `${(ns / 1e6).toFixed(1)} ms` : `${(ns / 1e3).toFixed(1)} µs`);
export const heard = (ms) => `${(ms / 1000).toFixed(1)} s ago`;
export const number = (text, kind = "") => ({ text: String(text), kind: `number ${kind}`.trim() });
export const jobLink = (job) => ({ text: String(job), href: `#/job/${job}` });

/** The signature of each cell that a table shows. */
const signatures = new WeakMap();
/** The latest content of each table, which a filter shows again. */
const contents = new Map();

/**
 * Shows a cell: a text, or an object with a text and a class, an address (`href`), or a progress (`done` of `all`).
 */
function fill(cell, content) {
  const signature = JSON.stringify(content);
  if (signatures.get(cell) === signature) return;
  signatures.set(cell, signature);
  const { text, kind, href, done, all, span } = typeof content === "object" ? content : { text: content };
  cell.className = kind ?? "";
  cell.colSpan = span ?? 1;
  if (href) {
    const link = element("a", text);
    link.href = href;
    cell.replaceChildren(link);
  } else if (all > 0) {
    const bar = document.createElement("progress");
    bar.max = all;
    bar.value = done;
    bar.setAttribute("aria-label", "delivered splits");
    cell.replaceChildren(bar, ` ${text}`);
  } else {
    cell.textContent = text;
  }
}

/** Makes the parts of a table that stay: its caption, the names of its columns, and its filter. */
function prepare(table, { caption, columns }) {
  const head = document.createElement("thead");
  const line = head.insertRow();
  for (const column of columns) {
    const [name, kind] = [].concat(column);
    const cell = element("th", name, kind);
    cell.scope = "col";
    line.append(cell);
  }
  const title = element("caption", caption);
  title.hidden = true;
  table.replaceChildren(title, head, document.createElement("tbody"));
  const label = element("label", `Filter ${caption.toLowerCase()} `, "filter");
  label.hidden = true;
  const field = document.createElement("input");
  field.type = "search";
  field.id = `filter-${table.id}`;
  field.autocomplete = "off";
  field.addEventListener("input", () => show(table.id, contents.get(table.id)));
  label.append(field);
  table.parentElement.before(label);
  const more = element("p", "", "more");
  more.id = `more-${table.id}`;
  table.parentElement.after(more);
}

/** Returns the items that contain every word of the filter. */
function filtered(items, words, filter) {
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return items;
  return items.filter((item) => {
    const text = words(item).toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

/**
 * Shows items in a table. `row` returns the cells of an item, and `words` the text that the filter searches. At most 200 rows are
 * made, whatever the number of items.
 */
export function show(id, content) {
  const table = byId(id);
  if (!contents.has(id)) prepare(table, content);
  contents.set(id, content);
  const { columns, items, row, words, empty } = content;
  const field = byId(`filter-${id}`);
  field.parentElement.hidden = items.length <= FILTER_FROM && !field.value;
  const matching = filtered(items, words ?? ((item) => JSON.stringify(row(item))), field.value);
  const rows = matching.slice(0, ROWS_MAX).map(row);
  if (rows.length === 0) rows.push([{ text: items.length ? "No row contains these words." : empty, span: columns.length }]);
  const body = table.tBodies[0];
  while (body.rows.length > rows.length) body.deleteRow(-1);
  for (const [position, cells] of rows.entries()) {
    const line = body.rows[position] ?? body.insertRow();
    while (line.cells.length > cells.length) line.deleteCell(-1);
    for (const [column, cell] of cells.entries()) fill(line.cells[column] ?? line.insertCell(), cell);
  }
  const more = matching.length - ROWS_MAX;
  const hidden = items.length - matching.length;
  say(`more-${id}`, more > 0 ? `and ${whole(more)} more` : hidden > 0 ? `${whole(hidden)} rows do not contain these words` : "");
}

/** Shows names with their values. */
export function figures(id, pairs) {
  const list = byId(id);
  const boxes = list.children;
  while (boxes.length > pairs.length) boxes[boxes.length - 1].remove();
  for (const [position, [name, value]] of pairs.entries()) {
    let box = boxes[position];
    if (!box) {
      box = document.createElement("div");
      box.append(document.createElement("dt"), document.createElement("dd"));
      list.append(box);
    }
    const [term, figure] = box.children;
    if (term.textContent !== name) term.textContent = name;
    if (figure.textContent !== value) figure.textContent = value;
  }
}
