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

async function ask(name, parameters, signal) {
  if (stored) return ANSWERS[name](parameters);
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
