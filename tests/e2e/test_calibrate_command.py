"""`harness calibrate`, and a run of task folders at the levels that it has found."""

from __future__ import annotations

from pathlib import Path

from docker import APIClient
from e2e.command_line import Harness
from sealed_tasks import build_image, write_task

SOLUTION = "#!/bin/sh\necho 42 > /app/answer.txt\n"


def test_levels_are_found_and_shown(harness: Harness, client: APIClient, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    kept = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    image = build_image(client)
    write_task(tasks / "proven", image, solution=SOLUTION)
    write_task(tasks / "unknown", image)
    calibrated = harness("calibrate", tasks, "--network", "none", env=kept)
    assert "proven: work, proven by the reference" in calibrated.stdout, calibrated
    assert "unknown: work, no reference" in calibrated.stdout, calibrated
    assert "sealed    2 work" in calibrated.stdout, calibrated
    assert calibrated.returncode == 0, calibrated
    command = ("run", "-b", tasks, "-t", "proven", "--agent", "oracle", "--network", "none")
    solved = harness(*command, env=kept)
    assert "100.0 % resolved" in solved.stdout, solved
