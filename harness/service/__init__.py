"""`harness serve`: verdicts and sandboxes over HTTP, for clients on this machine and elsewhere."""
