"""The `container` environment: a machine made from the image of a task folder."""

from __future__ import annotations

from harness.environments.container.calibration import open_sealed
from harness.environments.container.environment import find_limits
from harness.environments.container.grader import GRADERS
from harness.environments.container.machine import DEFAULT_LIMITS, GUEST_IMAGE
from harness.environments.spec import EnvironmentSpec

SPEC = EnvironmentSpec(
    name="container",
    image=GUEST_IMAGE,
    description="a machine made from the image of a task folder",
    timeout_seconds=600,
    limits=DEFAULT_LIMITS,
    find_limits=find_limits,
    # The machine where the tests run.
    nested_sandboxes=1,
    open_environment=open_sealed,
    is_workspace=True,
    runs_task_images=True,
    reads_text=False,
    tasks_set_timeouts=True,
    # The tests judge what an agent left when its time was over.
    scores_progress=True,
    graders=GRADERS,
)
