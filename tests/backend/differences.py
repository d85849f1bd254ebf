"""Where a backend does less than the suite asks for: the test's name, and why.

The suite expects these tests to fail there. One that passes fails the suite: then its line goes.
"""

from __future__ import annotations

from collections.abc import Mapping

# Debian 12's gVisor, release 20221219, with its cgroup.
DIFFERENCES: Mapping[str, Mapping[str, str]] = {
    "runc": {},
    "runsc": {
        "test_the_number_of_files_is_bounded": "gVisor's tmpfs knows no nr_inodes: memory bounds it alone",
        "test_the_environment_of_the_first_process_is_closed_to_jobs": (
            "gVisor shows every process's environment to all; there is no secret in it, and memory is closed"
        ),
        "test_a_job_cannot_slow_down_the_first_process": (
            "gVisor lets everyone set every process's nice value, and schedules nothing by it"
        ),
        "test_a_job_cannot_make_a_device": "gVisor makes the node; it opens none, for it has no such device",
        "test_a_stream_can_be_opened_by_its_name": "gVisor's pipes cannot be handed to the job's user",
    },
}
