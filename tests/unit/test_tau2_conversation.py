"""A conversation at a service desk: who is heard, when it ends, and what it is graded by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from service_desk import ScriptedUser, opened, talk

from harness.core.tools import TurnLimitReached
from harness.core.types import Status, Submission, Verdict
from harness.environments.tau2.conversation import GREETING, NOBODY, Basis, Check, ServiceTask, load_domain
from harness.environments.tau2.environment import (
    TURNS,
    UNJUDGED,
    ServiceDesk,
    find_contradiction,
    grade_conversation,
    passes_untouched,
)
from harness.environments.tau2.world import Call, Database, ToolError, World

DATABASE: Database = {
    "tasks": {"task_1": {"task_id": "task_1", "title": "Sweep", "description": None, "status": "pending"}},
    "users": {"ada": {"user_id": "ada", "name": "Ada", "tasks": ["task_1"]}},
}
COMPLETE = Call("assistant", "update_task_status", {"task_id": "task_1", "status": "completed"})


def make_target(
    *actions: Call, basis: tuple[Basis, ...] = ("DB", "COMMUNICATE"), **changes: Any
) -> ServiceTask:
    target = ServiceTask("mock", DATABASE, (), (), "You are Ada.", actions, (), (), (), basis)
    return replace(target, **changes)


async def grade(environment: ServiceDesk) -> Verdict:
    return await grade_conversation(environment, environment.state.task, Submission("", ""))


async def test_the_first_message_is_always_the_same_and_the_user_hears_each_later_one() -> None:
    user = ScriptedUser("I have swept.", "###STOP###")
    async with opened(make_target(COMPLETE), user) as desk:
        first, last = await talk(desk, "Yes?", "Noted.")
        assert first == f"[Your message was not sent. You had said: {GREETING}]\nI have swept."
        assert last == "[the user ended the conversation.]"
        assert [message.text for message in user.asked[1]] == [
            "You are Ada.",
            GREETING,
            "I have swept.",
            "Noted.",
        ]
        assert desk.submitted == ""


async def test_a_conversation_goes_on_after_an_earlier_part() -> None:
    made = Call("assistant", "create_task", {"user_id": "ada", "title": "Mop"})
    history = (("user", "I want to mop."), ("assistant", "Done: task_2."))
    user = ScriptedUser("Thanks. I have mopped.")
    async with opened(make_target(setup=(made,), history=history), user) as desk:
        assert await talk(desk, "Done: task_2.") == ["Thanks. I have mopped."]
        assert [message.text for message in user.asked[0]][1:] == ["I want to mop.", "Done: task_2."]
        assert "task_2" in desk.state.world.database["tasks"]


async def test_a_pass_needs_the_database_of_the_reference_whatever_the_way_to_it() -> None:
    created = Call("assistant", "create_task", {"user_id": "ada", "title": "Mop"})
    target = make_target(COMPLETE, created)
    verdicts = []
    for calls in ((created, COMPLETE), (COMPLETE,), (COMPLETE, created, created)):
        async with opened(target) as desk:
            for call in calls:
                await desk.call(call.name, call.arguments)
            verdicts.append((await grade(desk)).resolved)
    assert verdicts == [True, False, False]


def test_a_call_that_fails_changes_nothing_whatever_its_function_has_changed_before() -> None:
    def spoil(database: Database) -> None:
        """Change a task and fail."""
        database["tasks"]["task_1"]["status"] = "lost"
        raise ToolError

    domain = load_domain("mock")
    world = World(replace(domain, tools=(*domain.tools, spoil)), DATABASE)
    world.call(COMPLETE)
    with pytest.raises(ToolError):
        world.call(Call("assistant", "spoil", {}))
    assert world.database["tasks"]["task_1"]["status"] == "completed"
    assert DATABASE["tasks"]["task_1"]["status"] == "pending"


async def test_a_call_that_fails_is_counted_whether_its_arguments_or_its_records_are_wrong() -> None:
    async with opened(make_target()) as desk:
        texts = [
            (await desk.call("create_task", {"user_id": "eve", "title": "x"})).text,
            (await desk.call("update_task_status", {"task_id": "task_1", "status": "Completed"})).text,
        ]
        assert texts[0] == "Error: user eve not found"
        assert texts[1].startswith("wrong arguments")
        assert desk.state.errors == 2
        assert (await grade(desk)).resolved


async def test_the_texts_that_a_task_asks_for_are_found_whatever_their_commas_and_case() -> None:
    target = make_target(communicate=("1,093.34", "Oak"))
    verdicts = []
    for text in ("It is $1093.34 for OAK.", "It is $1,093.34 for oak.", "It is $1093 for oak."):
        async with opened(target, ScriptedUser("Hello.", "Fine.")) as desk:
            await talk(desk, GREETING, text)
            verdicts.append((await grade(desk)).resolved)
    assert verdicts == [True, True, False]


async def test_the_words_of_the_user_and_of_a_text_that_is_submitted_are_not_the_agents() -> None:
    async with opened(make_target(communicate=("oak",)), ScriptedUser("oak ###STOP###")) as desk:
        await talk(desk, "oak")
        assert (await grade(desk)).evidence == "the agent did not say 'oak'"


async def test_an_action_counts_by_its_arguments_and_a_check_by_its_value() -> None:
    transfer = Call("assistant", "transfer_to_human_agents", {"summary": "x"}, ())
    done = Check("assert_task_status", {"task_id": "task_1", "expected_status": "completed"})
    target = make_target(transfer, COMPLETE, checks=(done,), basis=("ACTION", "ENV_ASSERTION"))
    async with opened(target) as desk:
        await desk.call("transfer_to_human_agents", {"summary": "other words"})
        failed = await grade(desk)
        assert failed.metrics["reward_action"] == failed.metrics["reward_env_assertion"] == 0
        await desk.call(COMPLETE.name, COMPLETE.arguments)
        assert (await grade(desk)).resolved


async def test_statements_count_if_a_model_judges_them_and_are_named_if_none_does() -> None:
    target = make_target(assertions=("The agent is kind.",), basis=("DB", "NL_ASSERTION"))
    found = []
    for user in (None, ScriptedUser('{"s1": true}'), ScriptedUser("yes", '{"s1": false}')):
        async with opened(target, user) as desk:
            verdict = await grade(desk)
            found.append((verdict.resolved, verdict.metrics.get(UNJUDGED), verdict.evidence))
    assert found == [(True, 1, None), (True, None, None), (False, None, "not shown: The agent is kind.")]


async def test_ten_calls_that_fail_end_the_conversation_with_a_score_of_0() -> None:
    async with opened(make_target()) as desk:
        for _ in range(10):
            assert desk.submitted is None
            await desk.call("create_task", {"user_id": "eve", "title": "x"})
        assert desk.submitted == ""
        verdict = await grade(desk)
        assert (verdict.status, verdict.score, verdict.limit) == (Status.LIMIT_REACHED, 0.0, "tool_errors")


async def test_an_agent_that_never_ends_reaches_the_limit_of_200_steps() -> None:
    async with opened(make_target()) as desk:
        for _ in range(TURNS):
            await desk.call("get_users", {})
        assert desk.state.steps == 200
        assert (await grade(desk)).status is Status.LIMIT_REACHED
        with pytest.raises(TurnLimitReached):
            await desk.call("get_users", {})


async def test_an_agent_that_floods_the_user_ends_the_conversation_itself() -> None:
    async with opened(make_target()) as desk:
        while desk.submitted is None:
            await talk(desk, "x" * 4096)
        assert desk.state.steps < 30
        verdict = await grade(desk)
        assert (verdict.status, verdict.limit) == (Status.LIMIT_REACHED, "message_characters")


async def test_without_a_user_nobody_answers() -> None:
    async with opened(make_target()) as desk:
        assert await talk(desk, GREETING, "Hello?") == [NOBODY, NOBODY]


def test_a_task_without_changes_is_passed_by_doing_nothing_and_one_with_an_impossible_check_is_unsound() -> (
    None
):
    lost = Check("assert_task_status", {"task_id": "task_1", "expected_status": "lost"})
    assert passes_untouched(make_target(Call("assistant", "get_users", {})))
    assert not passes_untouched(make_target(COMPLETE))
    assert find_contradiction(make_target(COMPLETE)) is None
    told = find_contradiction(make_target(checks=(lost,), basis=("ENV_ASSERTION",)))
    assert told == "its reference does not pass: assert_task_status is not true"
