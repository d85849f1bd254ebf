"""The `db` environment: a SQLite database that agents query and change by SQL."""

from __future__ import annotations

from harness.environments.db.environment import TEXT_FORM, TURNS, open_environment
from harness.environments.db.grader import GRADERS
from harness.environments.spec import EnvironmentSpec
from harness.sandbox.limits import Limits

SPEC = EnvironmentSpec(
    name="db",
    image="db",
    description="a SQLite database, and the tool `sql`; no network",
    # SQL needs no sockets.
    grading_seccomp="strict",
    # Files in the work folder use memory: the database, and the copy that the grader reads.
    limits=Limits(disk_mb=128),
    # The one that runs the reference's SQL.
    nested_sandboxes=1,
    turns=TURNS,
    open_environment=open_environment,
    text_protocol=TEXT_FORM,
    graders=GRADERS,
)
