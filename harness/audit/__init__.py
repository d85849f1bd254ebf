"""Attacks on graders. No attack may get a pass (`harness audit`)."""
