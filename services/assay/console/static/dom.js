// Elements and text. Nothing here, and nothing that uses it, makes markup of a string.

const SVG = "http://www.w3.org/2000/svg";

// An element with a class, attributes and children; a child that is a string is text.
export function el(name, given = {}, ...children) {
  return fill(document.createElement(name), given, children);
}

export function svg(name, given = {}, ...children) {
  return fill(document.createElementNS(SVG, name), given, children);
}

function fill(element, given, children) {
  for (const [key, value] of Object.entries(given)) {
    if (key === "onclick") element.addEventListener("click", value);
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

export const byId = (id) => document.getElementById(id);

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Keep one row per key, in this order. A row that stays is changed in place, so that the focus, a
// selection and what a screen reader reads stay where they are. `cells` makes the cells of a new row
// and returns a function that shows a value in them.
export function rows(body, values, key, cells, empty) {
  const known = body.known ?? (body.known = new Map());
  const kept = new Set();
  let place = body.firstElementChild;
  for (const value of values) {
    const name = key(value);
    kept.add(name);
    let row = known.get(name);
    if (!row) {
      const element = el("tr");
      row = { element, show: cells(element) };
      known.set(name, row);
    }
    row.show(value);
    if (row.element === place) place = place.nextElementSibling;
    else body.insertBefore(row.element, place);
  }
  for (const [name, row] of known) {
    if (!kept.has(name)) {
      row.element.remove();
      known.delete(name);
    }
  }
  while (place && place.classList.contains("nothing")) {
    const next = place.nextElementSibling;
    place.remove();
    place = next;
  }
  if (!kept.size && !body.firstElementChild) {
    const columns = body.parentElement.querySelectorAll("thead th").length;
    body.append(el("tr", { class: "nothing" }, el("td", { class: "empty", colspan: columns }, empty)));
  }
}

export function cell(row, className = "") {
  const made = el("td", className ? { class: className } : {});
  row.append(made);
  return made;
}

export const count = (n) => Number(n ?? 0).toLocaleString("en");
export const share = (x) => `${(100 * x).toFixed(x < 0.1 ? 1 : 0)} %`;

export function seconds(s) {
  const size = Math.abs(s);
  if (size < 1) return `${(s * 1000).toFixed(0)} ms`;
  if (size < 120) return `${s.toFixed(1)} s`;
  if (size < 7200) return `${(s / 60).toFixed(1)} min`;
  return `${(s / 3600).toFixed(1)} h`;
}

export function instant(ns) {
  return ns ? new Date(ns / 1e6).toISOString().replace("T", " ").slice(0, 23) : "";
}
