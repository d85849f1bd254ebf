"""The routines of a sandbox's database: create it, query it, and read its state.

Each of `ROUTINES` runs in a child process of PID 1, as the user that its entry names, and receives the JSON
of the request. Its result goes to stdout. Calls of the agent's SQL may share a process, but not a connection.
Every transaction, temporary table and setting ends with its connection.
"""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import time
from typing import NamedTuple

from . import mysql, mysql_functions, mysql_values, translator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .messages import ChangeData, Create, Query, Replay, State, TableData

FILE = "database.sqlite"
URI = f"file:{FILE}?mode=rw"
JOURNAL = f"{FILE}-journal"
PAGE_BYTES = 4096
MAX_PAGES = 4096
MAX_FILE_BYTES = PAGE_BYTES * MAX_PAGES
# A rollback journal stores each old page once at most, with twelve more bytes.
MAX_JOURNAL_BYTES = 2 * MAX_FILE_BYTES
MAX_VALUE_BYTES = 4 * 1024 * 1024
MAX_ROWS = 100_000
MAX_STATE_CHARACTERS = 8 * 1024 * 1024
MEMORY_BYTES = 192 * 1024 * 1024
# The limit of the whole process, because the interpreter and our own functions need memory besides SQLite.
ADDRESS_BYTES = 768 * 1024 * 1024
OPCODES_BETWEEN_LOOKS = 5000
CELL_CHARACTERS = 1000
MAGIC = b"SQLite format 3\0"
_READING_PRAGMAS = (
    *("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"),
    *("foreign_key_list", "foreign_key_check", "database_list", "collation_list", "function_list"),
    *("compile_options", "integrity_check", "quick_check"),
)
_REFUSED_FUNCTIONS = ("load_extension", "fts3_tokenizer", "readfile", "writefile", "edit")
# SQLite's messages for text that it cannot read. MySQL may be able to read such a text.
_WORTH_TRANSLATING = (
    *("syntax error", "unrecognized token", "incomplete input", "no such function"),
    # Such a text has a quote that only MySQL sees closed, with a semicolon inside.
    "one statement at a time",
)
_LIMITS = (
    ("LENGTH", MAX_VALUE_BYTES),
    ("SQL_LENGTH", 1_000_000),
    ("TRIGGER_DEPTH", 50),
    ("LIKE_PATTERN_LENGTH", 5000),
    ("VARIABLE_NUMBER", 1000),
    ("ATTACHED", 0),
    ("WORKER_THREADS", 0),
)


# The statement itself causes these, whichever library raises them.
_FAULTS = (sqlite3.Error, sqlite3.Warning, mysql.Unreadable, ValueError, MemoryError, RecursionError)


class Refused(Exception):
    """The routine cannot do what the request asks for. The message gives the reason."""


