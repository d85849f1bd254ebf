"""Sandboxes that clients hold: commands, files, terminals, and the sessions that keep them."""
