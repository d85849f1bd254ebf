// A transcript for reading: an article for each turn, calls with their results, an outline and a search.

const FOLDED_LINES = 24;
const FOLDED_CHARACTERS = 2400;
const ROLES = { prompt: "task", message: "message", reply: "assistant", reasoning: "reasoning", output: "submission" };

// A text with its marks. A long one is folded until a button opens it.
function makeText(each, attributes) {
  const { nodes, language, left_out: left = 0, elsewhere = 0 } = each;
  const isProse = nodes !== undefined;
  const made = element(isProse ? "div" : "pre", { dir: "auto", ...attributes, class: isProse ? "prose" : null },
    isProse ? marked(nodes) : colour(each.text, language));
  const raw = isProse ? element("pre", { dir: "auto", class: "raw" }, each.text) : null;
  const lines = each.text.split("\n").length;
  const parts = [made, raw];
  if (lines > FOLDED_LINES || each.text.length > FOLDED_CHARACTERS) {
    const box = element("div", { class: "folded" }, made, raw);
    const label = lines > FOLDED_LINES ? count(lines, "line") : count(each.text.length, "character");
    const button = element("button", { type: "button", class: "unfold", "aria-expanded": "false", click: () => {
      const isFolded = box.classList.toggle("folded");
      button.setAttribute("aria-expanded", String(!isFolded));
      button.textContent = isFolded ? `show all ${label}` : "fold";
    } }, `show all ${label}`);
    parts.splice(0, 2, box, button);
  }
  const cut = left + elsewhere;
  if (cut) parts.push(element("small", {}, `${number(cut)} more characters are in the run folder`));
  return parts;
}

class Transcript {
  constructor() {
    this.search = element("input", { type: "search", autocomplete: "off", maxlength: "200", input: () => this.find(), keydown: (event) => {
      if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
    } });
    this.found = element("output", { "aria-live": "polite" });
    this.source = element("button", { type: "button", "aria-pressed": "false", click: () => this.showSource() }, "source");
    this.entries = element("div", { class: "transcript" });
    this.outline = element("ol", {});
    const outline = element("details", { class: "outline", open: window.innerWidth > 1080 },
      element("summary", {}, "Outline"), element("nav", { "aria-label": "Outline" }, this.outline));
    this.section = element("section", { class: "reading" }, element("h2", {}, "Transcript"),
      element("div", { class: "tools" }, element("label", {}, "find in it ", this.search), this.source, this.found),
      element("div", { class: "columns" }, outline, this.entries));
    this.clear();
  }

  clear() {
    this.article = this.call = null;
    this.calls = [];
    this.matches = [];
    this.entries.replaceChildren();
    this.outline.replaceChildren();
  }

  add(blocks) {
    for (const block of blocks) this.addBlock({ name: "", id: "", label: "", ...block });
    if (blocks.length && this.search.value) this.find();
    const isEmpty = this.entries.childElementCount === 0;
    this.section.classList.toggle("empty", isEmpty);
    this.found.textContent = isEmpty ? "no entry yet" : this.search.value ? this.found.textContent : "";
  }

  addBlock(block) {
    if (block.role === "call") this.addCall(block);
    else if (block.role === "argument" && this.call) this.addArgument(block, block.label);
    else if (block.role === "result" && this.addResult(block)) return;
    else if (["message", "reply", "reasoning", "result"].includes(block.role)) this.addMessage(block);
    else if (["prompt", "output", "error", "request"].includes(block.role) || (block.role === "note" && block.begins_entry)) {
      this.begin(block);
      this.addPart(this.article, block, "");
    } else this.addPart(this.article ?? this.begin(block), block, block.heading);
  }

