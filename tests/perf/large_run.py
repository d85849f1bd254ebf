"""Measure the commands that read a run of a million attempts, and its pages in a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from command_cost import measure_command
from command_start import COMMAND
from figure import CannotMeasure, Figure, Measurement, Reading
from many_attempts import read_peak
from session import Session
from viewed_attempts import NUMBER, TASKS, write_run

from harness.runs.store import REPORT, RunStore

LIST = Figure("harness runs with 1,000,000 attempts, processor time", "s", mark=5, judged="ours")
TABLE = Figure("harness report of them as a table, processor time", "s", mark=60, judged="ours")
TABLE_MEMORY = Figure("memory of that table", "MiB", mark=300, judged="ours")
ONE = Figure("harness show of one of them, processor time", "s", mark=5, judged="ours")
FORMATS = {
    name: Figure(f"harness report of them as {name}, processor time", "s", mark=mark, judged="ours")
    for name, mark in (("html", 120), ("csv", 120), ("junit", 120), ("parquet", 120))
}
REPORT_OPENS = Figure("their report.html in Chromium, until it is painted", "s", mark=3, judged="ours")
VIEWER_OPENS = Figure("their page of the viewer in Chromium, with the first rows", "s", mark=3, judged="ours")
RESUME = Figure("a resumed run reads them, processor time", "s", mark=60, judged="ours")
RESUME_MEMORY = Figure("memory of the resumed run then", "MiB", mark=400, judged="ours")
_RUN = "run"
_SHOWN = f"task/{TASKS - 1}"
_ROWS = ".attempts-table tbody a"
# The browser paints in the frame after the one in which the page is complete.
_PAINTED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def take(session: Session) -> Iterator[Reading]:
    """Yield the readings of one run folder. The costs are those of whole commands."""
    if session.size.is_quick:
        raise CannotMeasure("--quick leaves it out")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / _RUN
        write_run(folder, NUMBER)
        yield Reading(LIST, [measure_command("runs", "--output-dir", place).processor_seconds])
        yield Reading(ONE, [measure_command("show", folder, _SHOWN).processor_seconds])
        # Two at a time, because processor time counts and a core would idle.
        with ThreadPoolExecutor(2) as pool:
            table = pool.submit(measure_command, "report", folder, "--format", "table")
            files = {
                name: pool.submit(
                    measure_command,
                    "report",
                    folder,
                    "--format",
                    name,
                    "-o",
                    Path(place) / f"attempts.{name}",
                )
                for name in FORMATS
            }
            cost = table.result()
            yield Reading(TABLE, [cost.processor_seconds])
            yield Reading(TABLE_MEMORY, [cost.mebibytes])
            for name, figure in FORMATS.items():
                yield Reading(figure, [files[name].result().processor_seconds])
        shutil.move(Path(place) / "attempts.html", folder / REPORT)
        yield from _open_pages(folder)
        done = subprocess.run(
            [sys.executable, __file__, folder, str(NUMBER)], stdout=subprocess.PIPE, check=True
        )
        seconds, mebibytes = json.loads(done.stdout)
        yield Reading(RESUME, [seconds], note="without the tasks, whose number depends on the benchmark")
        yield Reading(RESUME_MEMORY, [mebibytes])


def _open_pages(folder: Path) -> Iterator[Reading]:
    """Yield the wall times until Chromium shows the report and the viewer's page of the run."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        reason = "needs a browser: apt-get install chromium"
        yield Reading(REPORT_OPENS, unmeasured=reason)
        yield Reading(VIEWER_OPENS, unmeasured=reason)
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, _serve(folder.parent) as address:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        try:
            page = opened.new_page()
            began = time.perf_counter()
            page.goto((folder / REPORT).as_uri())
            page.evaluate(_PAINTED)
            yield Reading(REPORT_OPENS, [time.perf_counter() - began])
            # The address holds the key of the viewer, which the browser then keeps.
            page.goto(address)
            began = time.perf_counter()
            page.goto(f"{address.partition('?')[0]}#/run?run={_RUN}")
            page.wait_for_selector(_ROWS)
            yield Reading(VIEWER_OPENS, [time.perf_counter() - began], note="the index is not complete then")
        finally:
            opened.close()


@contextmanager
def _serve(output_dir: Path) -> Iterator[str]:
    """Yield the address of a viewer in another process."""
    command = [str(COMMAND), "view", "--output-dir", str(output_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as viewer:
        try:
            assert viewer.stdout is not None
            yield viewer.stdout.readline().strip()
        finally:
            viewer.terminate()


def _resume(folder: Path, number: int) -> list[float]:
    """Return the processor time in which a store reads its records, and the most memory of this process."""
    began = time.process_time()
    store = RunStore(folder)
    finished = sum(map(store.is_finished, store.results))
    store.close()
    if finished != number:
        raise SystemExit("the store is not whole: these figures mean nothing")
    return [time.process_time() - began, read_peak()]


MEASUREMENTS = (
    Measurement(
        "large-run",
        (
            *(LIST, ONE, TABLE, TABLE_MEMORY, *FORMATS.values()),
            *(REPORT_OPENS, VIEWER_OPENS, RESUME, RESUME_MEMORY),
        ),
        take,
    ),
)

if __name__ == "__main__":
    print(json.dumps(_resume(Path(sys.argv[1]), int(sys.argv[2]))))
