"""The requests and replies of a database's procedures, as the JSON of bodies.

The request of each routine is a `RunRoutine`, with the JSON of its arguments as the body. The reply is the
kernel's `JobReply`, whose stdout is the text that the routine returns. The guest imports this module for type
checks only.
"""

from __future__ import annotations

from typing import Optional, TypedDict

from harness.sandbox.guest.messages import JobLimits


class RunRoutine(TypedDict):
    """The header of every request."""

    limits: JobLimits
    # Whether the routine translates from MySQL's dialect for certain.
    translates: bool


class TableData(TypedDict):
    """A table of texts; None is NULL."""

    name: str
    columns: list[str]
    rows: list[list[Optional[str]]]


class Create(TypedDict):
    """`create`: make the database with these tables. The reply's stdout is empty."""

    tables: list[TableData]


class Query(TypedDict):
    """`query`: run the agent's SQL. The reply's stdout is the text that the agent sees."""

    sql: str
    seconds: float
    rows: int
    characters: int
    meant_for_mysql: bool


class State(TypedDict):
    """`state`: read a table that the agent has left. Stdout is JSON, a `TableRead` or a `Fault`."""

    table: str
    seconds: float


class ChangeData(TypedDict):
    """SQL of MySQL's dialect, the tables it runs on, and the name of the table that is compared."""

    tables: list[TableData]
    table: str
    sql: str


class Replay(TypedDict):
    """`replay`: run trusted changes. Stdout is JSON, a list with a `TableRead` or `Fault` for each."""

    changes: list[ChangeData]
    seconds: float


class ResetReply(TypedDict):
    """The reply of `reset`, which has no arguments: whether nothing of the agent is left."""

    clean: bool


class TableRead(TypedDict):
    """The table as it was found. Only its shape is certain, because a hostile file may have made it."""

    columns: list[str]
    rows: list[list[Optional[str]]]


class Fault(TypedDict):
    """The reason why a table could not be read."""

    fault: str
