"""Sandboxes that an OCI runtime starts without an engine: no daemon, no registry."""
