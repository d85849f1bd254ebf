// The list of runs and audits, the choice of two runs to compare, and the models by benchmarks.

const RUNS_PAUSE = 3000;
// A list that takes long to read is read less often.
const PAUSE_PER_TIME = 10;
const RUNS_RANGE = 200;
const RUN_HEADS = ["run", "benchmark", "agent", "model", "progress", "rate", "cost", "duration", "started"];
const TYPING = 150;

function showRuns(main, parameters, page) {
  // The start of each chosen run, by its key.
  const chosen = new Map();
  const query = { search: parameters.search ?? "", sort: parameters.sort ?? "started", descending: parameters.descending ?? "1", first: 0 };
  const search = element("input", { type: "search", autocomplete: "off", maxlength: "200", input: () => type() });
  search.value = query.search;
  const found = element("output", { "aria-live": "polite" });
  const compare = element("button", { type: "button", disabled: true, hidden: Boolean(stored), click: () => openComparison() }, "compare");
  const heads = new Heads(RUN_HEADS, query, (changes) => change(changes));
  if (!stored) heads.row.prepend(element("th", { scope: "col", class: "compare" }, element("small", {}, "compare")));
  heads.offset = stored ? 0 : 1;
  const body = element("tbody", {});
  const audits = element("section", { hidden: true });
  const previous = element("button", { type: "button", id: "previous-page", click: () => turn(-RUNS_RANGE) }, "previous");
  const next = element("button", { type: "button", id: "next-page", click: () => turn(RUNS_RANGE) }, "next");
  const range = element("span", {});
  const pages = element("div", { class: "tools pages", hidden: true }, previous, range, next);
  let values = null;
  let seen = "";
  let typing = 0;
  page.setTitle("runs");

  const where = element("p", { class: "by" });
  main.append(
    element("h1", {}, "Runs"), where,
    element("div", { class: "tools" }, element("label", {}, "search ", search), compare,
      element("a", { href: "#/matrix" }, "models by benchmarks"), found),
    element("table", { class: "rows runs" }, element("thead", {}, heads.row), body),
    pages, audits,
  );

  function type() {
    clearTimeout(typing);
    typing = setTimeout(() => change({ search: search.value }), TYPING);
  }

  function change(changes) {
    Object.assign(query, { first: 0 }, changes);
    history.replaceState(null, "", address("runs", { ...query, first: null }));
    page.refresh();
  }

  function turn(step) {
    query.first = Math.max(query.first + step, 0);
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

  // The rate and the passed attempts, then the interval, which no line break divides.
  function describeRate(run) {
    const [rate, interval] = run.rate.split(/ (?=\()/);
    return [rate, " ", element("small", {}, run.passed), " ", element("span", { class: "together" }, interval ?? "")];
  }

  function makeBox(run) {
    const box = element("input", {
      type: "checkbox", "aria-label": `compare ${run.name}`, "data-key": `box ${run.key}`,
      change: (event) => choose(run, event.target.checked),
    });
    box.checked = chosen.has(run.key);
    box.disabled = run.state === "broken";
    return element("td", { class: "compare" }, box);
  }

  function makeRow(run) {
    const link = element("a", { href: address("run", { run: run.key }), "data-key": run.key, dir: "auto" }, run.name);
    const reason = run.reason ? [element("br"), element("small", { dir: "auto" }, run.reason)] : [];
    const cells = {
      run: [link, reason], benchmark: [text(run.benchmark), run.is_bundled ? [" ", element("small", {}, "bundled sample")] : []],
      agent: text(run.agent), model: text(run.model), progress: describeProgress(run),
      rate: run.rate ? describeRate(run) : [], cost: run.cost, duration: run.duration,
      started: moment(run.started_at),
    };
    return element("tr", {}, stored ? null : makeBox(run), RUN_HEADS.map((name) =>
      element(name === "run" ? "th" : "td", { class: name, scope: name === "run" ? "row" : null, "data-label": name }, cells[name])));
  }

  function draw() {
    const { runs, found: number_, all, place } = values;
    heads.draw();
    found.textContent = `${number(number_)} of ${number(all)}`;
    replaceChildren(where, makeBy([["folder", place]]));
    replaceChildren(body, runs.map(makeRow));
    if (all === 0) {
      body.append(element("tr", {}, element("td", { colspan: RUN_HEADS.length + 1 }, "There are no runs yet. They appear here as they start.")));
    }
    range.textContent = runs.length ? `${number(query.first + 1)} to ${number(query.first + runs.length)}` : "";
    previous.disabled = query.first === 0;
    next.disabled = query.first + runs.length >= number_;
    pages.hidden = query.first === 0 && next.disabled;
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
      values = await ask("runs", { ...query, number: RUNS_RANGE }, page.signal);
      const took = performance.now() - began;
      if (values.runs.length === 0 && query.first > 0) {
        turn(-query.first);
        return RUNS_PAUSE;
      }
      const now = JSON.stringify([values, query]);
      if (now !== seen) draw();
      seen = now;
      return Math.max(RUNS_PAUSE, PAUSE_PER_TIME * took);
    },
  };
}

// The newest finished run of each model, or of an agent without a model, on each benchmark.
function showMatrix(main, _parameters, page) {
  const result = element("div", { class: "matrix", tabindex: "0", role: "group", "aria-label": "models by benchmarks" });
  main.append(element("h1", {}, "Models by benchmarks"),
    element("p", { class: "by" }, "the newest finished run of each; the interval is at 95 %"), result);
  page.setTitle("models by benchmarks");
  page.setPlace(text("models by benchmarks"));
  let seen = "";

  const makeCell = (cell) => element("td", {}, cell === null ? element("small", {}, "-") : [
    element("a", { href: address("run", { run: cell.key }), "data-key": cell.key, "aria-label": `${cell.rate}, open the run` }, cell.rate), element("br"),
    element("small", {}, cell.interval), shareBar(cell),
    element("small", {}, cell.is_bundled ? "bundled sample" : count(cell.runs, "run"))]);

  return {
    up: "#/runs",
    async refresh() {
      const { benchmarks, rows } = await ask("matrix", {}, page.signal);
      const now = JSON.stringify([benchmarks, rows]);
      if (now !== seen) {
        replaceChildren(result, rows.length === 0 ? element("p", {}, "There is no finished run yet.")
          : element("table", {}, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "model"),
            benchmarks.map((name) => element("th", { scope: "col", dir: "auto" }, name)))),
          element("tbody", {}, rows.map((row) => element("tr", {}, element("th", { scope: "row" }, text(row.model), element("br"),
            element("small", { dir: "auto" }, row.agent)), row.cells.map(makeCell))))));
      }
      seen = now;
      return RUNS_PAUSE;
    },
  };
}
