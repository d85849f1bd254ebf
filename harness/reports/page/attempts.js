// The list of attempts: filter, search and sort on the server, and show one range as rows or as a grid.

const ATTEMPT_HEADS = ["status", "task", "error", "category", "score", "duration"];
const ATTEMPT_RANGE = { list: 100, grid: 500 };

// The rows that were shown last, through which the page of an attempt moves.
const lastRows = { run: null, rows: [], up: "" };

class AttemptList {
  constructor(run, parameters, page) {
    this.run = run;
    this.page = page;
    const { status, category, search, sort, descending, first, show } = parameters;
    this.query = {
      status: status ?? "", category: category ?? null, search: search ?? "", sort: sort ?? "ended",
      descending: descending ?? "1", first: Number(first) || 0, show: show === "grid" ? "grid" : "list",
    };
    this.seen = "";
    this.perTask = 1;
    this.make();
  }

  make() {
    const { query } = this;
    this.search = element("input", { type: "search", autocomplete: "off", maxlength: "200", input: () => this.type() });
    this.search.value = query.search;
    this.status = element("select", { change: () => this.change({ status: this.status.value }) });
    this.category = element("select", {
      change: () => this.change({ category: this.category.selectedIndex ? this.category.value : null }),
    });
    this.categoryLabel = element("label", { hidden: true }, "category ", this.category);
    this.order = element("button", { type: "button", hidden: Boolean(stored), click: () => this.change(this.heads.turn("ended")) }, "newest first");
    this.shape = element("button", { type: "button", "aria-pressed": String(query.show === "grid"), click: () => this.reshape() }, "grid");
    this.found = element("output", { "aria-live": "polite" });
    this.heads = new Heads(ATTEMPT_HEADS, query, (changes) => this.change(changes));
    this.body = element("tbody", {});
    this.table = element("table", { class: "rows attempts-table" }, element("thead", {}, this.heads.row), this.body);
    this.gridHead = element("thead", {});
    this.gridBody = element("tbody", {});
    this.grid = element("div", { class: "grid", hidden: true, tabindex: "0", role: "group", "aria-label": "tasks by attempts" },
      element("table", {}, this.gridHead, this.gridBody));
    this.previous = element("button", { type: "button", id: "previous-page", click: () => this.turn(-1) }, "previous");
    this.next = element("button", { type: "button", id: "next-page", click: () => this.turn(1) }, "next");
    this.range = element("span", {});
    this.section = element("section", {}, element("h2", { id: "attempts" }, "Attempts"),
      element("div", { class: "tools" }, element("label", {}, "search ", this.search),
        element("label", {}, "status ", this.status), this.categoryLabel, this.order, this.shape, this.found),
      this.table, this.grid,
      element("div", { class: "tools pages" }, this.previous, this.range, this.next));
    this.setStatuses({});
  }

  setStatuses(statuses) {
    const all = { ...(this.query.status ? { [this.query.status]: 0 } : {}), ...statuses };
    const options = Object.entries(all).map(([status, count]) =>
      element("option", { value: status }, `${words(status)} (${number(count)})`));
    this.fill(this.status, [element("option", { value: "" }, "all"), ...options], this.query.status);
  }

  setCategories(categories, hasCategories) {
    this.table.classList.toggle("without-category", !hasCategories);
    this.categoryLabel.hidden = categories.length === 0;
    const options = categories.map((each) => element("option", { value: each.category }, each.name));
    const chosen = this.query.category;
    const place = chosen === null ? 0 : categories.findIndex((each) => each.category === chosen) + 1;
    this.fill(this.category, [element("option", {}, "all"), ...options], null, place);
  }

  fill(select, options, value, place = 0) {
    // A list that is open must not change under the hand of the user.
    const texts = (each) => [...each].map((option) => option.textContent).join("\n");
    if (document.activeElement === select || texts(select.options) === texts(options)) return;
    select.replaceChildren(...options);
    if (value === null) select.selectedIndex = place;
    else select.value = value;
  }

