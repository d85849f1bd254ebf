// The list of attempts: filter, search and sort on the server, and show one range as rows or as a grid.

import { ask } from "./api.js";
import { address, element, number, pill, replaceChildren, seconds, text, words } from "./dom.js";

const HEADS = ["status", "task", "error", "category", "score", "duration"];
const RANGE = { list: 100, grid: 500 };
const TYPING = 150;

// The rows that were shown last, through which the page of an attempt moves.
export const lastRows = { run: null, rows: [], up: "" };

export class AttemptList {
  constructor(run, parameters, page) {
    this.run = run;
    this.page = page;
    const { status, category, search, sort, descending, first, show } = parameters;
    this.query = {
      status: status ?? "", category: category ?? null, search: search ?? "", sort: sort ?? "ended",
      descending: descending ?? "1", first: Number(first) || 0, show: show === "grid" ? "grid" : "list",
    };
    this.seen = "";
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
    this.order = element("button", { type: "button", click: () => this.sortBy("ended") }, "newest first");
    this.shape = element("button", { type: "button", "aria-pressed": String(query.show === "grid"), click: () => this.reshape() }, "grid");
    this.found = element("output", { "aria-live": "polite" });
    this.heads = element("tr", {}, HEADS.map((name) => element("th", { scope: "col", class: name },
      element("button", { type: "button", click: () => this.sortBy(name) }, name))));
    this.body = element("tbody", {});
    this.table = element("table", { class: "rows attempts-table" }, element("thead", {}, this.heads), this.body);
    this.grid = element("ul", { class: "grid", "aria-label": "attempts", hidden: true });
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

  sortBy(name) {
    const isSame = this.query.sort === name;
    const first = name === "ended" || name === "duration" ? "1" : "0";
    this.change({ sort: name, descending: isSame ? (this.query.descending === "1" ? "0" : "1") : first });
  }

  reshape() {
    const show = this.query.show === "grid" ? "list" : "grid";
    this.shape.setAttribute("aria-pressed", String(show === "grid"));
    this.change({ show });
  }

  turn(step) {
    const first = Math.max(this.query.first + step * RANGE[this.query.show], 0);
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
    const values = await ask("attempts", { run: this.run, ...query, ...chosen, first, number: RANGE[show] }, this.page.signal);
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
    for (const [place, name] of HEADS.entries()) {
      const head = this.heads.children[place];
      if (name !== sort) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", descending === "1" ? "descending" : "ascending");
    }
    this.order.setAttribute("aria-pressed", String(sort === "ended"));
    this.order.textContent = sort === "ended" && descending === "0" ? "oldest first" : "newest first";
    this.table.hidden = show === "grid";
    this.grid.hidden = show !== "grid";
    replaceChildren(this.body, show === "grid" ? [] : values.rows.map((row) => this.makeRow(row)));
    replaceChildren(this.grid, show === "grid" ? values.rows.map((row) => this.makeSquare(row)) : []);
    const last = first + values.rows.length;
    this.range.textContent = values.found ? `${number(first + 1)} to ${number(last)} of ${number(values.found)}` : "no attempts";
    this.previous.disabled = first === 0;
    this.next.disabled = last >= values.found;
  }

  link(row, attributes, ...children) {
    return element("a", {
      href: address("attempt", { run: this.run, task: row.task_id, attempt: row.attempt }),
      "data-key": `${row.task_id} ${row.attempt}`, dir: "auto", ...attributes,
    }, ...children);
  }

  makeRow(row) {
    const number_ = row.attempt ? element("small", {}, ` #${row.attempt}`) : null;
    const cells = {
      status: pill(row.status), task: this.link(row, {}, row.name, number_), error: text(row.error, { class: "why" }),
      category: text(row.category), score: row.score === null ? "" : String(Number(row.score.toFixed(3))),
      duration: seconds(row.duration_seconds),
    };
    return element("tr", {}, HEADS.map((name) =>
      element(name === "task" ? "th" : "td", { class: name, scope: name === "task" ? "row" : null }, cells[name])));
  }

  makeSquare(row) {
    const label = `${row.name} #${row.attempt}: ${words(row.status)}`;
    return element("li", {}, this.link(row, { class: `pill square ${row.status}`, title: label, "aria-label": label },
      row.status[0].toUpperCase()));
  }
}
