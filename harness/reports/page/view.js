// Show the page that the address names, refresh it while its run is under way, and handle the keys.

const PAGES = {
  runs: showRuns, matrix: showMatrix, run: showRun, task: showTask, attempt: showAttempt, compare: showComparison, audit: showAudit,
};
const AFTER_FAULT = 5000;
const main = document.querySelector("#main");
const problem = document.querySelector("#problem");
const place = document.querySelector("#place");
const keys = document.querySelector("#keys");
let current = null;
// A page without a list leads to the page that has one, if there is any.
const home = document.querySelector("#home");
if (stored && !stored.runs) {
  home.hidden = !stored.home;
  home.href = stored.home || "#/run";
}

// The cookie has taken over from the token, which must not stay in the address or the history.
if (location.search && !stored) history.replaceState(null, "", location.pathname + location.hash);

function report(error) {
  problem.hidden = error === null;
  problem.replaceChildren(...(error === null ? [] : [
    element("strong", {}, error.message), error.hint ? ` ${error.hint}` : "",
  ]));
}

// A page is made once, and refreshed as often as it asks for.
class Visit {
  constructor(page, parameters) {
    this.stopping = new AbortController();
    this.timer = 0;
    this.page = page(main, parameters, {
      signal: this.stopping.signal,
      refresh: () => this.refresh(),
      setPlace: (...parts) => place.replaceChildren(...parts.flatMap((part, at) => (at || !home.hidden ? [" / ", part] : [part]))),
      setTitle: (title) => { document.title = `${title} - harness`; },
    });
  }

  // Only one request of a page is under way. One that is asked for meanwhile follows it.
  async refresh() {
    clearTimeout(this.timer);
    this.isWanted = true;
    if (this.isBusy) return;
    this.isBusy = true;
    let pause = null;
    try {
      while (this.isWanted && !this.stopping.signal.aborted) {
        this.isWanted = false;
        pause = await this.page.refresh();
      }
      if (!this.stopping.signal.aborted) report(null);
    } catch (error) {
      if (this.stopping.signal.aborted) return;
      report(error);
      // A run that is gone does not come back, but a viewer may.
      pause = error.status === 404 || error.status === 410 || error.status === 400 ? null : AFTER_FAULT;
      if (error.status === undefined) throw error;
    } finally {
      this.isBusy = false;
      main.setAttribute("aria-busy", "false");
      // Nothing changes on a page that has its data in itself.
      if (pause !== null && !stored && !this.stopping.signal.aborted) {
        this.timer = setTimeout(() => (document.hidden ? this.wait() : this.refresh()), pause);
      }
    }
  }

  // A page that nobody sees asks for nothing.
  wait() {
    document.addEventListener("visibilitychange", () => this.refresh(), {
      once: true, signal: this.stopping.signal,
    });
  }

  stop() {
    clearTimeout(this.timer);
    this.stopping.abort();
  }
}

function go() {
  const [name, query] = location.hash.replace(/^#\//, "").split("?", 2);
  current?.stop();
  main.replaceChildren();
  place.replaceChildren();
  main.setAttribute("aria-busy", "true");
  window.scrollTo(0, 0);
  current = new Visit(PAGES[name] ?? (stored && !stored.runs ? showRun : showRuns), Object.fromEntries(new URLSearchParams(query)));
  main.focus({ preventScroll: true });
  current.refresh();
}

function moveFocus(step) {
  const rows = [...main.querySelectorAll("[data-key]")].filter((row) => row.offsetParent !== null);
  const at = rows.indexOf(document.activeElement);
  const next = at === -1 ? (step > 0 ? 0 : rows.length - 1) : at + step;
  rows[next]?.focus();
}

const KEYS = {
  "/": () => main.querySelector("input[type=search]")?.focus(),
  "?": () => keys.showModal(),
  j: () => (current?.page.move ?? moveFocus)(1),
  k: () => (current?.page.move ?? moveFocus)(-1),
  n: () => (current?.page.turn ? current.page.turn(1) : main.querySelector("#next-page:not([disabled])")?.click()),
  p: () => (current?.page.turn ? current.page.turn(-1) : main.querySelector("#previous-page:not([disabled])")?.click()),
  u: () => (current?.page.up ? location.assign(current.page.up) : home.click()),
};

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input:not([type=checkbox]), select, textarea, dialog");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const act = KEYS[event.key];
  if (act === undefined) return;
  event.preventDefault();
  act();
});
document.querySelector("#show-keys").addEventListener("click", () => keys.showModal());
window.addEventListener("hashchange", go);
go();