  type() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.change({ search: this.search.value }), TYPING);
  }

  reshape() {
    const show = this.query.show === "grid" ? "list" : "grid";
    this.shape.setAttribute("aria-pressed", String(show === "grid"));
    this.change({ show });
  }

  // A page of the grid has whole tasks.
  get number() {
    const all = ATTEMPT_RANGE[this.query.show];
    return this.query.show === "grid" ? Math.max(all - (all % this.perTask), this.perTask) : all;
  }

  turn(step) {
    const first = Math.max(this.query.first + step * this.number, 0);
    this.change({ first });
    this.section.scrollIntoView();
  }

  change(changes) {
    Object.assign(this.query, { first: 0 }, changes);
    history.replaceState(null, "", this.address());
    this.page.refresh();
  }

  address() {
    return address("run", { run: this.run, ...this.query });
  }

  async refresh() {
    const { first, show, category, ...query } = this.query;
    const chosen = category === null ? {} : { category };
    // The grid is in the order of the tasks, and not of the ends of attempts.
    if (show === "grid") Object.assign(query, { sort: "task", descending: "0" });
    const values = await ask("attempts", { run: this.run, ...query, ...chosen, first, number: this.number }, this.page.signal);
    const now = JSON.stringify([values, this.query]);
    if (now === this.seen) return;
    this.seen = now;
    if (values.rows.length === 0 && first > 0 && values.found > 0) {
      this.change({ first: 0 });
      return;
    }
    this.draw(values);
  }

  draw(values) {
    const { first, show, sort, descending } = this.query;
    Object.assign(lastRows, { run: this.run, rows: values.rows, up: this.address() });
    this.found.textContent = `${number(values.found)} of ${number(values.all)}`;
    this.heads.draw();
    this.order.hidden = show === "grid" || Boolean(stored);
    this.order.setAttribute("aria-pressed", String(sort === "ended"));
    this.order.textContent = sort === "ended" && descending === "0" ? "oldest first" : "newest first";
    this.table.hidden = show === "grid";
    this.grid.hidden = show !== "grid";
    replaceChildren(this.body, show === "grid" ? [] : values.rows.map((row) => this.makeRow(row)));
    this.drawGrid(show === "grid" ? values.rows : []);
    const last = first + values.rows.length;
    this.range.textContent = values.found ? `${number(first + 1)} to ${number(last)} of ${number(values.found)}` : "no attempts";
    this.previous.disabled = first === 0;
    this.next.disabled = last >= values.found;
  }

  link(row, attributes, ...children) {
    return makeAttemptLink(this.run, row, attributes, ...children);
  }

  makeRow(row) {
    const number_ = row.attempt ? element("small", {}, ` #${row.attempt}`) : null;
    const cells = {
      status: pill(row.status), task: this.link(row, {}, row.name, number_), error: text(row.error, { class: "why" }),
      category: text((row.category ?? "").split(/(?<=_)/).flatMap((part) => [part, element("wbr")])), score: row.score === null ? "" : String(Number(row.score.toFixed(3))),
      duration: seconds(row.duration_seconds),
    };
    return element("tr", {}, ATTEMPT_HEADS.map((name) =>
      element(name === "task" ? "th" : "td", { class: name, scope: name === "task" ? "row" : null }, cells[name])));
  }

  // A row for each task and a column for each attempt.
  drawGrid(rows) {
    const tasks = new Map();
    for (const row of rows) tasks.set(row.task_id, [...(tasks.get(row.task_id) ?? []), row]);
    const most = Math.max(0, ...rows.map((row) => row.attempt)) + 1;
    if (rows.length && most > this.perTask && most <= ATTEMPT_RANGE.grid) {
      this.perTask = most;
      this.page.refresh();
    }
    const numbers = [...Array(Math.min(most, ATTEMPT_RANGE.grid)).keys()];
    replaceChildren(this.gridHead, element("tr", {}, element("th", { scope: "col" }, "task"),
      numbers.map((place) => element("th", { scope: "col" }, `#${place}`)), element("th", { scope: "col" }, "passed")));
    replaceChildren(this.gridBody, [...tasks.values()].map((attempts) => this.makeTask(attempts, numbers)));
  }

  makeTask(attempts, numbers) {
    const [{ task_id: task, name }] = attempts;
    const passed = attempts.filter((row) => row.status === "passed").length;
    const found = new Map(attempts.map((row) => [row.attempt, row]));
    return element("tr", {},
      element("th", { scope: "row" }, element("a", { href: address("task", { run: this.run, task }), dir: "auto" }, name)),
      numbers.map((place) => element("td", {}, found.has(place) ? this.makeSquare(found.get(place)) : null)),
      element("td", { class: "passes" }, `${passed}/${attempts.length}`));
  }

  makeSquare(row) {
    const label = `${row.name} #${row.attempt}: ${words(row.status)}`;
    return this.link(row, { class: `pill square ${row.status}`, title: label, "aria-label": label }, row.status[0].toUpperCase());
  }
}

const makeAttemptLink = (run, row, attributes, ...children) => element("a", {
  href: address("attempt", { run, task: row.task_id, attempt: row.attempt }),
  "data-key": `${row.task_id} ${row.attempt}`, dir: "auto", ...attributes,
}, ...children);

// One task of a run: its prompt, and each of its attempts.
function showTask(main, parameters, page) {
  const { run = "", task = "" } = parameters;
  const by = element("p", { class: "by" });
  const rows = element("div", {});
  const prompt = element("section", {});
  main.append(element("h1", { dir: "auto" }, task), by, element("h2", {}, "Attempts"), rows, prompt);
  page.setTitle(task);
  page.setPlace(element("a", { href: address("run", { run }), dir: "auto" }, run || "run"), text(task));
  let seen = "";

  function draw(found) {
    const passed = found.filter((row) => row.status === "passed").length;
    replaceChildren(by, makeBy([["category", found[0]?.category], ["passed", `${number(passed)} of ${count(found.length, "attempt")}`]]));
    replaceChildren(rows, makeTable("attempts-table", ["attempt", "status", "error", "score", "duration"], found.map((row) => element("tr", {},
      element("th", { scope: "row", class: "task" }, makeAttemptLink(run, row, {}, `#${row.attempt}`)),
      element("td", { class: "status" }, pill(row.status)), element("td", { class: "error" }, text(row.error, { class: "why" })),
      element("td", { class: "score" }, row.score === null ? "" : String(Number(row.score.toFixed(3)))),
      element("td", { class: "duration" }, seconds(row.duration_seconds))))));
  }

  async function showPrompt(attempt) {
    const { blocks } = await ask("transcript", { run, task, attempt, first: 0, generation: 0 }, page.signal);
    const found = blocks.find((block) => block.role === "prompt");
    if (found) replaceChildren(prompt, element("h2", {}, "Prompt"), makeText(found));
  }

  return {
    up: address("run", { run }),
    async refresh() {
      const found = await ask("attempts", { run, task, sort: "task", descending: "0", first: 0, number: 500 }, page.signal);
      if (found.rows.length && !prompt.childElementCount) await showPrompt(found.rows[0].attempt);
      if (JSON.stringify(found) !== seen) draw(found.rows);
      seen = JSON.stringify(found);
      return 3000;
    },
  };
}
