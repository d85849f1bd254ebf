"""Check whether this machine can be trusted: its engine, and sandboxes on it."""

from __future__ import annotations

from harness.sandbox.machine.checks.diagnosis import diagnose
from harness.sandbox.selfcheck.check import Check, Level

__all__ = ["Check", "Level", "diagnose"]
