"""The `repository` environment: a git repository in a machine of its image, and the patches of it."""

from __future__ import annotations

from harness.environments.container.machine import DEFAULT_LIMITS, GUEST_IMAGE
from harness.environments.repository.environment import open_repository
from harness.environments.repository.grader import GRADERS, MOST_RUNS
from harness.environments.spec import EnvironmentSpec

SPEC = EnvironmentSpec(
    name="repository",
    image=GUEST_IMAGE,
    description="a git repository, whose patch its tests judge",
    timeout_seconds=600,
    limits=DEFAULT_LIMITS.model_copy(update={"memory_mb": 4096}),
    # The machine where the tests run.
    nested_sandboxes=1,
    open_environment=open_repository,
    is_workspace=True,
    runs_task_images=True,
    tasks_set_timeouts=True,
    test_runs=MOST_RUNS,
    # The tests judge the files that an agent left when its time was over.
    scores_progress=True,
    graders=GRADERS,
)