  // Begin an article, which the outline lists.
  begin(block) {
    const kind = block.role === "call" ? "turn" : block.role;
    const [, label, rest] = /^\[([^\]]*)\] *(.*)$/s.exec(block.heading) ?? [null, ROLES[block.role] ?? block.heading, ""];
    const id = `part-${this.entries.childElementCount + 1}`;
    const title = block.role === "output" ? ROLES.output : block.role === "call" ? block.name || label : label;
    const remark = block.role === "call" ? (/\(([^()]*)\)$/.exec(rest)?.[1] ?? "") : rest.replace(/^\((.*)\)$/s, "$1");
    const calls = element("small", {});
    this.article = element("article", { class: `entry ${kind}`, id, tabindex: "-1", "data-key": id },
      element("h3", { dir: "auto", class: block.is_warning ? "warned" : null }, title,
        remark ? [" ", element("small", {}, remark)] : []));
    this.entries.append(this.article);
    this.outline.append(element("li", { class: kind }, element("button", { type: "button", dir: "auto", click: () => this.goTo(id) }, title, block.role === "call" ? null : calls)));
    this.named = calls;
    return this.article;
  }

  goTo(id) {
    const article = this.entries.querySelector(`#${id}`);
    article.scrollIntoView({ block: "start" });
    article.focus({ preventScroll: true });
  }

  addPart(parent, block, heading) {
    const title = heading.replace(/^\[(.*)\]$|:$/s, "$1");
    if (title) parent.append(element("h4", { dir: "auto", class: block.is_warning ? "warned" : null }, title));
    if (block.text) parent.append(...makeText(block).filter(Boolean));
  }

  addMessage(block) {
    const { role, name } = block;
    const label = role === "message" || role === "reply" ? name || ROLES[role] : ROLES[role] ?? "tool";
    const parent = this.article ?? this.begin(block);
    const kind = role === "reply" ? "assistant" : role === "reasoning" ? "reasoning" : label;
    const body = makeText(block).filter(Boolean);
    const isFolded = role === "reasoning" || (role === "message" && name === "system");
    parent.append(element("div", { class: `said ${["assistant", "reasoning", "system", "user", "tool"].includes(kind) ? kind : "user"}` },
      isFolded ? element("details", {}, element("summary", {}, label), body)
        : [element("h4", { dir: "auto" }, label === "reply" ? "assistant" : label), body]));
  }

  // A call that a model wrote and the call that was made are one.
  addCall(block) {
    const made = !block.arguments && !block.text;
    const open = made ? this.calls.find((call) => call.name === block.name && !call.isMade) : undefined;
    const took = /\(([^()]*)\)$/.exec(block.heading)?.[1] ?? "";
    if (open) {
      open.isMade = true;
      open.arguments.replaceChildren();
      open.title.append(element("small", {}, ` ${took}`));
      this.call = open;
      return;
    }
    const isOfModel = !made;
    if (!this.article || (made && !this.article.classList.contains("request"))) this.begin(block);
    const title = element("h4", { dir: "auto", class: block.is_warning ? "warned" : null }, block.name || "call", element("small", {}, ` ${took}`));
    this.call = { name: block.name, id: block.id, isMade: !isOfModel, title, arguments: element("div", { class: "arguments" }), results: element("div", {}) };
    this.article.append(element("div", { class: "call" }, title, this.call.arguments, this.call.results));
    for (const each of block.arguments ?? []) this.addArgument(each, block.arguments.length > 1 ? each.name : "");
    if (block.text) this.addArgument(block, "");
    if (isOfModel) this.calls.push(this.call);
    this.named.append(`${this.named.textContent ? ", " : " "}${block.name}`);
  }

  addArgument(each, label) {
    const isShort = label && each.text.length < 80 && !each.text.includes("\n");
    this.call.arguments.append(isShort
      ? element("p", { class: "short" }, element("small", { dir: "auto" }, label), " ", element("code", { dir: "auto" }, each.text))
      : element("div", {}, label ? element("h4", { dir: "auto" }, label) : null, makeText(each)));
  }

  // The result of a call is shown with it. Returns whether there is such a call.
  addResult(block) {
    const call = block.id ? this.calls.find((each) => each.id === block.id) : this.call;
    if (!call) return false;
    if (!block.id) this.call = null;
    if (call.results.childElementCount === 0) {
      call.results.append(element("h4", { class: block.is_warning ? "warned" : null }, "result"),
        ...(block.text ? makeText(block).filter(Boolean) : [element("small", {}, "no output")]));
    }
    return true;
  }

  showSource() {
    const isOn = this.entries.classList.toggle("source");
    this.source.setAttribute("aria-pressed", String(isOn));
  }

  // Find a text in all parts, also in those that are folded.
  find() {
    const wanted = this.search.value.toLowerCase();
    this.matches = wanted ? [...this.entries.children].filter((each) => each.textContent.toLowerCase().includes(wanted)) : [];
    this.at = -1;
    this.found.textContent = wanted ? `${count(this.matches.length, "part")} of ${number(this.entries.childElementCount)}` : "";
    for (const [place, each] of [...this.entries.children].entries()) {
      const isOut = wanted !== "" && !this.matches.includes(each);
      each.hidden = this.outline.children[place].hidden = isOut;
    }
    this.highlight(wanted);
  }

  highlight(wanted) {
    if (typeof Highlight === "undefined") return;
    CSS.highlights.delete("found");
    const ranges = [];
    for (const match of this.matches) {
      const walker = document.createTreeWalker(match, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node && ranges.length < 2000; node = walker.nextNode()) {
        const lower = node.data.toLowerCase();
        for (let at = lower.indexOf(wanted); at !== -1 && at + wanted.length <= node.data.length; at = lower.indexOf(wanted, at + wanted.length)) {
          const range = new Range();
          range.setStart(node, at);
          range.setEnd(node, at + wanted.length);
          ranges.push(range);
          for (let box = node.parentElement; box && box !== match; box = box.parentElement) {
            if (box.localName === "details") box.open = true;
            if (box.classList.contains("folded")) box.nextElementSibling.click();
          }
        }
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  }

  // Go to the next or previous part: of those with the text that is searched for, or of all.
  step(by) {
    const parts = this.matches.length ? this.matches : [...this.entries.children];
    const at = parts.indexOf(document.activeElement.closest?.(".entry") ?? null);
    this.at = at === -1 ? (this.at ?? -1) : at;
    const next = parts[(this.at + by + parts.length) % parts.length];
    this.at = parts.indexOf(next);
    if (document.activeElement === this.search) next?.scrollIntoView({ block: "start" });
    else if (next) this.goTo(next.id);
  }
}
