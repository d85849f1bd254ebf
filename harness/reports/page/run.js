// One run: its headline and figures, and its attempts by index and range.

const RUN_PAUSE = 1500;
const AFTER_END = 10000;
const WHILE_INDEXING = 50;
// An attempt without a new entry for so many seconds is shown as quiet.
const QUIET = 10;

function showRun(main, parameters, page) {
  const key = parameters.run ?? "";
  const title = element("h1", { dir: "auto" }, key);
  const by = element("p", { class: "by" });
  const warnings = element("div", {});
  const headline = element("p", { class: "headline" });
  const cards = element("section", { class: "cards", "aria-label": "Key figures" });
  const causes = element("section", { hidden: true });
  const charts = element("div", {});
  const figures = element("section", {});
  const statuses = element("section", {});
  const categories = element("section", {});
  const underWay = element("section", {});
  const list = new AttemptList(key, parameters, page);
  const manifest = element("details", { toggle: (event) => event.target.open && showManifest() },
    element("summary", {}, "Manifest"));
  main.append(
    title, by, warnings, headline, cards, causes, statuses, underWay, list.section, categories, charts, figures,
    element("section", { class: "manifest" }, manifest),
  );
  page.setTitle(key || stored.run.benchmark);
  page.setPlace(text(key || stored.run.name));
  let seen = "";
  // The attempts that had ended when the page was opened, and the time then.
  let watched = null;

  async function showManifest() {
    if (manifest.children.length > 1) return;
    const table = element("table", { class: "facts" });
    manifest.append(table);
    const facts = await ask("manifest", { run: key }, page.signal);
    table.append(...makeFacts(facts));
  }

  function draw(run) {
    title.textContent = run.benchmark || run.name;
    replaceChildren(by, makeBy([["run", run.name], ["agent", run.agent], ["model", run.model], ["state", run.state], ["started", moment(run.started_at)],
      ["duration", run.duration], ["cost", run.cost], ["data", run.origin]]));
    const texts = [...run.problems, run.warning].filter(Boolean);
    if (run.is_bundled) texts.unshift("Bundled sample. These few problems ship with harness. They are not the benchmark.");
    replaceChildren(warnings, texts.map((each) => element("p", { class: "warning", dir: "auto" }, each)));
    const [figure, interval, meaning, coverage] = run.headline;
    replaceChildren(headline, coverage ? [element("span", {}, coverage), element("br")] : [],
      element("strong", {}, figure), " ", element("span", { class: "spread" }, interval), element("br"), element("span", {}, meaning),
      run.index.is_complete ? [] : [element("br"), element("span", {}, `reading the attempts: ${Math.floor(100 * run.index.share)} %`)]);
    const counts = run.status_counts;
    replaceChildren(statuses, element("h2", {}, "Statuses"), statusBar(counts),
      element("ul", { class: "legend" }, counts.map((each) =>
        element("li", {}, element("span", { class: `pill ${each.key}` }, each.label), ` ${number(each.number)}`))));
    statuses.hidden = counts.length === 0;
    replaceChildren(cards, run.cards.map(([label, value, remark, kind]) => element("div", { class: `card ${kind}` },
      element("small", {}, label), element("strong", {}, value), element("span", {}, remark))));
    cards.hidden = run.cards.length === 0;
    drawCategories(run.categories);
    replaceChildren(figures, element("h2", {}, "Further figures"), element("table", { class: "facts" }, makeFacts(run.figures)));
    figures.hidden = run.figures.length === 0;
    list.setCategories(run.categories, run.has_categories);
    list.setStatuses(run.statuses);
  }

  // The time that is left, at the pace since the page was opened. It is "" while no attempt has ended since.
  function describeTimeLeft({ state, finished, planned }) {
    const now = performance.now();
    if (state !== "running" || finished === null || planned === null) watched = null;
    else watched ??= { finished, since: now };
    const ended = watched ? finished - watched.finished : 0;
    if (ended <= 0) return "";
    return `about ${seconds(((planned - finished) * (now - watched.since)) / ended / 1000)} left`;
  }

  function drawUnderWay(run) {
    // The oldest leads.
    const attempts = [...run.under_way].sort((a, b) => (b.seconds ?? -1) - (a.seconds ?? -1));
    const left = describeTimeLeft(run);
    const stages = run.stages.map(([stage, count]) => `${stage} ${number(count)}`).join(", ");
    underWay.hidden = attempts.length === 0 && !left && !stages;
    replaceChildren(underWay, element("h2", {}, `Under way: ${number(attempts.length)}`),
      left ? element("p", {}, left, " ", element("small", {}, "at the pace since this page was opened")) : [],
      stages ? element("p", {}, stages) : [],
      element("ul", { class: "plain inline" }, attempts.slice(0, 200).map((each) =>
        element("li", {}, element("a", {
          href: address("attempt", { run: key, task: each.task_id, attempt: each.attempt }),
          "data-key": `way ${each.task_id} ${each.attempt}`, dir: "auto",
        }, each.attempt ? `${each.name} #${each.attempt}` : each.name), describeProgress(each)))));
  }

  function describeProgress(each) {
    const texts = [];
    if (each.seconds !== null) texts.push(`for ${seconds(each.seconds)}`);
    if (each.stage) texts.push(each.stage);
    if (each.quiet_seconds >= QUIET) texts.push(`last entry ${seconds(each.quiet_seconds)} ago`);
    return texts.length ? element("small", { dir: "auto" }, ` ${texts.join(", ")}`) : null;
  }

  // The server reads all attempts for the charts, so it is asked only when the run has changed.
  async function showCharts() {
    const found = await ask("charts", { run: key }, page.signal);
    drawCauses(found.causes ?? []);
    drawCharts(charts, found);
  }

  function drawCauses(rows) {
    causes.hidden = rows.length === 0;
    replaceChildren(causes, element("h2", {}, "Unresolved attempts by cause"),
      element("table", { class: "figures causes" }, rows.map(([status, exception, found, example]) => element("tr", {},
        element("th", { scope: "row" }, pill(status), exception ? ` ${exception}` : element("small", {}, " without an exception")), element("td", {}, number(found)),
        element("td", { class: "share", dir: "auto" }, element("small", {}, `such as ${example}`))))));
  }

  function drawCategories(rows) {
    categories.hidden = rows.length === 0;
    replaceChildren(categories, element("h2", {}, "Categories"),
      element("table", { class: "figures" }, rows.map((row) => element("tr", {},
        element("th", { scope: "row", dir: "auto" }, row.name),
        element("td", {}, row.passed),
        element("td", { class: "rate" }, row.rate, element("br"), element("small", {}, row.interval)),
        element("td", { class: "share" }, shareBar(row))))));
  }

  return {
    async refresh() {
      const run = await ask("run", { run: key }, page.signal);
      await list.refresh();
      const { under_way: _, stages: __, ...rest } = run;
      const now = JSON.stringify(rest);
      if (now !== seen) draw(run);
      drawUnderWay(run);
      if (now !== seen && run.index.is_complete && (stored || run.state === "finished")) await showCharts();
      seen = now;
      if (!run.index.is_complete) return WHILE_INDEXING;
      // A run that has ended may be resumed.
      return run.state === "running" ? RUN_PAUSE : AFTER_END;
    },
  };
}

