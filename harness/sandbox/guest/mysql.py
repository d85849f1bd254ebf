"""MySQL's dialect met half way: statements told apart, and rewritten where SQLite does not read them.

Only the words are looked at, never the grammar: what this does not know goes to SQLite as it came, and
SQLite says what it thinks of it. All of it takes time in proportion to the text.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Token = tuple[str, str]

SPACE, STRING, QUOTED, NAME, WORD, NUMBER, END, OTHER = (
    "space",
    "string",
    "quoted",
    "name",
    "word",
    "number",
    "end",
    "other",
)
# A quote that nothing closes: the text goes on in a literal to its end.
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
    r"""(?P<space>\s+|--(?=\s|\Z)[^\n]*|\#[^\n]*|/\*.*?\*/|/\*.*)
    |(?P<string>'[^'\\]*(?:(?:''|\\.)[^'\\]*)*')
    |(?P<quoted>"[^"\\]*(?:(?:""|\\.)[^"\\]*)*")
    |(?P<name>`[^`]*(?:``[^`]*)*`)"""
    + _COMMON,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)|(['\"])\2", re.DOTALL)
# What MySQL writes for characters; of % and _ it keeps the backslash, for LIKE.
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "", "Z": "\x1a", "%": "\\%", "_": "\\_"}
# SQLite has these as words of its grammar, so that no function can have the name.
_FUNCTIONS = {"left": "mysql_left", "right": "mysql_right"}
_OPERATORS = {"rlike": "REGEXP", "mod": "%", "<=>": "IS", "&&": "AND", "xor": "<>"}
_INSERTS = ("insert", "replace")
_COMPARISONS = ("=", "==", "<", ">", "<=", ">=", "<>", "!=", "between")
# Words that stand before a number without being what it is compared with.
_NO_COLUMNS = ("and", "or", "not", "where", "is", "in", "like", "null", "then", "else", "end", "case", "when")
_AFTER_SET = ("where", "order", "limit", "from", "returning")
# A number that SQLite would not give back as MySQL keeps it: 7.50, 5., and more digits than a double has.
_KEPT_AS_TEXT = re.compile(r"\d+\.(?:\d*0)?|\d{16,}|(?=[\d.]{17})\d*\.\d+")


class Unreadable(Exception):
    """The text cannot be told into statements, or asks for what is not there; the message says which."""


def statements(text: str, *, escapes: bool) -> Iterator[tuple[int, list[Token]]]:
    """Yield (where it starts, its tokens) for each statement of the text.

    `escapes` reads as MySQL does: a backslash escapes, and `#` starts a comment. Raises Unreadable
    for a quote that is not closed.
    """
    pattern = _MYSQL if escapes else _SQLITE
    start = 0
    tokens: list[Token] = []
    for match in pattern.finditer(text):
        kind = match.lastgroup or OTHER
        if kind == OPEN:
            raise Unreadable(f"the quote {match.group()} at character {match.start() + 1} is not closed")
        if kind == END and _complete(tokens):
            yield start, tokens
            start, tokens = match.end(), []
        elif kind != SPACE:
            tokens.append((kind, match.group()))
        elif tokens:
            tokens.append((SPACE, " "))
    yield start, tokens


def text_of(tokens: list[Token]) -> str:
    return "".join(text for _, text in tokens).strip()


def as_stored(tokens: list[Token]) -> list[Token]:
    """Quote the numbers that are written to columns and that MySQL would store as they are written."""
    words = [number for number, token in enumerate(tokens) if token[0] != SPACE]
    first = _word(tokens, words, 0)
    if first in _INSERTS:
        return _quoted_numbers(tokens, words, _values_places(tokens, words))
    if first == "update":
        return _quoted_numbers(tokens, words, _set_places(tokens, words))
    return tokens


def translated(tokens: list[Token], *, meant_for_mysql: bool) -> str:
    """Return the statement, whose tokens were read with escapes, for SQLite.

    Where it was `meant_for_mysql`, "text" is a text (to SQLite a name, or a text where there is no such
    name), and what is compared with a number is compared as one.
    """
    out = [_plain(token, meant_for_mysql) for token in tokens if token[0] != SPACE]
    if meant_for_mysql:
        out = _as_numbers(out)
    for rewrite in (_transaction, _insert, _update, _create, _truncate, _operators, _calls):
        out = rewrite(out)
    return text_spaced(out)


def shown(tokens: list[Token]) -> tuple[str, tuple[str, ...]] | None:
    """Return the query, with parameters, that answers SHOW, DESCRIBE and their like; None for others.

    The parameters are names of tables. USE and SET have nothing to do here. Raises Unreadable for
    what cannot be shown.
    """
    words = [token for token in tokens if token[0] != SPACE]
    said = [text.lower() for _, text in words]
    if not said:
        return None
    if said[0] in ("use", "set") and len(said) > 1:
        return "SELECT 'nothing to do: this is SQLite' AS note", ()
    if said[0] in ("describe", "desc") or (said[0] == "explain" and len(words) == 2):
        names = words[2:] if said[1:2] == ["table"] else words[1:]
        return _columns_of(names)
    if said[0] != "show":
        return None
    said = [word for word in said if word not in ("full", "extended")]
    if said[1:2] in (["tables"], ["table"]):
        return "SELECT name AS \"Tables\" FROM sqlite_master WHERE type IN ('table', 'view')", ()
    if said[1:2] in (["databases"], ["schemas"]):
        return 'SELECT name AS "Database" FROM pragma_database_list', ()
    named = [token for token in words if token[1].lower() not in ("full", "extended")][3:]
    if said[1:3] in (["columns", "from"], ["columns", "in"], ["fields", "from"], ["fields", "in"]):
        return _columns_of(named)
    if said[1:3] in (["create", "table"], ["create", "view"]) and named:
        name = name_of(named[-1])
        return 'SELECT name AS "Table", sql AS "Create Table" FROM sqlite_master WHERE name = ?', (name,)
    if said[1:2] in (["index"], ["indexes"], ["keys"]) and named:
        return 'SELECT name, "unique", origin FROM pragma_index_list(?)', (name_of(named[-1]),)
    raise Unreadable("this is SQLite: of SHOW there are TABLES, DATABASES, COLUMNS, INDEX and CREATE TABLE")


def name_of(token: Token) -> str:
    """The name that a word or a quoted name stands for."""
    kind, text = token
    if kind in (QUOTED, STRING, NAME):
        mark = text[-1]
        return text[1:-1].replace(mark * 2, mark)
    return text


def _columns_of(names: list[Token]) -> tuple[str, tuple[str, ...]]:
    if not names:
        raise Unreadable("the name of a table is missing")
    last = names[2] if len(names) > 2 and names[1][1] == "." else names[0]
    return (
        'SELECT name AS "Field", type AS "Type", iif("notnull", \'NO\', \'YES\') AS "Null",'
        " iif(pk, 'PRI', '') AS \"Key\", dflt_value AS \"Default\" FROM pragma_table_info(?)",
        (name_of(last),),
    )


def _complete(tokens: list[Token]) -> bool:
    """Whether a semicolon ends this: in a trigger only the one after END does."""
    words = [text.lower() for kind, text in tokens[:12] if kind == WORD]
    created = words[:1] == ["create"]
    if created and "trigger" in words[1:3] and any(text.lower() == "begin" for _, text in tokens):
        last = next((token for token in reversed(tokens) if token[0] != SPACE), ("", ""))
        return last[1].lower() == "end"
    return True


def _word(tokens: list[Token], words: list[int], place: int) -> str:
    return tokens[words[place]][1].lower() if place < len(words) else ""


def _values_places(tokens: list[Token], words: list[int]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield where the values of an INSERT start, each with what may come after it."""
    depth = 0
    seen = False
    for place, number in enumerate(words):
        text = tokens[number][1].lower()
        seen = seen or (depth == 0 and text in ("values", "value"))
        depth += (text == "(") - (text == ")")
        if seen and depth == 1 and text in ("(", ","):
            yield place + 1, (",", ")")


def _set_places(tokens: list[Token], words: list[int]) -> Iterator[tuple[int, tuple[str, ...]]]:
    depth = 0
    inside = False
    for place, number in enumerate(words):
        text = tokens[number][1].lower()
        if depth == 0 and tokens[number][0] == WORD:
            inside = text == "set" or (inside and text not in _AFTER_SET)
        depth += (text == "(") - (text == ")")
        if inside and depth == 0 and text == "=":
            yield place + 1, (",", "", *_AFTER_SET)


def _quoted_numbers(
    tokens: list[Token], words: list[int], places: Iterator[tuple[int, tuple[str, ...]]]
) -> list[Token]:
    out = list(tokens)
    for place, after in places:
        signed = _word(tokens, words, place) == "-"
        value = place + signed
        if (
            value < len(words)
            and tokens[words[value]][0] == NUMBER
            and _word(tokens, words, value + 1) in after
        ):
            text = tokens[words[value]][1]
            if _KEPT_AS_TEXT.fullmatch(text):
                whole, point, rest = text.partition(".")
                kept = (whole.lstrip("0") or "0") + (point + rest if rest else "")
                out[words[value]] = (STRING, f"'{'-' * signed}{kept}'")
                if signed:
                    out[words[place]] = (SPACE, " ")
    return out


def _plain(token: Token, quotes_are_strings: bool) -> Token:
    kind, text = token
    if kind not in (STRING, QUOTED):
        return token
    mark = "'" if kind == STRING or quotes_are_strings else '"'
    plain = _ESCAPE.sub(lambda found: _character(found), text[1:-1])
    return (STRING if mark == "'" else QUOTED), mark + plain.replace(mark, mark * 2) + mark


def _character(found: re.Match[str]) -> str:
    letter = found.group(1)
    return found.group(2) if letter is None else _ESCAPED.get(letter, letter)


def _is(tokens: list[Token], place: int, *words: str) -> bool:
    return all(
        place + offset < len(tokens) and tokens[place + offset][1].lower() == word
        for offset, word in enumerate(words)
    )


def _transaction(tokens: list[Token]) -> list[Token]:
    return [(WORD, "BEGIN")] if _is(tokens, 0, "start", "transaction") else tokens


def _truncate(tokens: list[Token]) -> list[Token]:
    if not _is(tokens, 0, "truncate"):
        return tokens
    return [(WORD, "DELETE FROM"), *tokens[2 if _is(tokens, 1, "table") else 1 :]]


def _insert(tokens: list[Token]) -> list[Token]:
    """INSERT IGNORE, without INTO, with VALUE, or with SET."""
    if not tokens or tokens[0][1].lower() not in _INSERTS:
        return tokens
    head, rest = tokens[0][1], tokens[1:]
    if _is(rest, 0, "ignore"):
        head, rest = f"{head} OR IGNORE", rest[1:]
    if rest and rest[0][1].lower() not in ("into", "or"):
        head += " INTO"
    place = _top(rest, "set")
    if place is not None and _top(rest[:place], "values") is None and _top(rest[:place], "select") is None:
        parts = [_parted(part, "=") for part in _split(rest[place + 1 :])]
        names = ", ".join(text_spaced(name) for name, _ in parts)
        values = ", ".join(text_spaced(value) for _, value in parts)
        return [(WORD, head), *rest[:place], (OTHER, f"({names}) VALUES ({values})")]
    place = _top(rest, "value")
    if place is not None:
        rest = [*rest[:place], (WORD, "VALUES"), *rest[place + 1 :]]
    return [(WORD, head), *rest]


def _update(tokens: list[Token]) -> list[Token]:
    """SET t.a = 1: SQLite wants the column alone."""
    place = _top(tokens, "set") if _is(tokens, 0, "update") else None
    if place is None:
        return tokens
    end = next(
        (at for word in _AFTER_SET if (at := _top(tokens, word)) is not None and at > place), len(tokens)
    )
    parts = []
    for part in _split(tokens[place + 1 : end]):
        if len(part) > 3 and part[1][1] == "." and part[3][1] == "=":
            part = part[2:]
        parts += [(OTHER, ","), *part]
    return [*tokens[: place + 1], *parts[1:], *tokens[end:]]


def _create(tokens: list[Token]) -> list[Token]:
    """CREATE TABLE ... ENGINE=InnoDB: what follows the columns says nothing to SQLite."""
    if not _is(tokens, 0, "create", "table") or _top(tokens, "select") is not None:
        return tokens
    last = max((place for place, token in enumerate(tokens) if token[1] == ")"), default=len(tokens) - 1)
    return [token for token in tokens[: last + 1] if token[1].lower() != "auto_increment"]


def _as_numbers(tokens: list[Token]) -> list[Token]:
    """WHERE a = 2012: MySQL takes the number at the start of the text, SQLite compares texts."""
    place = _top(tokens, "where")
    if place is None:
        return tokens
    out = tokens[: place + 1]
    for at in range(place + 1, len(tokens)):
        kind, text = tokens[at]
        column = kind == NAME or (kind == WORD and text.lower() not in _NO_COLUMNS)
        compared = _text_at(tokens, at + 1) in _COMPARISONS and _number_at(tokens, at + 2)
        listed = _is(tokens, at + 1, "in", "(") and _number_at(tokens, at + 3)
        # Of t.a the column is what comes last, and t goes with it.
        if column and (compared or listed) and _text_at(tokens, at - 1) != ".":
            out.append((OTHER, f"({text} + 0)"))
        else:
            out.append(tokens[at])
    return out


def _number_at(tokens: list[Token], place: int) -> bool:
    place += _text_at(tokens, place) == "-"
    return place < len(tokens) and tokens[place][0] == NUMBER


def _text_at(tokens: list[Token], place: int) -> str:
    return tokens[place][1].lower() if 0 <= place < len(tokens) else ""


def _operators(tokens: list[Token]) -> list[Token]:
    return [
        (OTHER, _OPERATORS[text.lower()])
        if kind in (WORD, OTHER) and text.lower() in _OPERATORS and not _is(tokens, place + 1, "(")
        else (kind, text)
        for place, (kind, text) in enumerate(tokens)
    ]


def _calls(tokens: list[Token]) -> list[Token]:
    out = list(tokens)
    for place, (kind, text) in enumerate(tokens):
        if kind != WORD:
            continue
        called = _is(tokens, place + 1, "(")
        if called and text.lower() in _FUNCTIONS:
            out[place] = (WORD, _FUNCTIONS[text.lower()])
        elif text.lower() == "separator" and place + 1 < len(tokens) and tokens[place + 1][0] == STRING:
            out[place] = (OTHER, ",")
    return out


def text_spaced(tokens: list[Token]) -> str:
    """The tokens as text, with blanks as people set them: columns of a result are named after it."""
    pieces: list[str] = []
    before = "("
    for _, text in tokens:
        if before not in ("(", ".") and text not in ("(", ")", ",", "."):
            pieces.append(" ")
        pieces.append(text)
        before = text
    return "".join(pieces)


def _top(tokens: list[Token], word: str) -> int | None:
    """Where `word` stands outside all parentheses."""
    depth = 0
    for place, (kind, text) in enumerate(tokens):
        depth += (text == "(") - (text == ")")
        if depth == 0 and kind == WORD and text.lower() == word:
            return place
    return None


def _split(tokens: list[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token[1] == "(") - (token[1] == ")")
        if depth == 0 and token[1] == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _parted(tokens: list[Token], mark: str) -> tuple[list[Token], list[Token]]:
    for place, token in enumerate(tokens):
        if token[1] == mark:
            return tokens[:place], tokens[place + 1 :]
    return tokens, []
