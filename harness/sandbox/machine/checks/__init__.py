"""Check whether this machine can be trusted: its engine, and sandboxes on it."""
