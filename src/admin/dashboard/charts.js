// Draws the history of the last hour as lines, with a sentence and a table for readers who do not see them.

import { byId, element, isKnown } from "/elements.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 600;
const HEIGHT = 100;
const HOUR_S = 3600;
/** The shortest time that a chart shows, for a history that has just begun. */
const SPAN_MIN_S = 300;
/** The time between two points from which on a line has a gap. */
const GAP_S = 20;
/** The time between two rows of the table. */
const ROW_S = 300;

function svg(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  return made;
}

/** Returns the path of a line through the points whose value is known. */
function path(points, read, { end, span }, most) {
  let text = "";
  let before = -Infinity;
  for (const point of points) {
    const value = read(point);
    if (!isKnown(value)) continue;
    const x = WIDTH * (1 - (end - point.time_unix_s) / span);
    const y = HEIGHT * (1 - value / most);
    text += `${point.time_unix_s - before > GAP_S ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
    before = point.time_unix_s;
  }
  return text;
}

function sentence(name, values, text) {
  if (values.length === 0) return `${name}: nothing is known of the last hour.`;
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return `${name}: ${text(values.at(-1))} now, between ${text(least)} and ${text(most)} in the last hour.`;
}

/** Shows the values of every fifth minute in a table, once a reader has opened it. */
function showRows(details, points, lines, text) {
  if (!details.open) return;
  const table = details.querySelector("table");
  const head = document.createElement("thead");
  const names = head.insertRow();
  for (const name of ["Time", ...lines.map((line) => line.name)]) {
    const cell = element("th", name);
    cell.scope = "col";
    names.append(cell);
  }
  const body = document.createElement("tbody");
  let next = Infinity;
  for (const point of points.toReversed()) {
    if (point.time_unix_s > next) continue;
    next = point.time_unix_s - ROW_S;
    const row = body.insertRow();
    row.insertCell().textContent = new Date(point.time_unix_s * 1000).toLocaleTimeString();
    for (const line of lines) {
      const value = line.read(point);
      row.insertCell().textContent = isKnown(value) ? text(value) : "unknown";
    }
  }
  table.replaceChildren(head, body);
}

function prepare(figure) {
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const axis = element("p", "", "axis");
  axis.setAttribute("aria-hidden", "true");
  axis.append(element("span", ""), element("span", "now"));
  const details = document.createElement("details");
  details.append(element("summary", "As a table"), document.createElement("table"));
  figure.replaceChildren(document.createElement("figcaption"), drawing, axis, details);
}

/**
 * Draws lines over the last hour. Each line has a name, a class, and a function that reads its value from a point. `text` writes a
 * value, and `most` is the least upper end of the scale.
 */
export function chart(id, points, lines, text, most) {
  const figure = byId(id);
  if (figure.childElementCount === 0) prepare(figure);
  const [caption, drawing, axis, details] = figure.children;
  const known = lines.map((line) => points.map(line.read).filter(isKnown));
  for (const [position, line] of lines.entries()) {
    const told = `${sentence(line.name, known[position], text)} `;
    const key = caption.children[position] ?? caption.appendChild(element("span", "", `key ${line.kind}`));
    if (key.textContent !== told) key.textContent = told;
  }
  const end = points.at(-1)?.time_unix_s ?? 0;
  const span = Math.min(HOUR_S, Math.max(SPAN_MIN_S, end - (points.at(0)?.time_unix_s ?? end)));
  axis.firstElementChild.textContent = `${Math.round(span / 60)} minutes ago`;
  const top = Math.max(most, ...known.flat());
  const paths = lines.map((line) => svg("path", { d: path(points, line.read, { end, span }, top), class: line.kind }));
  drawing.replaceChildren(svg("path", { d: `M0 ${HEIGHT}H${WIDTH}M0 0H${WIDTH}`, class: "grid" }), ...paths);
  details.ontoggle = () => showRows(details, points, lines, text);
  showRows(details, points, lines, text);
}
