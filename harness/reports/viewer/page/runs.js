// The list of runs and audits, and the choice of two runs to compare.

import { ask } from "./api.js";
import { address, element, number, replaceChildren, text } from "./dom.js";

const PAUSE = 3000;
// A list that takes long to read is read less often.
const PAUSE_PER_TIME = 10;
const TYPING = 150;
const RANGE = 200;
const HEADS = ["compare", "run", "benchmark", "agent", "progress", "rate", "cost", "duration", "started"];

export function showRuns(main, _parameters, page) {
  // The start of each chosen run, by its key.
  const chosen = new Map();
  const search = element("input", { type: "search", autocomplete: "off", maxlength: "200", input: () => type() });
  const found = element("output", { "aria-live": "polite" });
  const compare = element("button", { type: "button", disabled: true, click: () => openComparison() }, "compare");
  const body = element("tbody", {});
  const audits = element("section", { hidden: true });
  const previous = element("button", { type: "button", id: "previous-page", click: () => turn(-RANGE) }, "previous");
  const next = element("button", { type: "button", id: "next-page", click: () => turn(RANGE) }, "next");
  const range = element("span", {});
  const pages = element("div", { class: "tools pages", hidden: true }, previous, range, next);
  let values = null;
  let seen = "";
  let first = 0;
  let typing = 0;
  page.setTitle("runs");

  const title = element("h1", {}, "Runs");
  const where = element("p", { class: "by" });
  main.append(
    title, where,
    element("div", { class: "tools" }, element("label", {}, "search ", search), compare, found),
    element(
      "table", { class: "rows runs" },
      element("thead", {}, element("tr", {}, HEADS.map((name) => element("th", { scope: "col", class: name }, name)))),
      body,
    ),
    pages, audits,
  );

  function type() {
    clearTimeout(typing);
    typing = setTimeout(() => turn(-first), TYPING);
  }

  function turn(step) {
    first = Math.max(first + step, 0);
    page.refresh();
  }

  function openComparison() {
    // The run that was started first is the baseline.
    const [baseline, candidate] = [...chosen].sort(([a, x], [b, y]) => (x + a < y + b ? -1 : 1)).map(([key]) => key);
    location.hash = address("compare", { baseline, candidate });
  }

  function choose(run, isChosen) {
    if (isChosen) chosen.set(run.key, run.started_at);
    else chosen.delete(run.key);
    updateButton();
  }

  function updateButton() {
    compare.disabled = chosen.size !== 2;
    compare.textContent = chosen.size === 2 ? "compare" : `compare (${chosen.size} of 2 runs)`;
  }

  function describeProgress(run) {
    const planned = run.planned === null ? "?" : number(run.planned);
    const done = run.finished === null ? "" : ` ${number(run.finished)}/${planned}`;
    return [element("span", { class: `state ${run.state}` }, run.state), done];
  }

  function makeRow(run) {
    const box = element("input", {
      type: "checkbox", "aria-label": `compare ${run.name}`, "data-key": `box ${run.key}`,
      change: (event) => choose(run, event.target.checked),
    });
    box.checked = chosen.has(run.key);
    box.disabled = run.state === "broken";
    const link = element("a", { href: address("run", { run: run.key }), "data-key": run.key, dir: "auto" }, run.name);
    const reason = run.reason ? [element("br"), element("small", { dir: "auto" }, run.reason)] : [];
    const benchmark = [text(run.benchmark), run.is_bundled ? [" ", element("small", {}, "bundled sample")] : []];
    const agent = [text(run.agent), run.model ? [" ", element("small", { dir: "auto" }, run.model)] : []];
    const cells = {
      compare: box, run: [link, reason], benchmark, agent, progress: describeProgress(run),
      rate: [run.rate, " ", element("small", {}, run.passed)], cost: run.cost, duration: run.duration,
      started: run.started_at.replace("T", " ").replace("Z", ""),
    };
    return element("tr", {}, HEADS.map((name) =>
      element(name === "run" ? "th" : "td", { class: name, scope: name === "run" ? "row" : null }, cells[name])));
  }

  function draw() {
    const { runs, found: number_, all, place } = values;
    found.textContent = `${number(number_)} of ${number(all)}`;
    where.textContent = place ? `folder: ${place}` : "";
    replaceChildren(body, runs.map(makeRow));
    if (all === 0) {
      body.append(element("tr", {}, element("td", { colspan: HEADS.length }, "There are no runs yet. They appear here as they start.")));
    }
    range.textContent = runs.length ? `${number(first + 1)} to ${number(first + runs.length)}` : "";
    previous.disabled = first === 0;
    next.disabled = first + runs.length >= number_;
    pages.hidden = first === 0 && next.disabled;
    audits.hidden = values.audits.length === 0;
    replaceChildren(
      audits, element("h2", {}, "Audits"),
      element("ul", { class: "plain" }, values.audits.map((audit) =>
        element("li", {}, element("a", { href: address("audit", { audit: audit.key }), "data-key": audit.key, dir: "auto" }, audit.key)))),
    );
  }

  updateButton();
  return {
    async refresh() {
      const began = performance.now();
      values = await ask("runs", { search: search.value, first, number: RANGE }, page.signal);
      const took = performance.now() - began;
      if (values.runs.length === 0 && first > 0) {
        turn(-first);
        return PAUSE;
      }
      const now = JSON.stringify([values, first]);
      if (now !== seen) draw();
      seen = now;
      return Math.max(PAUSE, PAUSE_PER_TIME * took);
    },
  };
}
