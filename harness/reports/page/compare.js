// Two runs, paired by task.

function showComparison(main, parameters, page) {
  const { baseline = "", candidate = "" } = parameters;
  const result = element("div", {}, element("p", {}, "comparing ..."));
  main.append(
    element("h1", {}, "Comparison"),
    element("p", { class: "by" },
      element("span", {}, element("small", {}, "baseline"), " ", element("a", { href: address("run", { run: baseline }), dir: "auto" }, baseline)),
      element("span", {}, element("small", {}, "candidate"), " ", element("a", { href: address("run", { run: candidate }), dir: "auto" }, candidate)),
      element("a", { href: address("compare", { baseline: candidate, candidate: baseline }) }, "swap")),
    result,
  );
  page.setTitle("comparison");
  page.setPlace(text("comparison"));

  const row = (cells, attributes) => element("tr", attributes,
    cells.map((cell, place) => element(place ? "td" : "th", { scope: place ? null : "row", dir: "auto" }, cell)));

  const link = (run, label, task) =>
    element("a", { href: address("attempt", { run, task: task.task_id, attempt: 0 }), "aria-label": `${task.name} in the ${label}` }, label);

  function listTasks({ label, number: count, tasks }) {
    const shown = tasks.map((task) => element("li", {}, text(task.name), " ",
      label.endsWith("baseline") ? null : link(baseline, "baseline", task), " ",
      label.endsWith("candidate") ? null : link(candidate, "candidate", task)));
    const rest = count - tasks.length;
    return element("section", {}, element("h2", {}, `${label}: ${number(count)}`),
      element("ul", { class: "plain" }, shown), rest ? element("p", {}, `and ${number(rest)} more`) : null);
  }

  function draw(found) {
    const bundled = found.is_bundled ? ["A run used the bundled sample, which is not the benchmark."] : [];
    result.replaceChildren(
      ...[...bundled, ...found.warnings].map((each) => element("p", { class: "warning" }, each)),
      ...found.conclusions.map((each, place) => element("p", { class: place ? null : "first" }, each)),
      element("h2", {}, "Figures"),
      makeTable("comparison", ["figure", "baseline", "candidate", "change"], found.figures.map((each) => row(each))),
      ...found.tasks.filter((each) => each.number).map(listTasks),
      ...(found.differences.length ? [element("h2", {}, "Differences of the runs"), makeTable("comparison", ["field", "baseline", "candidate"],
        found.differences.map((each) => row([each.name, each.baseline, each.candidate], { class: each.is_unfair ? "unfair" : null })))] : []),
    );
  }

  return {
    async refresh() {
      try {
        draw(await ask("comparison", { baseline, candidate }, page.signal));
      } catch (error) {
        if (error.status) result.replaceChildren();
        throw error;
      }
      return null;
    },
  };
}
