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
        "test_a_stream_can_be_opened_by_its_name": "gVisor's pipes cannot be handed to the job's user",
    },
}
