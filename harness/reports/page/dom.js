// Make elements. Every text becomes a text node, so that no text of a run is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";
// The elements that marked text may have. harness/reports/page_values.py makes no other.
const MARKED = new Set(["p", "em", "strong", "s", "blockquote", "ul", "ol", "li", "hr", "br", "table", "thead",
  "tbody", "tr", "th", "td", "code", "span"]);

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

const element = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const shape = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

// A text of a run, whose direction is its own.
const text = (value, attributes) => element("span", { dir: "auto", ...attributes }, value);

// Marked text: texts, and lists of a name, a class and children. The class of code is its language.
const marked = (nodes) => nodes.map((node) => (typeof node === "string" ? node
  : node[0] === "pre" ? element("pre", {}, colour(node[2], node[1]))
    : element(MARKED.has(node[0]) ? node[0] : "span", node[1] ? { class: node[1] } : null, marked(node.slice(2)))));

const words = (status) => status.replaceAll("_", " ");

const pill = (status, label) => element("span", { class: `pill ${status}` }, label ?? words(status));

const number = (value) => value.toLocaleString("en");

const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

function seconds(value) {
  if (value < 9.95) return `${value.toFixed(1)} s`;
  const whole = Math.round(value);
  const two = (part) => String(part).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
}

const moment = (started) => started.replace("T", " ").replace(/(\.\d+)?Z$/, "");

// A bar of parts, each with a class and its share of the whole.
const bar = (attributes, parts) => shape("svg", { class: "bar", ...attributes }, parts.map(({ kind, start, share, height }) =>
  shape("rect", { class: kind, x: `${100 * (start ?? 0)}%`, width: `${100 * share}%`, y: height ? "40%" : "0", height: height ?? "100%" })));

// The parts of all attempts by status.
function statusBar(counts) {
  const all = counts.reduce((sum, each) => sum + each.number, 0);
  let start = 0;
  return bar({ role: "img", "aria-label": "attempts by status" }, counts.map(({ key, number: part }) => {
    const made = { kind: key, start: start / all, share: part / all };
    start += part;
    return made;
  }));
}

const shareBar = ({ share, low, high }) => bar({ "aria-hidden": "true" },
  [{ kind: "passed", share }, { kind: "interval", start: low, share: high - low, height: "20%" }]);

// Replace the children, and keep the focus on the element with the same data-key.
function replaceChildren(parent, ...children) {
  const key = parent.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  parent.replaceChildren(...children.flat(2).filter(Boolean));
  if (key === undefined) return;
  [...parent.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key)?.focus();
}

const makeFacts = (facts) => facts.map(([label, value]) =>
  element("tr", {}, element("th", { scope: "row", dir: "auto" }, label), element("td", { dir: "auto" }, value)));

const makeBy = (facts) => facts.filter(([, value]) => value)
  .map(([label, value]) => text([element("small", {}, label), " ", value]));

const makeTable = (kind, heads, rows) => element("table", { class: `rows ${kind}` },
  element("thead", {}, element("tr", {}, heads.map((head) => element("th", { scope: "col", class: head }, head)))),
  element("tbody", {}, rows));

// Heads of columns that sort a table, and the order that they have chosen.
class Heads {
  constructor(names, query, change) {
    this.query = query;
    this.names = names;
    this.row = element("tr", {}, names.map((name) => element("th", { scope: "col", class: name },
      element("button", { type: "button", click: () => change(this.turn(name)) }, name))));
    this.draw();
  }

  turn(name) {
    const isSame = this.query.sort === name;
    const first = ["ended", "duration", "started", "rate", "cost"].includes(name) ? "1" : "0";
    return { sort: name, descending: isSame ? (this.query.descending === "1" ? "0" : "1") : first };
  }

  draw() {
    for (const [place, name] of this.names.entries()) {
      const head = this.row.children[place + (this.offset ?? 0)];
      if (name !== this.query.sort) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", this.query.descending === "1" ? "descending" : "ascending");
    }
  }
}

// The address of a view. A page without a server leads to the page of another run.
function address(view, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const page = stored?.links?.[parameters.run] ?? "";
  return `${page}#/${view}?${new URLSearchParams(given)}`;
}
