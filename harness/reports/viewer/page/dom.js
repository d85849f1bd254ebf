// Make elements. Every text becomes a text node, so that no text of a run is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function element(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function shape(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

// A text of a run, whose direction is its own.
export const text = (value, attributes) => element("span", { dir: "auto", ...attributes }, value);

export const words = (status) => status.replaceAll("_", " ");

export const pill = (status) => element("span", { class: `pill ${status}` }, words(status));

export const number = (value) => value.toLocaleString("en");

export function seconds(value) {
  if (value < 9.95) return `${value.toFixed(1)} s`;
  const whole = Math.round(value);
  const two = (part) => String(part).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
}

// The parts of all attempts by status.
export function statusBar(counts) {
  const all = counts.reduce((sum, each) => sum + each.number, 0);
  let start = 0;
  const parts = counts.map(({ key, number: count }) => {
    const part = shape("rect", {
      class: key, x: `${(100 * start) / all}%`, width: `${(100 * count) / all}%`, height: "100%",
    });
    start += count;
    return part;
  });
  return shape("svg", { class: "bar", role: "img", "aria-label": "attempts by status" }, ...parts);
}

export function shareBar({ share, low, high }) {
  return shape(
    "svg", { class: "bar", "aria-hidden": "true" },
    shape("rect", { class: "passed", width: `${100 * share}%`, height: "100%" }),
    shape("rect", {
      class: "interval", x: `${100 * low}%`, width: `${100 * (high - low)}%`, y: "40%", height: "20%",
    }),
  );
}

// Replace the children, and keep the focus on the element with the same data-key.
export function replaceChildren(parent, ...children) {
  const key = parent.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  parent.replaceChildren(...children.flat(2));
  if (key === undefined) return;
  [...parent.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key)?.focus();
}

export const address = (view, parameters) =>
  `#/${view}?${new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null && value !== ""))}`;
