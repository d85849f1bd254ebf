"""The mutants. Each breaks one line of the code, and one named test must fail for it.

To add one, add a line to the list of its subject. `old` must be in the file exactly once, so quote more of
the line, or the line before, if it is not. The test is named by its function, and all its parameters run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from relay_table import RELAY
from service_table import SERVICE
from viewer_table import VIEWER


@dataclass(frozen=True, slots=True)
class Mutant:
    """A replacement of `old` by `new` in a file, and the id of the test that must then fail."""

    file: str
    old: str
    new: str
    test: str


SPEC, SECCOMP = "harness/sandbox/backends/docker/spec.py", "harness/sandbox/backends/seccomp"
HARDENING = "harness/sandbox/backends/hardening.py"
WORKING_TIME, POOL = "harness/runs/attempt_parts.py", "harness/sandbox/pool.py"
GRADING = "harness/environments/grading.py"
SANDBOX, CALLS = "harness/sandbox/sandbox.py", "harness/sandbox/guest_calls.py"
RESULTS = "harness/environments/python/client.py"
JUDGES = "harness/environments/os/grader.py"
GUEST = "harness/sandbox/guest"
PYTHON_CLIENT = "harness/environments/python/client.py"
PYTHON_GUEST = "harness/environments/python/guest"
UNIT = "tests/unit"
HOST_PROGRAMS = "tests/integration/test_host_programs.py"
CONFIG = f"{UNIT}/test_container_config.py::test_the_configuration_of_a_container_is_exactly_this"
PROFILE = f"{UNIT}/test_seccomp_profile.py"
LEASES = f"{UNIT}/test_grading_leases.py"
POOLS = f"{UNIT}/test_sandbox_pool.py"
DOUBTFUL = f"{POOLS}::test_a_sandbox_in_doubt_is_destroyed"
DOUBT = f"{UNIT}/test_sandbox_doubt.py"
PROGRAMS = f"{UNIT}/test_grading_programs.py"
COMPARISONS = f"{UNIT}/test_comparison.py"
EXIT_CODES = f"{UNIT}/test_exit_codes.py"
PROCESSES = f"{UNIT}/test_guest_processes.py"
JOBS = f"{UNIT}/test_guest_job_limits.py"
LENDING = f"{UNIT}/test_guest_lending.py"
OUTAGES = f"{UNIT}/test_execute.py"
SHELL_GRADING = f"{UNIT}/test_shell_grading.py"

# Pairs of (old, new) in spec.py. The test that compares whole configurations notices each of them.
HARDENED = (
    ('"FSETID", "NET_BIND_SERVICE")', '"FSETID", "NET_BIND_SERVICE", "SYS_ADMIN")'),
    ("        *MASKED_PATHS,\n", ""),
    ("*(MASKED_FROM_ROOT if spec.root_agent else ()),", ""),
    ("*(() if spec.terminals else (TERMINALS,)),", ""),
    ("paths + list(READ_ONLY_FOR_ROOT if spec.root_agent else ())", "paths"),
    ("nosuid,nodev", "nosuid"),
    ("mode=1777,noexec", "mode=1777,exec"),
)
CONTAINERS = (
    ('cap_drop=["ALL"]', "cap_drop=[]"),
    ('"no-new-privileges:true", ', ""),
    ('network_mode="none"', 'network_mode="bridge"'),
    ("memswap_limit=memory", "memswap_limit=-1"),
    ("read_only=not spec.writable_root", "read_only=False"),
    ('LogConfig(type="none")', 'LogConfig(type="json-file")'),
    ('ipc_mode="private"', 'ipc_mode="shareable"'),
    ('cgroupns="private"', 'cgroupns="host"'),
)
# (file, old, new, test)
OTHERS = (
    (
        "harness/sandbox/layout.py",
        'CAPABILITIES = ("CHOWN", "KILL",',
        'CAPABILITIES = ("SYS_PTRACE", "CHOWN", "KILL",',
        CONFIG,
    ),
    ("harness/sandbox/guest/processes.py", '"msgqueue": 0', '"msgqueue": 819200', CONFIG),
    # The seccomp profile.
    (
        "harness/environments/python/__init__.py",
        'grading_seccomp="strict"',
        'grading_seccomp="default"',
        f"{UNIT}/test_container_config.py::test_sandboxes_that_only_grade_programs_have_the_strict_profile",
    ),
    (
        f"{SECCOMP}.json",
        '"SCMP_ARCH_X86_64", ',
        '"SCMP_ARCH_X86_64", "SCMP_ARCH_X32", ',
        f"{PROFILE}::test_neither_x32_nor_32_bit_calls_are_allowed",
    ),
    (
        f"{SECCOMP}.py",
        '"subArchitectures": []',
        '"subArchitectures": ["SCMP_ARCH_X32"]',
        f"{PROFILE}::test_neither_x32_nor_32_bit_calls_are_allowed",
    ),
    (
        f"{SECCOMP}.py",
        '"defaultAction": "SCMP_ACT_ERRNO"',
        '"defaultAction": "SCMP_ACT_ALLOW"',
        f"{PROFILE}::test_every_call_that_is_not_named_is_refused",
    ),
    (
        f"{SECCOMP}.json",
        '"values": {"local": [1], "relayed": [1]',
        '"values": {"local": [1, 2], "relayed": [1]',
        f"{PROFILE}::test_sockets_are_allowed_by_family",
    ),
    (
        f"{SECCOMP}.json",
        "2114060288",
        "1845624832",  # without CLONE_NEWUSER
        f"{PROFILE}::test_a_process_is_cloned_into_no_new_namespace",
    ),
    # A sandbox that is not clean, has timed out or is in doubt is not leased again.
    (POOL, "return sandbox.clean and not sandbox.marked", "return sandbox.clean", DOUBTFUL),
    (POOL, "return sandbox.clean and not sandbox.marked", "return not sandbox.marked", DOUBTFUL),
    (POOL, " and not sandbox.agent_acted", "", DOUBTFUL),
    (
        GRADING,
        "        if sandbox is not None:\n            sandbox.clean = False",
        "        if sandbox is not None:",
        f"{LEASES}::test_a_sandbox_in_doubt_is_not_leased_again",
    ),
    (
        GRADING,
        "                sandbox.clean = False\n                return",
        "                return",
        f"{LEASES}::test_a_sandbox_in_doubt_is_not_leased_again",
    ),
    (
        POOL,
        "            except BaseException:\n                self._close(live)\n",
        "            except BaseException:\n                await self._take_back(live)\n",
        f"{POOLS}::test_a_sandbox_whose_lease_failed_is_destroyed",
    ),
    (
        POOL,
        "if live.key is None:\n            await",
        "if True:\n            await",
        f"{POOLS}::test_a_sandbox_that_cannot_be_removed_fails_only_the_lease_that_owns_it",
    ),
    (
        POOL,
        "if time.monotonic() + seconds > live.ends or",
        "if time.monotonic() > live.ends or",
        f"{POOLS}::test_a_sandbox_with_too_little_time_left_is_replaced",
    ),
    (
        POOL,
        "> live.ends or live.sandbox.is_lost:",
        "> live.ends:",
        f"{POOLS}::test_a_lost_sandbox_is_lent_to_nobody",
    ),
    (
        POOL,
        "                live.key = None\n",
        "",
        f"{POOLS}::test_a_prepared_sandbox_is_for_one_lease_without_a_key",
    ),
    (
        POOL,
        "if live.key == wanted and live.settings",
        "if live.settings",
        f"{POOLS}::test_leases_of_one_key_share_a_clean_sandbox",
    ),
    (
        POOL,
        " and live.settings == settings]",
        "]",
        f"{POOLS}::test_a_sandbox_of_other_settings_is_not_shared",
    ),
    (
        "harness/sandbox/budget.py",
        "return not is_many and self.used_mb + memory_mb <= self.memory_mb",
        "return not is_many",
        f"{POOLS}::test_memory_bounds_how_many_sandboxes_live",
    ),
    (
        "harness/runs/attempt.py",
        "return planned.key if self.is_isolated else planned.task.id",
        "return planned.task.id",
        f"{LEASES}::test_tasks_share_no_key_and_isolated_attempts_share_none",
    ),
    (
        "harness/runs/attempt.py",
        "return planned.key if self.is_isolated else planned.task.id",
        'return planned.key if self.is_isolated else ""',
        f"{LEASES}::test_tasks_share_no_key_and_isolated_attempts_share_none",
    ),
    (
        POOL,
        "await complete_all(self._owners)",
        "pass",
        f"{POOLS}::test_the_end_of_a_pool_waits_until_its_sandboxes_are_closed",
    ),
    (
        SANDBOX,
        "self.clean = self.clean and result.clean",
        "pass",
        f"{DOUBT}::test_a_job_that_has_left_something_puts_a_sandbox_in_doubt",
    ),
    (
        PYTHON_CLIENT,
        "sandbox.clean = sandbox.clean and report.clean",
        "pass",
        f"{DOUBT}::test_a_job_that_has_left_something_puts_a_sandbox_in_doubt",
    ),
    (
        PYTHON_CLIENT,
        '        sandbox.marked = sandbox.marked or reply["marked"]\n    sandbox.clean',
        "    sandbox.clean",
        f"{DOUBT}::test_a_program_that_has_left_a_mark_marks_its_sandbox",
    ),
    (
        CALLS,
        "self.clean = False\n            raise\n",
        "raise\n",
        f"{DOUBT}::test_an_abandoned_request_puts_a_sandbox_in_doubt",
    ),
    (
        CALLS,
        "except SandboxUnresponsive:\n            self.clean = False\n",
        "except SandboxUnresponsive:\n",
        f"{DOUBT}::test_a_guest_that_does_not_answer_puts_a_sandbox_in_doubt",
    ),
    (
        CALLS,
        "self.clean = False\n        if self._disk is not None and await self._disk.is_over():",
        "if self._disk is not None and await self._disk.is_over():",
        f"{DOUBT}::test_a_lost_guest_puts_a_sandbox_in_doubt",
    ),
    # Broken tests, and programs that are run once more.
    (
        "harness/environments/python/verdicts.py",
        "if report.broken is not None:",
        "if False:",
        f"{PROGRAMS}::test_broken_tests_give_no_score",
    ),
    (
        "harness/environments/python/guest/compiled_tests.py",
        "self._calls_are_safe = False",
        "pass",
        "tests/unit/test_guest_trusted_tests.py::"
        "test_a_failure_that_may_be_the_programs_does_not_break_the_tests",
    ),
    (
        GRADING,
        "chosen = again if verdict.borderline else verdict",
        "chosen = again",
        "tests/unit/test_run_again.py::test_one_more_run_decides_only_if_everything_else_was_right",
    ),
    (
        f"{GUEST}/jobs.py",
        "if not living:",
        "if False:",
        f"{JOBS}::test_the_time_before_a_program_has_become_its_user_does_not_count",
    ),
    # Reports and verdicts.
    (
        "harness/environments/python/verdicts.py",
        "report.ended is None and report.breach is None\n",
        "report.breach is None\n",
        f"{PROGRAMS}::test_a_report_of_an_ended_program_is_not_passed_despite_its_tests",
    ),
    (
        "harness/environments/python/verdicts.py",
        "report.ended is None and report.breach is None\n",
        "report.ended is None\n",
        f"{PROGRAMS}::test_a_program_that_breaks_the_protocol_after_its_tests_have_passed_is_not_passed",
    ),
    (
        "harness/environments/python/verdicts.py",
        "passed = report.results and all(report.results)",
        "passed = all(report.results)",
        f"{PROGRAMS}::test_a_report_without_results_is_not_passed",
    ),
    (
        "harness/environments/python/verdicts.py",
        "all(report.results)",
        "any(report.results)",
        f"{PROGRAMS}::test_one_failed_result_fails_the_program",
    ),
    (
        RESULTS,
        'result == "passed" for result',
        'result != "failed" for result',
        f"{PROGRAMS}::test_a_test_counts_as_passed_only_if_the_report_says_so",
    ),
    (
        RESULTS,
        "[False] * (expected - len(passed))",
        "[True] * (expected - len(passed))",
        f"{PROGRAMS}::test_a_missing_report_fails_every_test",
    ),
    (
        RESULTS,
        ' if report.get("timeout") is None else report["timeout"]',
        "",
        f"{PROGRAMS}::test_the_limit_of_one_call_ends_the_report",
    ),
    # The numbers of a run and its exit code.
    (
        "harness/runs/summary.py",
        "if planned.number == 0:",
        "if True:",
        f"{UNIT}/test_summary.py::test_the_rate_is_the_mean_over_tasks_of_the_share_of_attempts_that_passed",
    ),
    (
        "harness/runs/summary.py",
        "is_resolved = found is not None and found.resolved",
        "is_resolved = found is None or found.resolved",
        f"{UNIT}/test_summary.py::test_the_rate_is_the_mean_over_tasks_of_the_share_of_attempts_that_passed",
    ),
    (
        "harness/runs/summary.py",
        "passed + (status is Status.PASSED)",
        "passed + (status is Status.PASSED and planned.number == 0)",
        f"{UNIT}/test_summary.py::test_the_rate_is_the_mean_over_tasks_of_the_share_of_attempts_that_passed",
    ),
    (
        "harness/cli/carry_out.py",
        "summary.rate < output.fail_under",
        "summary.rate <= output.fail_under",
        f"{EXIT_CODES}::test_a_rate_equal_to_the_gate_passes",
    ),
    (
        "harness/cli/carry_out.py",
        "summary.rate < output.fail_under",
        "round(summary.rate, 4) < output.fail_under",
        f"{EXIT_CODES}::test_a_rate_is_not_rounded_up_to_the_gate",
    ),
    (
        "harness/cli/carry_out.py",
        "if not status.has_score):",
        "if status == 'infra_error'):",
        f"{EXIT_CODES}::test_one_attempt_without_a_verdict_is_exit_code_3_whatever_the_gate",
    ),
    (
        "harness/cli/carry_out.py",
        "else resume,\n        )\n        return 3",
        "else resume,\n        )\n        return 1",
        f"{EXIT_CODES}::test_one_attempt_without_a_verdict_is_exit_code_3_whatever_the_gate",
    ),
    # The kill, and the user of a process.
    (
        f"{GUEST}/processes.py",
        "for uid in uids:\n            kill_all_of(uid)",
        "for uid in uids if list_processes_of(uids) else ():\n            kill_all_of(uid)",
        f"{PROCESSES}::test_all_processes_of_a_user_are_killed_in_one_step_though_a_listing_shows_none",
    ),
    (
        f"{GUEST}/processes.py",
        "for uid in uids:\n            kill_all_of(uid)",
        "send(list_processes_of(uids), 9)",
        f"{PROCESSES}::test_all_processes_of_a_user_are_killed_in_one_step_though_a_listing_shows_none",
    ),
    (
        f"{GUEST}/processes.py",
        "os.setresuid(NOBODY, uid, 0)",
        "os.setresuid(uid, uid, 0)",
        f"{PROCESSES}::test_every_user_is_killed_in_a_separate_step",
    ),
    (
        f"{GUEST}/processes.py",
        "if not list_processes_of(uids):\n                return True",
        "return True",
        f"{PROCESSES}::test_the_kill_is_repeated_until_a_listing_shows_nothing",
    ),
    (
        f"{GUEST}/processes.py",
        "os.seteuid(uid)",
        "os.seteuid(0)",
        f"{PROCESSES}::test_the_file_helper_reads_as_the_user_and_stays_out_of_its_reach",
    ),
    (
        f"{GUEST}/processes.py",
        "os.setegid(groups[0] if groups else uid)\n    os.seteuid(uid)",
        "setresgid(uid, uid, uid)\n    setresuid(uid, uid, uid)",
        f"{PROCESSES}::test_the_file_helper_reads_as_the_user_and_stays_out_of_its_reach",
    ),
    (
        f"{GUEST}/file_work.py",
        "processes.act_for(user.uid,",
        "processes.act_for(0,",
        f"{PROCESSES}::test_the_file_helper_has_its_user_before_it_does_anything",
    ),
    (
        f"{GUEST}/users.py",
        "self._used.add(uid)",
        "pass",
        f"{PROCESSES}::TestUsers::test_users_with_and_without_a_folder_never_overlap",
    ),
    (
        f"{GUEST}/users.py",
        "if not processes.end_processes(frozenset((user.uid,))):\n            return False",
        "processes.end_processes(frozenset((user.uid,)))",
        f"{PROCESSES}::TestUsers::test_a_user_is_not_closed_while_a_process_of_it_lives",
    ),
    (
        f"{PYTHON_GUEST}/testing_job.py",
        "self._tests_uid = users.identify()",
        "self._tests_uid = user.uid",
        f"{JOBS}::test_a_program_and_its_tests_are_different_users",
    ),
    (
        f"{PYTHON_GUEST}/testing_job.py",
        "dead = self._clean or not",
        "dead = True or not",
        f"{JOBS}::test_judging_does_not_start_while_the_program_lives",
    ),
    # Wall limits.
    (
        f"{GUEST}/jobs.py",
        'self.timer = loop.after(self.limits["wall_seconds"],',
        'self.timer = loop.after(1.25 * self.limits["wall_seconds"],',
        f"{JOBS}::test_a_job_is_stopped_at_its_wall_limit",
    ),
    (
        f"{PYTHON_GUEST}/testing_job.py",
        "self.timer = self.loop.after(limit, look)",
        "self.timer = self.loop.after(1.25 * limit, look)",
        f"{JOBS}::test_judging_has_its_own_wall_limit",
    ),
    (
        f"{GUEST}/jobs.py",
        "elif now - self.start_time >= find_longest(limit, self.patience):",
        "elif False:",
        f"{JOBS}::test_a_machine_on_which_a_run_always_waits_is_to_blame",
    ),
    (
        f"{GUEST}/jobs.py",
        'self._look_at_time_after(self.limits["wall_seconds"])',
        'self._look_at_time_after(1.25 * self.limits["wall_seconds"])',
        f"{JOBS}::test_a_run_on_an_input_is_ended_at_the_first_wall_limit",
    ),
    (
        f"{PYTHON_GUEST}/input_jobs.py",
        'loop.after(request["wall_seconds"],',
        'loop.after(1.25 * request["wall_seconds"],',
        f"{JOBS}::test_a_run_on_an_input_is_ended_at_the_first_wall_limit",
    ),
    (
        "harness/environments/maths/guest/procedures.py",
        "self.loop.after(seconds,",
        "self.loop.after(1.25 * seconds,",
        f"{JOBS}::test_a_service_that_does_not_answer_is_ended_at_the_wall_limit",
    ),
    # Functions that are lent to a program.
    (
        f"{PYTHON_GUEST}/values.py",
        '*("abs", "all",',
        '*("getattr", "abs", "all",',
        f"{LENDING}::test_no_lent_builtin_reaches_further",
    ),
    (
        f"{PYTHON_GUEST}/peer.py",
        'PURE_MODULES = ("math",',
        'PURE_MODULES = ("builtins", "math",',
        f"{LENDING}::test_every_other_builtin_is_refused",
    ),
    (
        f"{PYTHON_GUEST}/peer.py",
        'NEVER_CALLED_BACK = ("format", ',
        "NEVER_CALLED_BACK = (",
        f"{LENDING}::test_a_function_that_reaches_further_is_not_lent",
    ),
    (
        f"{PYTHON_GUEST}/peer.py",
        " and getattr(builtins, name) is value",
        "",
        f"{LENDING}::test_an_object_with_only_the_name_of_a_lent_builtin_is_not_sent_as_it",
    ),
    (
        f"{PYTHON_GUEST}/peer.py",
        "if not isinstance(kind, type):",
        "if False:",
        f"{LENDING}::test_a_program_cannot_name_a_builtin_function_as_a_value",
    ),
    # An outage is distinguished from a timeout.
    (
        WORKING_TIME,
        "if attempt.environment is not None and not await attempt.settings.faults.check_engine():",
        "if False:",
        f"{OUTAGES}::test_a_lost_engine_is_no_timeout_of_the_agent",
    ),
    (
        GRADING,
        "if not await context.check_engine():",
        "if False:",
        f"{OUTAGES}::test_a_grader_that_does_not_end_is_a_fault_of_ours_if_the_engine_is_gone",
    ),
    (
        GRADING,
        "        if sandbox is not None:\n            sandbox.clean = False\n",
        "        if True:\n",
        f"{OUTAGES}::test_an_engine_is_not_asked_if_no_sandbox_was_used",
    ),
    # The machine of an agent that is root.
    (
        JUDGES,
        "    if result.exit_code != 0:\n        output",
        "    if result.exit_code > 0:\n        output",
        f"{SHELL_GRADING}::test_a_check_fails_unless_it_ends_with_0",
    ),
    (
        JUDGES,
        " or result.stdout.truncated",
        "",
        f"{SHELL_GRADING}::test_a_check_whose_output_was_cut_fails",
    ),
    (
        JUDGES,
        "evidence=escape_text(evidence), tampering=tampering)",
        "evidence=evidence, tampering=tampering)",
        f"{SHELL_GRADING}::test_the_output_of_a_check_is_escaped",
    ),
    (
        JUDGES,
        "confined=True,",
        "confined=False,",
        f"{SHELL_GRADING}::test_every_check_that_reads_the_machine_has_a_new_confined_one",
    ),
    (
        JUDGES,
        "case _ if is_comparison(step):",
        "case _ if False:",
        f"{SHELL_GRADING}::test_a_comparison_runs_in_a_machine_without_files_of_the_agent",
    ),
    (
        JUDGES,
        "if _output(after) != _output(gold) and",
        "if False and",
        f"{SHELL_GRADING}::test_an_agent_that_changes_the_question_fails",
    ),
    (
        JUDGES,
        "if self._looked and await",
        "if False and await",
        f"{SHELL_GRADING}::test_checks_that_pass_without_an_agent_pass_nobody",
    ),
    (
        "harness/environments/os/guest/procedures.py",
        "    sys.path.clear()\n    sys.meta_path.clear()\n",
        "",
        f"{UNIT}/test_guest_apart.py::test_no_module_that_an_agent_plants_is_imported",
    ),
    *(
        (f"harness/environments/os/checks/{file}.py", old, new, f"{UNIT}/test_check_judgements.py::{test}")
        for file, old, new, test in (
            (
                "shell_values",
                "kind >= Kind.MAYBE) or kind is Kind.TEXT)",
                "kind >= Kind.MAYBE))",
                "test_a_check_that_believes_an_agent_is_trusting",
            ),
            (
                "shell_values",
                "argument.many and argument.value.kind >= Kind.LINE",
                "False",
                "test_a_check_that_believes_an_agent_is_trusting",
            ),
            (
                "shell_flow",
                "return any(end.state.success and end.state.seen for end in ends)",
                "return False",
                "test_a_check_that_believes_an_agent_is_trusting",
            ),
            (
                "shell_analysis",
                "and start is not None and not call.input.is_given:",
                "and start is not None:",
                "test_a_check_that_believes_an_agent_is_trusting",
            ),
            (
                "shell_analysis",
                "        if tool is None:\n            return self.start(call, name)\n",
                "        if tool is None:\n            return None\n",
                "test_a_check_that_uses_only_the_output_of_programs_can_be_judged_as_data",
            ),
        )
    ),
    (
        "harness/environments/os/machine_files.py",
        "        if below(path, LOADERS):\n            return False\n",
        "",
        f"{UNIT}/test_machine_files.py::test_files_that_code_is_loaded_from_are_not_copied_though_named",
    ),
    (
        "harness/environments/os/machine_files.py",
        'if path == "/" or (kind != "folder" and path.count("/") == 1):',
        'if path == "/":',
        f"{UNIT}/test_machine_files.py::test_other_files_near_tools_are_not_copied",
    ),
    (
        "harness/environments/os/machine_files.py",
        " or name in self._commands:",
        ":",
        f"{UNIT}/test_machine_files.py::test_a_new_command_is_copied_and_one_that_hides_another_is_not",
    ),
    (
        "harness/environments/os/scripts.py",
        'and not name.startswith("_")',
        "",
        f"{UNIT}/test_python_check_judgements.py::test_a_script_that_may_reach_further_is_no_comparison",
    ),
    (
        "harness/host/retries.py",
        "return environment.agent_acted and not error.outside and error.acted_in is not False",
        "return False",
        f"{OUTAGES}::test_a_sandbox_that_fails_after_the_agent_acted_is_the_agents_failure_at_once",
    ),
    # Replays of recorded runs.
    (
        "harness/runs/agents/attempt_access.py",
        '"by": "agent"}',
        "}",
        f"{UNIT}/test_agent_faults.py::test_an_entry_that_json_cannot_hold_is_written_as_text",
    ),
    (
        "harness/runs/agents/replay.py",
        "if (step.observation, refused) == (observation.text, observation.refused):",
        "if step.observation.strip() == observation.text.strip():",
        f"{UNIT}/test_replay.py::test_an_observation_is_compared_exactly",
    ),
    (
        "harness/runs/recorded_run.py",
        'if _names_file(config.benchmark) and "benchmark" not in values and not is_own:',
        "if False:",
        f"{UNIT}/test_replay.py::test_no_code_that_a_run_folder_names_is_run",
    ),
    (
        "harness/runs/recorded_run.py",
        "        config = drop_excess(config, find_excess(config))",
        "        config = drop_excess(config, {})",
        f"{UNIT}/test_run_trust.py::test_a_replay_of_an_unknown_run_takes_no_limit_beyond_the_defaults",
    ),
    (
        "harness/runs/trust.py",
        "    refuse_effects(folder, list_effects(config, takes_limits=takes_limits))",
        "",
        f"{UNIT}/test_run_trust.py::test_an_unknown_folder_is_refused_with_all_effects_whole_and_escaped",
    ),
    (
        "harness/runs/trust.py",
        "status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077",
        "status.st_uid == os.geteuid()",
        f"{UNIT}/test_run_signature.py::test_a_secret_that_others_can_read_or_write_is_not_used",
    ),
    (
        "harness/runs/selection.py",
        "    refuse_keys(config, [endpoint, judge])\n",
        "",
        f"{UNIT}/test_key_search.py::test_a_run_with_such_a_setting_is_refused",
    ),
    # Comparisons.
    (
        "harness/runs/comparison.py",
        "return fall > Fraction(repr(float(threshold)))",
        "return fall >= Fraction(repr(float(threshold)))",
        f"{COMPARISONS}::test_a_fall_by_exactly_the_threshold_is_no_regression",
    ),
    (
        "harness/runs/comparison.py",
        "_MISSING = TaskOutcome(1, 0, False, 0.0)",
        "_MISSING = TaskOutcome(1, 1, True, 1.0)",
        f"{COMPARISONS}::test_a_task_that_is_missing_on_one_side_counts_as_failed_there",
    ),
    (
        "harness/runs/compared_run.py",
        "max(attempts, expected),",
        "attempts,",
        f"{COMPARISONS}::test_the_attempts_that_a_stopped_run_lacks_count_as_failed",
    ),
    # Writes to the disk.
    (
        "harness/runs/run_files.py",
        "os.fsync(file.fileno())",
        "pass",
        f"{UNIT}/test_store.py::test_a_file_is_on_the_disk_whole_before_it_takes_its_place",
    ),
    (
        "harness/runs/run_files.py",
        "file.flush()\n            os.fsync",
        "os.fsync",
        f"{UNIT}/test_store.py::test_a_file_is_on_the_disk_whole_before_it_takes_its_place",
    ),
    (
        "harness/runs/store.py",
        "os.fsync(self._file.fileno())",
        "pass",
        f"{UNIT}/test_store.py::test_a_record_is_on_the_disk_when_append_returns",
    ),
    # Programs of the user on the host.
    (
        "harness/core/inputs/files.py",
        "os.open(name, os.O_NOFOLLOW | _FLAGS, dir_fd=parent)",
        "os.open(name, _FLAGS, dir_fd=parent)",
        f"{UNIT}/test_inputs.py::test_no_link_and_no_pipe_below_a_folder_is_opened",
    ),
    (
        "harness/sandbox/host_programs/program.py",
        "return list_descendants(is_marked)",
        "return list_descendants(lambda _: False)",
        f"{HOST_PROGRAMS}::test_a_program_that_kills_its_supervisor_leaves_no_process_and_ends_no_other",
    ),
    (
        "harness/runs/agents/command/place.py",
        "tampering=KILLED_SUPERVISOR",
        "tampering=None",
        f"{HOST_PROGRAMS}::test_a_program_that_kills_its_supervisor_has_tampered",
    ),
    (
        "harness/models/relay/mcp_servers/sandbox_process.py",
        "hmac.compare_digest(line, expected)",
        "line[:1] == expected[:1]",
        f"{UNIT}/test_mcp_sandbox_process.py"
        "::test_a_connection_without_the_token_is_closed_before_the_program_comes",
    ),
)


def mutants() -> Iterator[Mutant]:
    """Yield every mutant of the table."""
    for file, changes in ((SPEC, CONTAINERS), (HARDENING, HARDENED)):
        for old, new in changes:
            yield Mutant(file, old, new, CONFIG)
    for file, old, new, test in (*OTHERS, *RELAY, *SERVICE, *VIEWER):
        yield Mutant(file, old, new, test)
