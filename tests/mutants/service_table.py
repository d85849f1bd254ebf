"""The mutants of the service."""

from __future__ import annotations

ACCESS, BUDGETS = "tests/unit/test_service_access.py", "tests/unit/test_service_session_budget.py"
BUDGET, SESSIONS = "harness/service/sandboxes/shares.py", "harness/service/sandboxes/sessions.py"
BODIES = "tests/unit/test_service_body.py"
SANDBOXES = "tests/integration/test_service_sandboxes.py"
TERMINALS = "tests/integration/test_service_terminals.py"

# The file, the old text, the new text and the test.
SERVICE = (
    (
        "harness/service/operations.py",
        'origin.partition("://")[2] != headers.get("host")',
        'not origin.partition("://")[2].startswith(headers["host"])',
        f"{ACCESS}::test_a_page_of_another_site_opens_no_web_socket",
    ),
    (
        "harness/service/app.py",
        "                require_own_origin(headers)\n",
        "                pass\n",
        f"{TERMINALS}::test_a_stranger_gets_no_terminal",
    ),
    (
        "harness/service/operations.py",
        "values.structures > self._limits.body_structures",
        "False",
        f"{BODIES}::test_a_body_of_too_many_structures_is_refused_before_it_has_arrived",
    ),
    (
        BUDGET,
        "self._used_mb + memory_mb > self._memory_mb",
        "self._used_mb > self._memory_mb",
        f"{BUDGETS}::test_the_memory_of_all_clients_is_bounded",
    ),
    (
        BUDGET,
        "            self._used_mb -= memory_mb\n",
        "            pass\n",
        f"{BUDGETS}::test_an_ended_session_frees_its_place_and_memory",
    ),
    (
        SESSIONS,
        "    if name in list_folders() and environment_spec(name).image is not None:\n        return\n",
        "    return\n",
        f"{SANDBOXES}::test_a_sandbox_that_may_not_be_opened_is_refused",
    ),
)
