"""LiveCodeBench (Jain et al. 2024, arXiv 2403.07974): its releases, rows and answers, and its scenarios."""

from __future__ import annotations

from harness.benchmarks.livecodebench import generation, prediction

BENCHMARKS = (*generation.BENCHMARKS, *prediction.BENCHMARKS)
