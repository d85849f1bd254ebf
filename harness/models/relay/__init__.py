"""The sealed relay: programs of an agent reach a model and tools through it, without a network and a key."""
