// One audit: its conclusion, the classes of attacks, each wrong verdict, and its two runs.

const AUDIT_PAUSE = 3000;

function showAudit(main, parameters, page) {
  const key = parameters.audit ?? "";
  const result = element("div", {});
  main.append(element("h1", {}, "Audit"), element("p", { class: "by" }, text(key)), result);
  page.setTitle(key);
  page.setPlace(text(key));

  const describe = (statuses) => Object.entries(statuses).map(([status, count]) => `${words(status)} ${number(count)}`).join(", ");

  function draw(audit) {
    const runs = [element("h2", {}, "Runs"), element("ul", { class: "plain" }, audit.runs.map((run) =>
      element("li", {}, element("a", { href: address("run", { run }), dir: "auto" }, run))))];
    if (audit.conclusion === null) {
      result.replaceChildren(element("p", {}, "This audit has no result yet. Its runs are:"), ...runs);
      return;
    }
    result.replaceChildren(
      element("p", { class: "headline" },
        element("strong", {}, audit.is_sound ? "no forged pass" : "not sound"), " ", element("span", {}, audit.attacks),
        element("br"), element("span", {}, audit.conclusion)),
      element("h2", {}, "Classes"),
      makeTable("comparison", ["class", "attempts", "forged", "how they ended"], audit.classes.map((each) => element("tr", {},
        element("th", { scope: "row" }, each.name), element("td", {}, number(each.attempts)),
        element("td", {}, number(each.forged)), element("td", {}, describe(each.statuses))))),
      ...(audit.number_of_wrong ? [
        element("h2", {}, `Wrong verdicts: ${number(audit.number_of_wrong)}`),
        makeTable("comparison", ["reason", "attack", "task", "status", "error"], audit.wrong.map((each) => element("tr", {},
          element("th", { scope: "row" }, each.reason), element("td", {}, text(each.attack)), element("td", {}, text(each.task)),
          element("td", {}, pill(each.status)), element("td", {}, text(each.error))))),
      ] : []),
      ...runs,
    );
  }

  return {
    async refresh() {
      const audit = await ask("audit", { audit: key }, page.signal);
      draw(audit);
      return audit.conclusion === null ? AUDIT_PAUSE : null;
    },
  };
}