// The charts of a finished run: pass@k, durations, and attempts over time. Each has a text that says the same.
function drawCharts(parent, { curve, durations, timeline }) {
  const side = element("div", { class: "charts" }, curve && element("section", {}, element("h2", {}, "pass@k"),
    element("div", { class: "plot" }, shape("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": curve.label },
      shape("polygon", { points: curve.area }), shape("polyline", { points: curve.line })),
    element("small", {}, "100 %"), element("small", {}, "0 %")),
    element("p", { class: "axis" }, element("small", {}, "k = 1"), element("small", {}, `k = ${curve.most}`)),
    element("details", {}, element("summary", {}, curve.label),
      element("table", { class: "figures" }, makeFacts(curve.figures.map(([k, value]) => [`pass@${k}`, value]))))),
  durations && element("section", {}, element("h2", {}, "Durations"), element("p", {}, durations.label),
    element("table", { class: "figures bins" }, durations.bins.map(([name, found, width]) => element("tr", {},
      element("th", { scope: "row" }, name), element("td", {}, found),
      element("td", { class: "share" }, bar({ "aria-hidden": "true" }, [{ kind: "cancelled", share: parseFloat(width) / 100 }])))))));
  const times = timeline && element("section", {}, element("h2", {}, "Timeline"), element("p", {}, timeline.label),
    shape("svg", { class: "timeline", viewBox: `0 0 1000 ${timeline.height}`, height: timeline.height, preserveAspectRatio: "none", role: "img", "aria-label": timeline.label },
      timeline.bars.map(({ x, y, width, height, status, title }) => shape("rect", { x, y, width, height, class: status }, shape("title", {}, title))),
      timeline.area ? shape("polygon", { points: timeline.area }) : null),
    element("p", { class: "axis" }, element("small", {}, timeline.began), element("small", {}, timeline.ended)));
  parent.replaceChildren(...[curve || durations ? side : null, times].filter(Boolean));
}
