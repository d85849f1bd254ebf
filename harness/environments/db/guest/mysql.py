"""Split texts of MySQL's dialect into statements, and rewrite those that SQLite does not read.

This module looks at words only, not at the grammar. Any text that it does not know goes to SQLite unchanged,
and SQLite reports the error. All functions take time in proportion to the length of the text.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Token = tuple[str, str]

SPACE, STRING, QUOTED, NAME, WORD, NUMBER, END, OTHER = (
    *("space", "string", "quoted", "name", "word", "number", "end", "other"),
)
# An unclosed quote: the literal continues to the end of the text.
OPEN = "open"
_COMMON = r"""
|(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
|(?P<word>[^\W\d][\w$]*|[@:$][\w$]+)
|(?P<end>;)
|(?P<open>['"`])
|(?P<other><=>|<=|>=|<>|!=|==|<<|>>|&&|\|\||->>|->|.)
"""
_SQLITE = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/|/\*.*)
    |(?P<string>'[^']*(?:''[^']*)*')
    |(?P<quoted>"[^"]*(?:""[^"]*)*")
    |(?P<name>`[^`]*(?:``[^`]*)*`|\[[^\]]*\])"""
    + _COMMON,
    re.VERBOSE | re.DOTALL,
)
_MYSQL = re.compile(
    r"""(?P<space>\s+|--(?=\s|\Z)[^\n]*|\#[^\n]*|/\*!\d*|\*/(?!\*)|/\*.*?\*/|/\*.*)
    |(?P<string>'[^'\\]*(?:(?:''|\\.)[^'\\]*)*')
    |(?P<quoted>"[^"\\]*(?:(?:""|\\.)[^"\\]*)*")
    |(?P<name>`[^`]*(?:``[^`]*)*`)"""
    + _COMMON,
    re.VERBOSE | re.DOTALL,
)
# Inside a literal: an escape, or the enclosing quote, doubled.
_ESCAPES = {mark: re.compile(rf"\\(.)|({mark}){mark}", re.DOTALL) for mark in "'\""}
# The escapes of MySQL. MySQL keeps the backslash before % and _ for LIKE.
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_CHANGES = ("insert", "replace", "update", "delete")
_MODIFIERS = ("low_priority", "high_priority", "delayed", "quick")
_AFTER_SET = ("where", "order", "limit", "from", "returning")
# Numbers that SQLite does not return as MySQL stores them: 7.50, 5., and more digits than a double holds.
_KEPT_AS_TEXT = re.compile(r"\d+\.(?:\d*0)?|\d{16,}|(?=[\d.]{17})\d*\.\d+")
_TABLE = r"(?:[^ .]+ ?\. ?)?(`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'|[^ .]+)"
_COLUMNS = (
    'SELECT name AS "Field", type AS "Type", iif("notnull", \'NO\', \'YES\') AS "Null",'
    " iif(pk, 'PRI', '') AS \"Key\", dflt_value AS \"Default\" FROM pragma_table_info(?)"
)
_TABLES = "SELECT name AS \"Tables\" FROM sqlite_master WHERE type IN ('table', 'view')"
# The end of a query whose parameter is a pattern, and not the name of a table.
LIKE = " AND name LIKE ?"
# The queries that answer SHOW, DESCRIBE and the like. The parameter is the name of a table.
_SHOWS = tuple(
    (re.compile(pattern, re.IGNORECASE), sql)
    for pattern, sql in (
        ("(?:use|set) .+", "SELECT 'nothing to do: this is SQLite' AS note"),
        (rf"desc(?:ribe)? (?:table )?{_TABLE}(?: .*)?", _COLUMNS),
        (rf"explain {_TABLE}", _COLUMNS),
        (rf"show (?:columns|fields) (?:from|in) {_TABLE}(?: (?:from|in) [^ ]+)?", _COLUMNS),
        (r"show tables?(?: (?:from|in) [^ ]+)?", _TABLES),
        (rf"show tables?(?: (?:from|in) [^ ]+)? like {_TABLE}", f"{_TABLES}{LIKE}"),
        ("show (?:databases|schemas)", 'SELECT name AS "Database" FROM pragma_database_list'),
        (
            rf"show create (?:table|view) {_TABLE}",
            'SELECT name AS "Table", sql AS "Create Table" FROM sqlite_master WHERE name = ?',
        ),
        (
            rf"show (?:index|indexes|keys) (?:from|in) {_TABLE}",
            'SELECT name, "unique", origin FROM pragma_index_list(?)',
        ),
    )
)


class Unreadable(Exception):
    """The text cannot be split into statements, or translated. The message gives the reason."""


class Wrong(Unreadable):
    """The statement is readable, but MySQL refuses it or the translation lacks a part of it."""


def statements(text: str, *, escapes: bool) -> Iterator[tuple[int, list[Token]]]:
    """Yield the start and the tokens of each statement of the text.

    With `escapes`, the text is read as MySQL does: a backslash escapes, and `#` starts a comment. Raises
    Unreadable for a quote that is not closed.
    """
    pattern = _MYSQL if escapes else _SQLITE
    start = 0
    tokens: list[Token] = []
    for match in pattern.finditer(text):
        kind = match.lastgroup or OTHER
        if kind == OPEN:
            raise Unreadable(f"the quote {match.group()} at character {match.start() + 1} is not closed")
        if kind == END and _is_complete(tokens):
            yield start, tokens
            start, tokens = match.end(), []
        elif kind != SPACE:
            tokens.append((kind, match.group()))
        elif tokens:
            tokens.append((SPACE, " "))
    yield start, tokens


def _is_complete(tokens: list[Token]) -> bool:
    """Return whether a semicolon ends this statement. In a trigger, only the semicolon after END does."""
    words = [text.lower() for kind, text in tokens[:12] if kind == WORD]
    is_trigger = words[:1] == ["create"] and "trigger" in words[1:3]
    if is_trigger and any(text.lower() == "begin" for _, text in tokens):
        return next((text.lower() for kind, text in reversed(tokens) if kind != SPACE), "") == "end"
    return True


def text_of(tokens: list[Token]) -> str:
    return "".join(text for _, text in tokens).strip()


def quote_stored_numbers(tokens: list[Token]) -> list[Token]:
    """Return the tokens with quotes around numbers that MySQL stores in columns as they are spelled."""
    places = [place for place, (kind, _) in enumerate(tokens) if kind != SPACE]
    words = [*(tokens[place][1].lower() for place in places), "", "", ""]
    inserts = words[0] in ("insert", "replace")
    if not inserts and words[0] != "update":
        return tokens
    out = list(tokens)
    depth, inside = 0, False
    # The words between which a value lies.
    before, after = ("(,", ",)") if inserts else ("=", (",", "", *_AFTER_SET))
    for number, place in enumerate(places):
        word = words[number]
        if depth == 0 and tokens[place][0] == WORD:
            inside = word in (("values", "value") if inserts else ("set",)) or (inside and word not in after)
        depth += (word == "(") - (word == ")")
        signed = words[number + 1] == "-"
        value = number + 1 + signed
        if (
            inside
            and depth == inserts
            and word in before
            and words[value + 1] in after
            and _KEPT_AS_TEXT.fullmatch(words[value])
        ):
            whole, point, rest = words[value].partition(".")
            kept = (whole.lstrip("0") or "0") + (point + rest if rest else "")
            out[places[value]] = (STRING, f"'{'-' * signed}{kept}'")
            if signed:
                out[places[number + 1]] = (SPACE, " ")
    return out


def rewrite_show(tokens: list[Token]) -> tuple[str, tuple[str, ...]] | None:
    """Return the query that answers SHOW, DESCRIBE and the like, and its parameters. None for the rest.

    The parameters are names of tables. USE and SET do nothing here. Raises Unreadable for a SHOW without an
    equivalent.
    """
    text = text_of(tokens)
    plain = re.sub("(?i)^show (?:(?:full|extended) )+", "show ", text)
    for pattern, sql in _SHOWS:
        found = pattern.fullmatch(plain)
        if found is not None:
            return sql, tuple(_name_of(name) for name in found.groups())
    if re.match(r"(?i)show\b", text):
        raise Unreadable(
            "the database is SQLite and supports only SHOW TABLES, DATABASES, COLUMNS, INDEX and CREATE TABLE"
        )
    return None


def _name_of(text: str) -> str:
    mark = text[-1]
    return text[1:-1].replace(mark * 2, mark) if mark in "'\"`" and text[0] == mark else text


def prepare_for_parser(tokens: list[Token], *, quotes_are_strings: bool) -> tuple[str, frozenset[str]]:
    """Return a statement in the form that `mysql_dialect` reads, and the names that were in double quotes.

    The tokens were read with escapes. In the result, literals escape only their quote, by doubling it,
    because sqlglot knows fewer escapes than MySQL. REPLACE becomes INSERT OR REPLACE, and modifiers of
    priority are removed. Unless `quotes_are_strings`, words in double quotes are names, which SQLite may read
    as texts.
    """
    out: list[str] = []
    loose: set[str] = set()
    for kind, text in _remove_modifiers(tokens):
        if kind == STRING or (kind == QUOTED and quotes_are_strings):
            out.append("'" + _value_of(text).replace("\\", "\\\\").replace("'", "''") + "'")
        elif kind == QUOTED:
            loose.add(_value_of(text))
            out.append("`" + _value_of(text).replace("`", "``") + "`")
        else:
            out.append(text)
    return "".join(out).strip(), frozenset(loose)


def _remove_modifiers(tokens: list[Token]) -> list[Token]:
    words = [token for token in tokens if token[0] != SPACE]
    first = words[0][1].lower() if words else ""
    if first not in _CHANGES:
        return tokens
    unwanted = (*_MODIFIERS, "ignore") if first in ("update", "delete") else _MODIFIERS
    place = tokens.index(words[0]) + 1
    while place < len(tokens) and (tokens[place][0] == SPACE or tokens[place][1].lower() in unwanted):
        place += 1
    rest = tokens[place:]
    # REPLACE may also be the function.
    if first != "replace" or (rest and rest[0][1] == "("):
        return [(WORD, first), (SPACE, " "), *rest]
    into = "" if rest and rest[0][1].lower() == "into" else "INTO "
    return [(WORD, f"INSERT OR REPLACE {into}"), *rest]


def _value_of(literal: str) -> str:
    """Return the value of a quoted text or name, with MySQL's escapes replaced."""
    return _ESCAPES[literal[0]].sub(_character, literal[1:-1])


def _character(found: re.Match[str]) -> str:
    letter = found.group(1)
    return found.group(2) if letter is None else _ESCAPED.get(letter, letter)
