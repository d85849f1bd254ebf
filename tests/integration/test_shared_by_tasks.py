"""With `isolation: run` no verdict depends on the tasks that were graded before in the same container."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from effort import THOROUGH

import harness
from harness import load_benchmark
from harness.core.types import Status
from harness.sandbox.limits import Isolation, Limits

pytestmark = pytest.mark.timeout(300)

TASKS = 6 if THOROUGH else 2
LIMITS = Limits(cpu_seconds=1, wall_seconds=5, memory_mb=256, processes=32)
# The state that programs of other tasks could have changed, in an error that becomes evidence. Modules come
# first, because the others import some.
OBSERVER = """
import sys
# Written so that the observer shares the network, and with it the container, of the other samples.
modules = sorted(getattr(sys, 'mod' + 'ules'))
import builtins, gc, hashlib, json, os, random, resource, signal, threading, time, warnings

def digest(thing):
    return hashlib.sha256(repr(thing).encode()).hexdigest()[:8]

limits = [resource.getrlimit(kind) for kind in range(16)]
environment = {name: value for name, value in os.environ.items() if not value.startswith("/work/")}
umask = os.umask(0)
state = {
    "modules": digest(modules),
    "builtins": digest(sorted(vars(builtins))),
    "sum": sum([1, 2]),
    "json": json.dumps([1]),
    "draw": random.Random(1).random(),
    "hash": hash("text") % 10**6,
    "set": digest({"a", "b", "c", "d"}),
    "environment": digest(sorted(environment.items())),
    "limits": digest(limits),
    "umask": umask,
    "recursion": sys.getrecursionlimit(),
    "digits": sys.get_int_max_str_digits(),
    "switch": sys.getswitchinterval(),
    # The exact number of frozen objects depends on how fast the guest started.
    "gc": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 0),
    "alarm": repr(signal.getsignal(signal.SIGALRM)),
    "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "threads": threading.active_count(),
    "warnings": digest(warnings.filters),
    "path": digest(sys.path),
    "zone": time.tzname,
    "nice": os.nice(0),
    "policy": (os.sched_getscheduler(0), len(os.sched_getaffinity(0))),
    "here": os.listdir("."),
    "files": [os.listdir("/tmp"), os.listdir("/dev/shm")],
    "descriptors": len(os.listdir("/dev/fd")),
    "groups": os.getgroups(),
}
raise ValueError("saw " + json.dumps(state))
"""
# Each of these is followed by the reference solution, so that most of them pass.
CHANGES = (
    "import builtins\nbuiltins.sum = lambda *items: 7\nbuiltins.left = 1\n",
    "import json, random\njson.dumps = lambda *_: 'changed'\nrandom.seed(7)\n",
    "import gc, sys\nsys.setrecursionlimit(50)\nsys.set_int_max_str_digits(0)\ngc.disable()\n",
    "import os\nos.environ['PYTHONHASHSEED'] = '7'\nos.umask(0o777)\nos.nice(5)\nos.environ['TZ'] = 'X'\n",
    "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nsignal.alarm(60)\n",
    "import numpy, threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n",
    "for folder in ('/tmp', '/dev/shm', '.'):\n    open(folder + '/left', 'w').write('x' * 1000)\n",
    "import os\nif os.fork() == 0:\n    import time\n    time.sleep(60)\n",
    "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\nx = bytearray(1 << 27)\n",
    "import warnings\nwarnings.simplefilter('error')\nimport sys\nsys.path.insert(0, '/tmp')\n",
)
ENDS = (
    "while True: pass\n",
    "import os\nos._exit(0)\n",
    "import os\nos.kill(os.getpid(), 11)\n",
    "x = []\nwhile True: x.append(bytearray(1 << 22))\n",
    "raise SystemExit(0)\n",
    "def wrong(*_): pass\n",
)


def make_samples(folder: Path) -> tuple[list[dict[str, Any]], Path]:
    """Return the rows of some tasks, and a file with samples of them."""
    benchmark = load_benchmark("humaneval", data="bundled")
    rows = [dict(benchmark.rows[task.id]) for task in benchmark.tasks[:TASKS]]
    lines = []
    for place, row in enumerate(rows):
        right = row["prompt"] + row["canonical_solution"]
        changes = [CHANGES[(3 * place + step) % len(CHANGES)] for step in range(3)]
        programs = [
            right,
            f"def {row['entry_point']}(*_): return None\n",
            changes[0] + right,
            OBSERVER,
            changes[1] + right,
            ENDS[2 * place % len(ENDS)],
            ENDS[(2 * place + 1) % len(ENDS)],
            changes[2] + OBSERVER,
        ]
        lines += [json.dumps({"task_id": row["task_id"], "solution": program}) for program in programs]
    path = folder / "samples.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return rows, path


async def grade(
    folder: Path, rows: Sequence[dict[str, Any]], samples: Path, isolation: Isolation, workers: int
) -> dict[tuple[str, int], tuple[Any, ...]]:
    """Return the verdicts on all samples, with their evidence, by task and number."""
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = await harness.run(
        "humaneval",
        data=str(data),
        samples=str(samples),
        isolation=isolation,
        max_concurrent=workers,
        limits=LIMITS,
        output_dir=str(folder),
    )
    return {
        (record.task_id, record.attempt): (
            record.status,
            record.score,
            # The evidence of a timeout has a duration in it.
            None if record.status is Status.TIMEOUT else record.error,
            {name: value for name, value in record.metrics.items() if name != "cpu_seconds"},
        )
        for record in result.attempts
    }


async def test_verdicts_do_not_depend_on_the_tasks_before_in_the_same_container(tmp_path: Path) -> None:
    rows, samples = make_samples(tmp_path)
    alone = await grade(tmp_path, rows, samples, "task", 2)
    observed = [str(verdict[2]) for verdict in alone.values() if "saw " in str(verdict[2])]
    assert len(alone) == 8 * TASKS
    assert len(observed) >= TASKS, "the observers must reach their error"
    mixed = random.Random(5).sample(rows, len(rows))
    more = [(rows, 1), (mixed, 1), (mixed, 2)] if THOROUGH else []
    for order, workers in ((rows[::-1], 1), *more):
        together = await grade(tmp_path, order, samples, "run", workers)
        assert together.keys() == alone.keys()
        different = [
            f"{key}: alone {alone[key]}, together {together[key]}"
            for key in alone
            if alone[key] != together[key]
        ]
        # One text, because pytest shortens what it compares.
        assert not different, "\n".join([f"{workers} at once", *different])


@pytest.mark.parametrize("benchmark", ["mbpp", "livecodebench"])
async def test_references_pass_whether_or_not_tasks_share_containers(tmp_path: Path, benchmark: str) -> None:
    found = {}
    for isolation in ("task", "run"):
        result = await harness.run(
            benchmark,
            data="bundled",
            isolation=isolation,
            output_dir=str(tmp_path),
            seed=1,
            sample_size=None if THOROUGH else 2,
        )
        found[isolation] = {
            record.task_id: (record.status, record.score, record.error) for record in result.attempts
        }
    assert found["task"] == found["run"]
    assert len(found["run"]) > 1
