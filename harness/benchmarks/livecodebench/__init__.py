"""LiveCodeBench (Jain et al. 2024, arXiv 2403.07974): its releases, rows and answers, and its scenarios.

Every module of this folder that has `BENCHMARKS` declares one or more scenarios.
"""

from __future__ import annotations

from harness.core.discovery import list_declared

BENCHMARKS = tuple(list_declared(__name__, "BENCHMARKS"))
