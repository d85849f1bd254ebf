"""MCP endpoints, whose sessions hold a sandbox each."""
