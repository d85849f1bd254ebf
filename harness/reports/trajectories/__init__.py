"""The attempts of a run as conversations. Every export is written from them."""
