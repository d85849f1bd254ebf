"""The domain `mock`: tasks of users, to try things out."""

from __future__ import annotations

from typing import Any, Literal

from harness.environments.tau2.world import Database, Domain, find

Status = Literal["pending", "completed"]


def create_task(database: Database, user_id: str, title: str, description: str | None = None) -> Any:
    """Create a task for a user and return it. Its status is pending."""
    user = find(database, "users", user_id, f"user {user_id}")
    task_id = f"task_{len(database['tasks']) + 1}"
    task = {"task_id": task_id, "title": title, "description": description, "status": "pending"}
    database["tasks"][task_id] = task
    user["tasks"].append(task_id)
    return task


def update_task_status(database: Database, task_id: str, status: Status) -> Any:
    """Set the status of a task and return the task."""
    task = find(database, "tasks", task_id, f"task {task_id}")
    task["status"] = status
    return task


def get_users(database: Database) -> Any:
    """Return all users."""
    return list(database["users"].peek())


def transfer_to_human_agents(database: Database, summary: str) -> str:
    """Transfer the user to a human agent, with a summary of the request."""
    return "Transfer successful"


def assert_number_of_tasks(database: Database, user_id: str, expected_number: int) -> bool:
    """Return whether a user has this number of tasks."""
    return len(find(database, "users", user_id, f"user {user_id}")["tasks"]) == expected_number


def assert_task_status(database: Database, task_id: str, expected_status: str) -> bool:
    """Return whether a task has this status."""
    return bool(find(database, "tasks", task_id, f"task {task_id}")["status"] == expected_status)


DOMAIN = Domain(
    tools=(create_task, get_users, transfer_to_human_agents, update_task_status),
    hidden=(assert_number_of_tasks, assert_task_status),
)
