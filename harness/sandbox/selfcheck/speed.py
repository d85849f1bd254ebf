"""Measure how fast programs run on this machine, by a fixed workload, and keep the factor for later runs."""

from __future__ import annotations

from harness.core.errors import SandboxError, UsageError
from harness.sandbox.backends.base import Backend
from harness.sandbox.limits import MOST_TIME_FACTOR
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.selfcheck.check import RUN_ID, Finding, Level, describe_end
from harness.sandbox.time_factor import compute_factor, store_share

# Contest programs use integers, dictionaries, lists, texts and sorting in this proportion, more or less. The
# median of many short rounds is the speed that a program of some seconds has.
WORKLOAD = """
import time
def work():
    found, words = {}, []
    for number in range(60000):
        found[number % 997] = found.get(number % 997, 0) + number * number % 31
        words.append(str(number))
    words.sort()
    return sum(map(len, words)) + sum(found.values())
rounds = []
for _ in range(25):
    began = time.process_time()
    work()
    rounds.append(time.process_time() - began)
print(sorted(rounds)[12])
"""
# The median on a quiet core of a server of 2023, with the Python of the image.
REFERENCE_SECONDS = 0.0125
MOST_SECONDS = 60.0


async def measure_speed(backend: Backend, runtime: str) -> Finding:
    """Measure the speed of a program in a sandbox, and store the factor that runs extend their limits by."""
    async with Sandbox.open(runtime=runtime, run_id=RUN_ID, backend=backend) as sandbox:
        result = await sandbox.exec(["python3", "-c", WORKLOAD], timeout=MOST_SECONDS)
    try:
        seconds = float(result.stdout.data)
    except ValueError as error:
        raise SandboxError(f"the workload ended before it answered: {describe_end(result)}") from error
    share = seconds / REFERENCE_SECONDS
    factor = compute_factor(share)
    found = f"{share:.2f} times the time of the reference machine"
    try:
        store_share(share)
    except (OSError, UsageError) as error:
        return Finding(Level.WARN, f"{found}; the factor cannot be stored: {error}")
    found += f"; runs multiply the CPU time of programs under tests by {factor:g} (limits.time_factor)"
    if factor < MOST_TIME_FACTOR:
        return Finding(Level.OK, found)
    return Finding(Level.WARN, found, "run harness doctor again when the machine has less to do")
