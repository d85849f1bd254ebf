// One attempt: its verdict and texts, and its transcript as it grows.

const ATTEMPT_PAUSE = 1000;
const WITHOUT_VERDICT = ["grader_error", "infra_error", "cancelled"];

function showAttempt(main, parameters, page) {
  const { run = "", task = "", attempt = "0" } = parameters;
  const name = attempt === "0" ? task : `${task} #${attempt}`;
  const up = lastRows.run === run && lastRows.up ? lastRows.up : address("run", { run });
  const title = element("h1", { dir: "auto" }, name);
  const by = element("p", { class: "by", "aria-live": "polite" });
  const texts = element("section", { class: "texts" });
  const transcript = new Transcript();
  const more = element("button", { type: "button", hidden: true, click: () => page.refresh() }, "show more");
  const facts = element("table", { class: "facts" });
  main.append(
    title, by, texts, transcript.section, more,
    element("section", { class: "manifest" }, element("details", {}, element("summary", {}, "Metrics"), facts)),
  );
  page.setTitle(name);
  page.setPlace(run ? element("a", { href: up, dir: "auto" }, run) : element("a", { href: up }, "run"),
    element("a", { href: address("task", { run, task }), dir: "auto" }, task), text(`#${attempt}`));
  let generation = 0;
  let shown = 0;
  let seen = "";
  let isUnderWay = false;

  function draw(values) {
    title.textContent = values.attempt ? `${values.name} #${values.attempt}` : values.name;
    const state = values.state === "interrupted" ? "interrupted" : "running";
    replaceChildren(by, values.status ? pill(values.status) : element("span", { class: `state ${state}`, dir: "auto" }, values.state),
      makeBy(values.figures ?? []));
    replaceChildren(texts, values.texts.map((each) => element("details", { class: "text", open: true },
      element("summary", {}, each.label), makeText(each).filter(Boolean))));
    replaceChildren(facts, makeFacts(values.facts));
  }

  async function follow() {
    const found = await ask("transcript", { run, task, attempt, first: shown, generation }, page.signal);
    const isAtEnd = window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 8;
    if (found.generation !== generation || found.first !== shown) {
      transcript.clear();
      generation = found.generation;
      shown = 0;
    }
    transcript.add(found.blocks);
    shown += found.blocks.length;
    more.hidden = !found.has_more;
    if (isAtEnd && found.blocks.length && seen && !found.has_more && isUnderWay) {
      window.scrollTo(0, document.documentElement.scrollHeight);
    }
  }

  return {
    up,
    // The next or the previous attempt of the list.
    move(step) {
      const at = lastRows.rows.findIndex((row) => row.task_id === task && String(row.attempt) === attempt);
      const next = lastRows.run === run && at !== -1 ? lastRows.rows[at + step] : undefined;
      if (next) location.hash = address("attempt", { run, task: next.task_id, attempt: next.attempt });
    },
    turn: (step) => transcript.step(step),
    async refresh() {
      const values = await ask("attempt", { run, task, attempt }, page.signal);
      isUnderWay = values.status === null;
      const now = JSON.stringify(values);
      if (now !== seen) draw(values);
      await follow();
      seen = now;
      return isUnderWay || WITHOUT_VERDICT.includes(values.status) ? ATTEMPT_PAUSE : null;
    },
  };
}