def create(request: Create, _files: list[bytes | None]) -> tuple[int, str]:
    """Create the database file with the task's tables. It must not exist yet."""
    os.close(os.open(FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    connection = _connect(URI)
    _fill(connection, request["tables"])
    connection.close()
    return 0, ""


def prepare() -> Prepared:
    """Open the database for the agent's next SQL, and read no more of it than its first hundred bytes.

    The rest of the file may be hostile, so it is read only under the limits of a call.
    """
    connection = _open(URI)
    return Prepared(connection, mysql_functions.install(connection))


def rehearse() -> None:
    """Run SQL on a database in memory. It copies the pages of this fork that the first call will write to."""
    connection = _open(":memory:")
    session = Session(connection, mysql_functions.install(connection), 1.0)
    session.run("SELECT 1", ResultText(1, 1).result)
    connection.close()


def query(request: Query, _files: list[bytes | None], prepared: Prepared | None = None) -> tuple[int, str]:
    """Run the agent's SQL. Return 1 if it failed and else 0, and the text that the agent sees."""
    try:
        if prepared is None:
            connection = _open(URI)
            prepared = Prepared(connection, mysql_functions.install(connection))
        _bound(prepared.connection)
    except sqlite3.Error as error:
        return 1, f"error: the database cannot be opened: {error}"
    session = Session(
        prepared.connection, prepared.failures, request["seconds"], mysql_first=request["meant_for_mysql"]
    )
    output = ResultText(request["rows"], request["characters"])
    try:
        session.run(request["sql"], output.result)
    except Refused as error:
        output.line(f"error: {error}")
        return 1, output.text()
    return 0, output.text()


def state(request: State, files: list[bytes | None]) -> tuple[int, str]:
    """Read a table from a database file that an agent could change, as a user that the agent never was.

    `files` are the contents of the database and of its rollback journal, None for a file that does not exist.
    """
    database, journal = files
    if database is None or not database.startswith(MAGIC):
        return 1, json.dumps({"fault": "the SQLite database is missing or has been replaced"})
    if database[18:20] != b"\1\1":
        return 1, json.dumps({"fault": "the journal mode of the database has been changed"})
    for name, data in ((FILE, database), (JOURNAL, journal)):
        if data:
            with open(name, "xb") as file:
                file.write(data)
    try:
        connection = _connect(URI)
        connection.execute("PRAGMA trusted_schema = OFF")
        deadline = time.process_time() + request["seconds"]
        connection.set_progress_handler(lambda: time.process_time() > deadline, OPCODES_BETWEEN_LOOKS)
        # The first read rolls back the transaction of a killed call. After it, nothing is written.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        connection.execute("PRAGMA query_only = ON")
        return 0, json.dumps(_table(connection, request["table"]))
    # A hostile file can make the library raise anything, and the agent answers for its file.
    except Exception as error:
        return 1, json.dumps({"fault": f"{error}"[:500] or type(error).__name__})


def replay(request: Replay, _files: list[bytes | None]) -> tuple[int, str]:
    """Run trusted SQL in MySQL's dialect, each on its own tables in memory, and return these tables."""
    return 0, json.dumps([_replay_one(change, request["seconds"]) for change in request["changes"]])


def _replay_one(change: ChangeData, seconds: float) -> dict[str, Any]:
    connection = _connect(":memory:")
    try:
        _fill(connection, change["tables"])
        session = Session(connection, mysql_functions.install(connection), seconds, mysql_first=True)
        session.run(change["sql"], lambda cursor: cursor.fetchall())
        return _table(connection, change["table"])
    except (sqlite3.Error, Refused, MemoryError) as error:
        return {"fault": f"{error}"[:500]}
    finally:
        connection.close()


class Prepared(NamedTuple):
    """An open database that has not been read, with its functions and the record of their failures."""

    connection: sqlite3.Connection
    failures: mysql_functions.Failures


class Routine(NamedTuple):
    """Work on the database in a process that ends with it."""

    # Returns the exit code and the text for stdout. It receives the request and the contents of `files`.
    work: Callable[..., tuple[int, str]]
    # If False, the routine runs as a user that the agent never was.
    is_of_agent: bool
    # The names of the agent's files that the routine receives, each with the largest size that is read.
    files: tuple[tuple[str, int], ...] = ()


ROUTINES: dict[str, Routine] = {
    "create": Routine(create, is_of_agent=True),
    "query": Routine(query, is_of_agent=True),
    "state": Routine(state, is_of_agent=False, files=((FILE, MAX_FILE_BYTES), (JOURNAL, MAX_JOURNAL_BYTES))),
    "replay": Routine(replay, is_of_agent=False),
}


class Session:
    """The statements of one call, each committed on its own unless the call opens a transaction.

    At the end of the call, an open transaction is committed, or rolled back if a statement failed.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        failures: mysql_functions.Failures,
        seconds: float,
        *,
        mysql_first: bool = False,
    ) -> None:
        self._connection = connection
        self._mysql_first = mysql_first
        self._seconds = seconds
        self._denied: str | None = None
        self._failures = failures
        self._deadline = time.process_time() + seconds
        connection.set_progress_handler(self._is_late, OPCODES_BETWEEN_LOOKS)
        connection.set_authorizer(self._authorise)

    def run(self, text: str, result: Callable[[sqlite3.Cursor], object]) -> None:
        """Run every statement of the text and pass each one's cursor to `result`. Raises Refused."""
        done = 0
        try:
            for tokens in self._statements(text):
                if any(kind != mysql.SPACE for kind, _ in tokens):
                    self._statement(tokens, result)
                    done += 1
        except _FAULTS as error:
            message = self._describe_error(error)
            if done:
                message += f" (in statement {done + 1}; the statements before it have run)"
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
                message += " (the open transaction was rolled back)"
            raise Refused(message) from error
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")

    def _statements(self, text: str) -> list[list[mysql.Token]]:
        try:
            found = list(mysql.statements(text, escapes=self._mysql_first))
        except mysql.Unreadable:
            found = list(mysql.statements(text, escapes=not self._mysql_first))
        return [tokens for _, tokens in found]

    def _statement(self, tokens: list[mysql.Token], result: Callable[[sqlite3.Cursor], object]) -> None:
        show = mysql.rewrite_show(tokens)
        if show is None:
            result(self._execute(tokens))
            return
        sql, names = show
        for name in names if mysql.LIKE not in sql else ():
            known = "SELECT 1 FROM sqlite_master WHERE name = ? COLLATE NOCASE"
            if self._connection.execute(known, (name,)).fetchone() is None:
                raise mysql.Unreadable(f"no such table: {name}")
        result(self._connection.execute(sql, names))

    def _execute(self, tokens: list[mysql.Token]) -> sqlite3.Cursor:
        raw = mysql.text_of(mysql.quote_stored_numbers(tokens))
        words = raw.lower().split()
        ends = words[0] in ("commit", "rollback", "end") and "to" not in words
        if ends and not self._connection.in_transaction:
            # As in MySQL, COMMIT and ROLLBACK without an open transaction succeed.
            return self._connection.cursor()
        return self._execute_as_mysql(tokens, raw) if self._mysql_first else self._execute_as_sqlite(raw)

    def _execute_as_mysql(self, tokens: list[mysql.Token], raw: str) -> sqlite3.Cursor:
        try:
            translated = translator.translate(tokens, quotes_are_strings=True)
        except mysql.Wrong:
            raise
        except mysql.Unreadable as unreadable:
            try:
                return self._connection.execute(raw)
            except (sqlite3.Error, sqlite3.Warning):
                raise unreadable from None
        return self._connection.execute(translated)

    def _execute_as_sqlite(self, raw: str) -> sqlite3.Cursor:
        """Run the statement as it is. If SQLite cannot read it, run its translation from MySQL's dialect."""
        try:
            return self._connection.execute(raw)
        except (sqlite3.Error, sqlite3.Warning) as error:
            if not any(word in f"{error}" for word in _WORTH_TRANSLATING):
                raise
            try:
                found = [tokens for _, tokens in mysql.statements(raw, escapes=True) if mysql.text_of(tokens)]
                translated = (
                    translator.translate(found[0], quotes_are_strings=False) if len(found) == 1 else raw
                )
                return self._connection.execute(translated)
            except mysql.Wrong:
                raise
            except mysql.Unreadable:
                raise error from None
            except sqlite3.Error as second_error:
                # The agent wrote the first statement, so it sees the syntax error that SQLite found there.
                raise (error if "syntax error" in f"{second_error}" else second_error) from None

    def _is_late(self) -> bool:
        return time.process_time() > self._deadline

    def _describe_error(self, error: BaseException) -> str:
        if self._denied is not None:
            return self._denied
        message = f"{error}" or type(error).__name__
        if message == "interrupted":
            return f"stopped after {self._seconds:g} s: the statement takes too long"
        if message == "user-defined function raised exception" and self._failures.last:
            return self._failures.last
        if message.startswith("no such function: "):
            return f"ERROR 1305 (42000): FUNCTION {message.partition(': ')[2]} does not exist"
        if message == "database or disk is full":
            return f"the database must not grow beyond {MAX_FILE_BYTES >> 20} MiB"
        return message

    def _authorise(
        self, action: int, one: str | None, two: str | None, _database: str | None, _trigger: str | None
    ) -> int:
        denied = None
        if action == sqlite3.SQLITE_PRAGMA:
            name = (one or "").lower()
            if name not in _READING_PRAGMAS and not (name in ("encoding", "user_version") and two is None):
                denied = f"PRAGMA {one} is not available here"
        elif action == sqlite3.SQLITE_FUNCTION:
            if (two or "").lower() in _REFUSED_FUNCTIONS:
                denied = f"the function {two} is not available here"
        elif action not in _ALLOWED:
            what = "ATTACH, DETACH and VACUUM are" if action in _ATTACHING else "virtual tables are"
            denied = f"{what} not available here"
        if denied is None:
            return sqlite3.SQLITE_OK
        self._denied = denied
        return sqlite3.SQLITE_DENY


_ATTACHING = (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH)
_KINDS = ("TABLE", "INDEX", "VIEW", "TRIGGER")
_ALLOWED_NAMES = (
    *("SELECT", "READ", "INSERT", "UPDATE", "DELETE", "TRANSACTION", "SAVEPOINT", "RECURSIVE"),
    *("ANALYZE", "REINDEX", "ALTER_TABLE"),
    *(f"{verb}_{kind}" for verb in ("CREATE", "DROP", "CREATE_TEMP", "DROP_TEMP") for kind in _KINDS),
)
_ALLOWED = frozenset(getattr(sqlite3, f"SQLITE_{name}") for name in _ALLOWED_NAMES)


class ResultText:
    """The text of results that the agent sees. The rows are JSON, so that NULL, numbers and texts differ."""

    def __init__(self, rows: int, characters: int) -> None:
        self._rows = rows
        self._left = characters
        self._lines: list[str] = []

    def result(self, cursor: sqlite3.Cursor) -> None:
        if cursor.description is None:
            changed = f", {cursor.rowcount} rows changed" if cursor.rowcount >= 0 else ""
            self.line("OK" + changed.replace(" 1 rows", " 1 row"))
            return
        self.line(f"columns: {_row(name for name, *_ in cursor.description)}")
        first = len(self._lines)
        for row in cursor:
            count = len(self._lines) - first
            if count == self._rows or self._left <= 0:
                self.line(f"(the first {count} rows of more; use LIMIT and OFFSET to see the others)")
                break
            self.line(_row(row))
        else:
            count = len(self._lines) - first
            self.line("(1 row)" if count == 1 else f"({count} rows)")
        cursor.close()

    def line(self, text: str) -> None:
        self._left -= len(text)
        self._lines.append(text)

    def text(self) -> str:
        return "\n".join(self._lines) or "OK, nothing to do"


def _row(values: Iterable[object]) -> str:
    return json.dumps([_cell(value) for value in values], ensure_ascii=False)


def _cell(value: object) -> object:
    if isinstance(value, bytes):
        value = f"x'{value[:CELL_CHARACTERS].hex()}'"
    if isinstance(value, str) and len(value) > CELL_CHARACTERS:
        return f"{value[:CELL_CHARACTERS]}[... {len(value) - CELL_CHARACTERS} characters more]"
    return value


def _connect(name: str) -> sqlite3.Connection:
    """Open a database with limits that no statement can exceed."""
    connection = _open(name)
    _bound(connection)
    return connection


def _open(name: str) -> sqlite3.Connection:
    """Open a database with the limits that need no look at its pages."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    connection = sqlite3.connect(name, isolation_level=None, cached_statements=0, uri=True)
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    for limit, value in _LIMITS:
        if hasattr(connection, "setlimit"):
            connection.setlimit(getattr(sqlite3, f"SQLITE_LIMIT_{limit}"), value)
    mysql_functions.install_collations(connection)
    for pragma in (f"hard_heap_limit = {MEMORY_BYTES}", "temp_store = MEMORY", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def _bound(connection: sqlite3.Connection) -> None:
    """Set the limits. SQLite reads the schema of the file for that."""
    for pragma in (
        # The file is in memory. It survives a killed process, and does not need to survive a crash of the
        # machine.
        "synchronous = OFF",
        f"max_page_count = {MAX_PAGES}",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _fill(connection: sqlite3.Connection, tables: list[TableData]) -> None:
    connection.execute("BEGIN")
    for table in tables:
        columns = ", ".join(f"{_quote(name)} TEXT COLLATE NOCASE" for name in table["columns"])
        connection.execute(f"CREATE TABLE {_quote(table['name'])} ({columns})")
        places = ", ".join("?" * len(table["columns"]))
        connection.executemany(f"INSERT INTO {_quote(table['name'])} VALUES ({places})", table["rows"])
    connection.execute("COMMIT")


def _table(connection: sqlite3.Connection, name: str) -> dict[str, Any]:
    """Return the columns and rows of an ordinary table.

    Raises Refused if the name does not belong to such a table. A view, a virtual table and a generated column
    compute their values. A table that has become one of these is not the table that was created, whatever it
    shows.
    """
    (sound,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if sound != "ok":
        raise Refused(f"the database is damaged: {sound}")
    found = connection.execute(
        "SELECT type, rootpage FROM sqlite_master WHERE name = ? AND type IN ('table', 'view')", (name,)
    ).fetchall()
    if len(found) != 1:
        raise Refused(f"the table {name!r} no longer exists")
    kind, root = found[0]
    if kind != "table" or not root:
        raise Refused(f"{name!r} is no longer a table, but a {kind if kind != 'table' else 'virtual table'}")
    columns = connection.execute(f"PRAGMA table_xinfo({_quote(name)})").fetchall()
    if any(column[-1] for column in columns):
        raise Refused(f"{name!r} has a generated column")
    rows: list[tuple[str | None, ...]] = []
    left = MAX_STATE_CHARACTERS
    for row in connection.execute(f"SELECT * FROM {_quote(name)}"):
        left -= sum(len(cell) if isinstance(cell, (str, bytes)) else 8 for cell in row)
        if len(rows) == MAX_ROWS or left < 0:
            raise Refused(f"{name!r} holds more data than the grader reads")
        if any(isinstance(cell, bytes) for cell in row):
            raise Refused(f"{name!r} holds a value that is neither a text nor a number")
        # The agent may have built the table again with columns of numbers, which MySQL's hash sees as texts.
        rows.append(tuple(None if cell is None else mysql_values.text(cell) for cell in row))
    return {"columns": [column[1] for column in columns], "rows": rows}
