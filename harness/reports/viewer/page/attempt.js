// One attempt: its verdict and texts, and its transcript as it grows.

import { ask } from "./api.js";
import { lastRows } from "./attempts.js";
import { address, element, number, pill, replaceChildren, text } from "./dom.js";
import { makeFacts } from "./run.js";

const PAUSE = 1000;
const WITHOUT_VERDICT = ["grader_error", "infra_error", "cancelled"];

const isInterrupted = (values) => values.state === "interrupted";

export function showAttempt(main, parameters, page) {
  const { run = "", task = "", attempt = "0" } = parameters;
  const name = attempt === "0" ? task : `${task} #${attempt}`;
  const up = lastRows.run === run && lastRows.up ? lastRows.up : address("run", { run });
  const title = element("h1", { dir: "auto" }, name);
  const by = element("p", { class: "by", "aria-live": "polite" });
  const texts = element("section", {});
  const entries = element("div", { class: "transcript" });
  const more = element("button", { type: "button", hidden: true, click: () => page.refresh() }, "show more");
  const facts = element("table", { class: "facts" });
  main.append(
    title, by, texts, element("h2", {}, "Transcript"), entries, more,
    element("section", { class: "manifest" }, element("details", {}, element("summary", {}, "Metrics"), facts)),
  );
  page.setTitle(name);
  page.setPlace(element("a", { href: up, dir: "auto" }, run), text(name));
  let generation = 0;
  let shown = 0;
  let seen = "";

  function makeText(each) {
    const left = each.left_out + (each.elsewhere ?? 0);
    return [
      element("pre", { dir: "auto", tabindex: "0", class: each.kind }, each.text),
      left ? element("small", {}, `${number(left)} more characters are in the run folder`) : null,
    ];
  }

  function draw(values) {
    title.textContent = values.attempt ? `${values.name} #${values.attempt}` : values.name;
    const figures = [["category", values.category], ["duration", values.duration]].filter(([, value]) => value);
    replaceChildren(by, values.status ? pill(values.status) : element("span", { class: `state ${isInterrupted(values) ? "interrupted" : "running"}`, dir: "auto" }, values.state),
      figures.map(([label, value]) => text([element("small", {}, label), " ", value])));
    replaceChildren(texts, values.texts.map((each) =>
      element("details", { class: "text", open: true }, element("summary", {}, each.label), makeText(each))));
    replaceChildren(facts, makeFacts(values.facts));
  }

  function makeBlock(block) {
    return element("div", { class: block.begins_entry ? "entry" : "part" },
      block.heading ? element("h3", { dir: "auto", class: block.is_warning ? "warned" : null }, block.heading) : null,
      block.text ? makeText(block) : null);
  }

  async function follow() {
    const asked = { run, task, attempt, first: shown, generation };
    const found = await ask("transcript", asked, page.signal);
    const isAtEnd = window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 8;
    if (found.generation !== generation || found.first !== shown) {
      entries.replaceChildren();
      generation = found.generation;
      shown = 0;
    }
    entries.append(...found.blocks.map(makeBlock));
    shown += found.blocks.length;
    more.hidden = !found.has_more;
    if (isAtEnd && found.blocks.length && seen && !found.has_more && isUnderWay) {
      window.scrollTo(0, document.documentElement.scrollHeight);
    }
    if (shown === 0) entries.replaceChildren(element("p", {}, "no entry yet"));
    else entries.querySelector(":scope > p")?.remove();
  }

  let isUnderWay = false;
  return {
    up,
    // The next or the previous attempt of the list.
    move(step) {
      const at = lastRows.rows.findIndex((row) => row.task_id === task && String(row.attempt) === attempt);
      const next = lastRows.run === run && at !== -1 ? lastRows.rows[at + step] : undefined;
      if (next) location.hash = address("attempt", { run, task: next.task_id, attempt: next.attempt });
    },
    async refresh() {
      const values = await ask("attempt", { run, task, attempt }, page.signal);
      isUnderWay = values.status === null;
      const now = JSON.stringify(values);
      if (now !== seen) draw(values);
      await follow();
      seen = now;
      return isUnderWay || WITHOUT_VERDICT.includes(values.status) ? PAUSE : null;
    },
  };
}
