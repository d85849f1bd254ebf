"""The benchmarks with their bundled samples, loaded once for all test files of a worker."""

from __future__ import annotations

from functools import cache

from harness.benchmarks import Benchmark, load_benchmark


@cache
def load_bundled(name: str) -> Benchmark:
    """Return a benchmark that no test may change."""
    return load_benchmark(name, data="bundled")
