// Ask for values: of the server, or of the data that a page without a server has in itself.

class ViewError extends Error {
  constructor(message, hint, status) {
    super(message);
    this.hint = hint;
    this.status = status;
  }
}

// null on a page that a server has sent.
const stored = JSON.parse(document.querySelector("#data").textContent || "null");
// Numbers in names are compared as numbers, so that task 9 comes before task 10.
const collator = new Intl.Collator("en", { numeric: true });
const searched = new Map();

const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a, b));

// The words of a row that a search looks through.
function readWords(row) {
  const { values, blocks } = row;
  const texts = values ? [...values.texts, ...blocks].map((each) => each.text) : [row.benchmark, row.agent, row.model, row.state];
  return [row.name, `#${row.attempt}`, row.category, row.status, words(row.status ?? ""), row.error, ...texts].join(" ").toLowerCase();
}

// A range of rows that have all words, in the order of a column. Rows without a value come last.
function select(rows, { search = "", sort = "", descending = "0", first = 0, number: most }, read) {
  const wanted = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = rows.filter((row) => {
    if (wanted.length && !searched.has(row)) searched.set(row, readWords(row));
    return wanted.every((word) => searched.get(row).includes(word));
  });
  const sign = descending === "1" ? -1 : 1;
  const missing = (row) => (read(row, sort) ?? null) === null;
  if (sort) found.sort((a, b) => missing(a) - missing(b) || (missing(a) ? 0 : sign * compare(read(a, sort), read(b, sort))));
  return { found: found.length, all: rows.length, first, rows: found.slice(first, first + most) };
}

function findStored({ task, attempt }) {
  const found = stored.attempts?.find((row) => row.task_id === task && String(row.attempt) === String(attempt));
  if (!found) throw new ViewError("This page does not have this attempt.", "attempts.jsonl of the run has it", 404);
  return found;
}

// The answers of a page that has its data in itself.
const ANSWERS = {
  run: () => stored.run,
  charts: () => stored.charts,
  manifest: () => stored.manifest,
  matrix: () => stored.matrix,
  runs(query) {
    if (!stored.runs) return undefined;
    const { rows, ...counts } = select(stored.runs, query, (row, sort) => row.sort[sort]);
    return { ...counts, runs: rows, place: "", audits: [] };
  },
  attempts({ task, status, category, ...query }) {
    if (!stored.attempts) return undefined;
    const rows = stored.attempts.filter((row) => (task === undefined || row.task_id === task)
      && (!status || row.status === status) && (category === undefined || row.category === category));
    // The order of the page has the unresolved attempts first.
    if (query.sort === "ended") query.sort = "";
    else rows.sort((a, b) => collator.compare(a.task_id, b.task_id) || a.attempt - b.attempt);
    if (query.sort === "task") {
      if (query.descending === "1") rows.reverse();
      query.sort = "";
    }
    const found = select(rows, query, (row, by) => row[by === "duration" ? "duration_seconds" : by]);
    return { ...found, all: stored.attempts.length, is_complete: true };
  },
  attempt: (parameters) => ({ ...findStored(parameters), ...findStored(parameters).values }),
  transcript: (parameters) => ({
    generation: 0, first: parameters.first, has_more: false, blocks: parameters.first ? [] : findStored(parameters).blocks,
  }),
};

async function ask(name, parameters, signal) {
  if (stored) {
    const found = Object.hasOwn(ANSWERS, name) ? ANSWERS[name](parameters) : undefined;
    if (found === undefined) throw new ViewError("This page does not have this part.", "harness view has it", 404);
    return found;
  }
  let response;
  try {
    response = await fetch(`api/${name}?${new URLSearchParams(parameters)}`, { signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ViewError("The viewer no longer answers.", "start it again: harness view", 0);
  }
  if (response.status === 401) {
    throw new ViewError("The viewer was started again.", "open the address that it has printed", 401);
  }
  const values = await response.json();
  if (!response.ok) throw new ViewError(values.error, values.hint, response.status);
  return values;
}
