"""The images that tasks need: those of their environments, and those of shared graders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.benchmarks.benchmark import Benchmark
from harness.core.types import Task
from harness.environments import environment_spec, grader_of
from harness.environments.grader import SandboxGrader
from harness.runs.workspaces import Workspaces


def list_shared_images(benchmark: Benchmark, tasks: Iterable[Task]) -> list[str]:
    """Return the images of the graders that grade many tasks in one sandbox, or in one of another image."""
    targets = [benchmark.references[task.id].target for task in tasks]
    graders = [(each, target) for target in targets if isinstance(each := grader_of(target), SandboxGrader)]
    images = {each.image or each.choose_image(target) for each, target in graders}
    return sorted(image for image in images if image)


def list_images(
    benchmark: Benchmark, tasks: Iterable[Task], workspaces: Sequence[Workspaces] = ()
) -> list[str]:
    """Return every image that the tasks and the programs in `workspaces` need.

    Tasks that need none need no engine either.
    """
    chosen = list(tasks)
    specs = [environment_spec(name) for name in {task.environment for task in chosen}]
    own = {spec.image for spec in specs if spec.image is not None}
    shared = list_shared_images(benchmark, chosen)
    programs = {image for each in workspaces for image in each.list_images()}
    return sorted(own | {*shared} | programs)
