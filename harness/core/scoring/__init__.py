"""Pure rules on text and numbers. Nothing here starts a sandbox."""
