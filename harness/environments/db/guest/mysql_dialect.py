"""Translate MySQL's statements to SQLite with sqlglot's own transpiler, and functions where the two differ.

sqlglot knows the grammar of both. Where an operator or function means something else in SQLite, the writer
below calls a function that behaves as in MySQL (`mysql_functions`). Each value that is written to a column
is stored as MySQL stores it in a TEXT. Only children of PID 1 run this module, and only if a
statement needs it, because the import takes a tenth of a second and 35 MB.
"""

from __future__ import annotations

import logging
import re
import sys

from sqlglot import exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import SqlglotError
from sqlglot.generators.sqlite import SQLiteGenerator
from sqlglot.parsers.mysql import MySQLParser

from .mysql import Unreadable, Wrong
from .mysql_functions import FUNCTIONS, PREFIX
from .mysql_scales import CASTS, CHOOSING, digits_shown, scale_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_CHARACTERS = 200_000
MAX_NODES = 100_000
MAX_WRITTEN_CHARACTERS = 1_000_000
# A level of nesting takes about twenty frames of the parser. SQLite itself accepts a hundred levels.
_RECURSION_LIMIT = 6000
# The arguments of these functions are more than a list of expressions.
_GRAMMATICAL = (
    *(
        *("CAST", "CHAR", "CONVERT", "EXTRACT", "GROUP_CONCAT", "MATCH", "POSITION", "SUBSTR", "SUBSTRING"),
        "TRIM",
    ),
    "VALUES",
)
# SQLite allows 127 arguments for a function.
_MOST_ARGUMENTS = 100
_OPERATORS = (
    *(exp.Div, exp.IntDiv, exp.Mod, exp.Xor),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift, exp.BitwiseRightShift),
)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
# These write their argument as text, so a DECIMAL needs all digits after its point.
_WRITING = (
    *("concat", "concat_ws", "length", "char_length", "lpad", "rpad", "replace", "left", "right", "reverse"),
)
# SQLite has these under the same name and with another meaning.
_OTHERWISE_IN_SQLITE = ("quote", "unhex")


def translate(text: str, loose: frozenset[str] = frozenset()) -> str:
    """Return a statement for SQLite.

    `text` is the result of `mysql.prepare_for_parser`. Raises Unreadable.
    """
    if len(text) > MAX_CHARACTERS:
        raise Unreadable(f"the statement is longer than {MAX_CHARACTERS:,} characters")
    # SQLite reports the same faults, so the warnings of sqlglot are not needed.
    logging.disable(logging.CRITICAL)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(_RECURSION_LIMIT)
    try:
        found = _Dialect().parse(text)
        if len(found) != 1 or found[0] is None:
            raise Unreadable("there must be exactly one statement")
        if isinstance(found[0], exp.Command):
            raise Unreadable(f"near {found[0].name[:50]!r}: syntax error")
        for number, _ in enumerate(found[0].bfs()):
            if number > MAX_NODES:
                raise Unreadable(f"the statement has more than {MAX_NODES:,} parts")
        writer = _Writer(dialect=SQLite(), comments=False)
        writer.loose = loose
        return writer.generate(found[0], copy=False)
    except (Unreadable, MemoryError):
        raise
    except RecursionError:
        raise Unreadable("the statement is nested too deeply") from None
    except SqlglotError as error:
        raise Unreadable(_describe_error(error)) from None
    except Exception as error:
        # The parser accepts some invalid statements, and their trees can make the writer raise anything.
        raise Unreadable(f"the statement cannot be translated ({type(error).__name__})") from error
    finally:
        sys.setrecursionlimit(before)


def _describe_error(error: SqlglotError) -> str:
    details = getattr(error, "errors", None)
    if not details:
        return re.sub(r"\x1b\[\d*m", "", f"{error}".partition("\n")[0])[:300] or "syntax error"
    first = details[0]
    near = f"near {first['highlight'][:50]!r}: " if first.get("highlight") else ""
    return f"{near}syntax error: {first.get('description') or 'unreadable statement'}"[:300]


class _Parser(MySQLParser):
    # Functions keep their spelling, because sqlglot's own forms would lose MySQL's meaning.
    FUNCTIONS = {}  # noqa: RUF012
    FUNCTION_PARSERS = {name: MySQLParser.FUNCTION_PARSERS[name] for name in _GRAMMATICAL}  # noqa: RUF012


class _Dialect(MySQL):
    Parser = _Parser


class _Writer(SQLiteGenerator):
    """Writes a statement of MySQL's meaning for SQLite. The table `_FORMS` names what it writes as calls."""

    # Names in double quotes in an agent's statement. They keep them, and SQLite may read them as texts.
    loose: frozenset[str] = frozenset()
    # The values that an UPDATE has assigned to columns, because MySQL assigns in order and SQLite at once:
    # after SET a = 1, b = a, MySQL stores 1 in b.
    assigned: tuple[str, dict[str, str]] = ("", {})
    # The name of the inserted row in ON DUPLICATE KEY UPDATE.
    inserted = ""

    def call(self, name: str, *parts: Any) -> str:
        return f"{PREFIX}{name}({', '.join(self.sql(part) for part in parts if part is not None)})"

    def quote(self, value: str) -> str:
        if "\0" in value:  # A NUL character would end the statement.
            return f"CAST(x'{value.encode('utf-8', 'surrogateescape').hex()}' AS TEXT)"
        return "'" + value.replace("'", "''") + "'"

    def literal_sql(self, expression: exp.Literal) -> str:
        return self.quote(str(expression.this)) if expression.is_string else str(expression.this)

    def identifier_sql(self, expression: exp.Identifier) -> str:
        """Write a name so that SQLite never reads it as a text, unless it is loose."""
        name = str(expression.this)
        mark = '"' if name in self.loose else "`"
        return mark + name.replace(mark, 2 * mark) + mark

    def column_sql(self, expression: exp.Column) -> str:
        owner, name = expression.table.lower(), expression.name.lower()
        table, values = self.assigned
        if name in values and owner in ("", table) and expression.find_ancestor(exp.Select) is None:
            return values[name]
        if owner and owner == self.inserted:
            return f"excluded.{self.sql(expression.this)}"
        return ".".join(self.sql(expression, part) for part in ("table", "this") if expression.args.get(part))

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        expression.set("db", None)
        expression.set("catalog", None)
        return super().table_sql(expression, sep)

    def from_sql(self, expression: exp.From) -> str:
        table = expression.this
        nothing = isinstance(table, exp.Table) and table.name.upper() == "DUAL" and not table.this.quoted
        return "" if nothing else super().from_sql(expression)

    def operand(self, value: exp.Expr) -> str:
        """Write a side of a comparison. It is bytes if its collation compares bytes."""
        plain = value.unnest()
        if isinstance(plain, exp.Collate) and _is_binary(plain):
            return self.call("as_bytes", plain.this)
        return self.sql(value)

    def stored(self, value: exp.Expr) -> str:
        """Write a value as MySQL stores it in a TEXT."""
        plain = value.unnest()
        is_number = isinstance(plain, (exp.Literal, exp.Neg)) and not plain.is_string
        said = re.fullmatch(r"(-?)0*(\d*)\.?(\d*)", plain.sql()) if is_number else None
        if said is not None:
            sign, whole, rest = said.groups()
            return self.quote((sign * bool(whole or rest) + (whole or "0")) + f".{rest}" * bool(rest))
        if isinstance(plain, (exp.Column, exp.Var)) and plain.sql().upper() == "DEFAULT":
            return "NULL"  # The columns of a task's tables have no default but NULL.
        if plain.is_string or isinstance(plain, (exp.Null, exp.Column)):
            return self.sql(value)
        scale = scale_of(plain)
        if isinstance(plain, exp.Div) and scale is not None:
            one, other = scale_of(plain.this) or 0, scale_of(plain.expression) or 0
            digits = 9 * (-(-one // 9) - (-other // 9)) or 9
            return self.call("quotient", plain.this, plain.expression, str(digits))
        return self.call("stored", value, None if scale is None else str(scale))

    def written(self, value: exp.Expr) -> str:
        """Write a value for a function that reads it as a text."""
        scale = scale_of(value) or digits_shown(value)
        return self.call("stored", value, str(scale)) if scale else self.sql(value)

    def called(self, node: exp.Expr) -> str:
        name, *parts = _CALLS[type(node)]
        return self.call(name, *(self.operand(node.args[part]) for part in parts if node.args.get(part)))

    def compared(self, node: exp.Expr) -> str:
        ones, others = _cells(node.this), _cells(node.expression)
        if ones is None and others is None:
            return self.call(node.key, self.operand(node.this), self.operand(node.expression))
        if type(node) not in (exp.EQ, exp.NEQ) or not ones or not others or len(ones) != len(others):
            raise _not_yet("this comparison of rows")
        return "NOT " * isinstance(node, exp.NEQ) + self.equal_rows(ones, others)

    def equal_rows(self, ones: list[exp.Expr], others: list[exp.Expr]) -> str:
        pairs = (self.call("eq", self.operand(one), self.operand(other)) for one, other in zip(ones, others))
        return "(" + " AND ".join(pairs) + ")"

    def in_sql(self, expression: exp.In) -> str:
        if expression.args.get("query") is not None:
            return self.among_rows(expression, negated=False)
        values = expression.expressions
        cells, *rows = (_cells(value) for value in (expression.this, *values))
        if cells and all(row is not None and len(row) == len(cells) for row in rows):
            return "(" + " OR ".join(self.equal_rows(cells, row or []) for row in rows) + ")"
        if not values or cells or any(rows):
            raise _not_yet("this form of IN")
        one, others = self.operand(expression.this), [self.operand(value) for value in values]
        starts = range(0, len(others), _MOST_ARGUMENTS)
        return (
            "(" + " OR ".join(self.call("in", one, *others[at : at + _MOST_ARGUMENTS]) for at in starts) + ")"
        )

    def among_rows(self, expression: exp.In, *, negated: bool) -> str:
        """Compare with rows as MySQL does, because SQLite would give the rows the affinity of the column."""
        select = expression.args["query"].unnest()
        if not isinstance(select, exp.Select) or len(select.expressions) != 1 or select.is_star:
            return "NOT " * negated + super().in_sql(expression)
        label = f"{PREFIX}{id(expression)}"
        select.set("expressions", [exp.alias_(select.expressions[0].unalias(), label, quoted=True)])
        equal = self.call("eq", self.operand(expression.this), f"`{label}`")
        # NOT IN does not hold if one of the comparisons has no result.
        rows = f"SELECT 1 FROM ({self.sql(select)}) AS mysql_rows WHERE {equal}{' IS NOT 0' * negated}"
        return f"{'NOT ' * negated}EXISTS({rows})"

    def not_sql(self, expression: exp.Not) -> str:
        inner = expression.this.unnest()
        if isinstance(inner, exp.In) and inner.args.get("query") is not None:
            return self.among_rows(inner, negated=True)
        return super().not_sql(expression)

    def xor_sql(self, expression: exp.Xor, stack: list[str | exp.Expr] | None = None) -> str:
        said = self.called(expression)
        if stack is None:
            return said
        # sqlglot writes chains of AND, OR and XOR from a stack.
        stack.append(said)
        return ""

    def arithmetic(self, node: exp.Binary) -> str:
        for value, other in ((node.expression, node.this), (node.this, node.expression)):
            if isinstance(value, exp.Interval):
                return self.shifted("date_sub" if isinstance(node, exp.Sub) else "date_add", other, value)
        return self.binary(node, "-" if isinstance(node, exp.Sub) else "+")

    def shifted(self, name: str, value: exp.Expr, interval: exp.Expr) -> str:
        return self.call(name, value, interval.this, self.quote(interval.text("unit") or "DAY"))

    def like_sql(self, expression: exp.Like, escape: exp.Expr | None = None) -> str:
        parts = self.operand(expression.expression), self.operand(expression.this)
        return "NOT " * bool(expression.args.get("negate")) + self.call("like", *parts, escape)

    def escape_sql(self, expression: exp.Escape) -> str:
        found = expression.this
        negated = isinstance(found, exp.Not)
        return "NOT " * negated + self.like_sql(found.this if negated else found, expression.expression)

    def is_sql(self, expression: exp.Is) -> str:
        if isinstance(expression.expression, exp.Boolean):
            # SQLite reads IS TRUE of a text as MySQL does, once the text is a number.
            return f"({self.sql(expression, 'this')} + 0) IS {self.sql(expression, 'expression')}"
        return super().is_sql(expression)

    def case_sql(self, expression: exp.Case) -> str:
        if expression.this is not None:
            for branch in expression.args["ifs"]:
                branch.set("this", exp.EQ(this=expression.this.copy(), expression=branch.this))
            expression.set("this", None)
        return super().case_sql(expression)

    def if_sql(self, expression: exp.If) -> str:
        results = [expression.args["true"], expression.args.get("false") or exp.Null()]
        return self.call(
            "if", expression.this, *map(self.written if _any_text(results) else self.sql, results)
        )

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        name, arguments = str(expression.this).lower(), list(expression.expressions)
        if name in _OTHERWISE_IN_SQLITE:
            raise _not_yet(f"{name.upper()}()")
        if name == "values" and len(arguments) == 1:
            return f"excluded.{self.sql(arguments[0])}"
        if len(arguments) == 2 and isinstance(arguments[1], exp.Interval):
            return self.shifted(name, *arguments)
        is_text = name in _WRITING or (name in CHOOSING and _any_text(arguments))
        parts = list(map(self.written if is_text else self.sql, arguments))
        if name in ("timestampdiff", "timestampadd") and arguments:
            parts[0] = self.quote(arguments[0].name)
        if name == "round" and scale_of(expression) is not None:
            # The last argument makes the function round an exact number.
            parts = [*[*parts, "0"][:2], "1"]
        return f"{PREFIX + name if name in FUNCTIONS else expression.name}({', '.join(parts)})"

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        kind = expression.args["to"]
        name = CASTS.get(getattr(kind.this, "name", str(kind.this)))
        if name is None:
            raise _not_yet(f"CAST to {kind.sql()[:30]}")
        sizes = [size.name for size in kind.expressions] if name in ("to_decimal", "to_char") else []
        if name == "to_decimal":
            sizes = [*sizes, "0"][:2] if sizes else ["10", "0"]
        return self.call(name, expression.this, *sizes)

    def collate_sql(self, expression: exp.Collate) -> str:
        return f"{self.sql(expression, 'this')} COLLATE {'BINARY' if _is_binary(expression) else 'NOCASE'}"

    def groupconcat_sql(self, expression: exp.GroupConcat) -> str:
        value, order = expression.this, []
        if isinstance(value, exp.Order):
            value, order = value.this, value.expressions
        once = isinstance(value, exp.Distinct)
        values = value.expressions if once else [value]
        if once and isinstance(values[-1], exp.Order):
            values, order = [*values[:-1], values[-1].this], values[-1].expressions
        said = self.call("concat", *map(self.written, values))
        keys = [key for each in order for key in (each.this, str(int(bool(each.args.get("desc")))))]
        separator = expression.args.get("separator") or "','"
        return self.call("group_concat", separator, str(int(once)), said, *keys)

    def insert_sql(self, expression: exp.Insert) -> str:
        target, source = expression.this, expression.expression
        if isinstance(target, exp.Schema):
            names = [column.name.lower() for column in target.expressions]
            again = next((name for name in names if names.count(name) > 1), None)
            if again is not None:
                raise Wrong(f"the column {again!r} appears twice")
            target = target if names else target.this
        if isinstance(source, exp.Values):
            self.inserted = source.alias.lower()
            cells = [_cells(row) for row in source.expressions]
            if len(cells) > 1 and [] in cells:
                raise _not_yet("several rows without values")
            rows = [[row] if each is None else each for each, row in zip(cells, source.expressions)]
            written = (f"({', '.join(map(self.stored, row))})" for row in rows)
            said = "DEFAULT VALUES" if [] in cells else f"VALUES {', '.join(written)}"
        else:
            if isinstance(source, exp.Select) and not source.is_star:
                stored = [self.stored(each.unalias()) for each in source.expressions]
                source.set("expressions", list(map(exp.var, stored)))
            said = self.sql(source)
        way = "IGNORE" if expression.args.get("ignore") else expression.args.get("alternative")
        start = f"INSERT{f' OR {way}' if way else ''} INTO {self.sql(target)} {said}"
        return self.prepend_ctes(expression, f"{start} {self.sql(expression, 'conflict')}")

    def onconflict_sql(self, expression: exp.OnConflict) -> str:
        if not expression.args.get("duplicate"):
            return super().onconflict_sql(expression)
        return f"ON CONFLICT DO UPDATE SET {self.assignments(expression)}"

    def assignments(self, expression: exp.Expr, table: str = "") -> str:
        pairs, values = [], {}
        for pair in expression.expressions:
            value = self.stored(pair.expression)
            values[pair.this.name.lower()] = value
            self.assigned = table.lower(), values
            pairs.append(f"{self.sql(pair.this, 'this')} = {value}")
            if sum(map(len, pairs)) > MAX_WRITTEN_CHARACTERS:
                raise Unreadable(f"the assignments are longer than {MAX_WRITTEN_CHARACTERS:,} characters")
        self.assigned = "", {}
        return ", ".join(pairs)

    def update_sql(self, expression: exp.Update) -> str:
        table = expression.this
        joins = table.args.get("joins") or []
        table.set("joins", None)
        changed = f"UPDATE {self.sql(table)} SET {self.assignments(expression, table.alias_or_name)}"
        if not joins:
            return changed + self.chosen(expression, table)
        if any(join.side or join.args.get("using") for join in joins) or expression.args.get("limit"):
            raise _not_yet("UPDATE with LIMIT, USING or an outer JOIN over several tables")
        chosen = expression.args.get("where")
        conditions = [*(join.args.get("on") for join in joins), chosen and chosen.this]
        tables = ", ".join(self.sql(join.this) for join in joins)
        where = " AND ".join(f"({self.sql(each)})" for each in conditions if each)
        return f"{changed} FROM {tables} WHERE {where or 1}"

    def delete_sql(self, expression: exp.Delete) -> str:
        targets, source = expression.args.get("tables"), expression.this
        if expression.args.get("using"):
            targets, source = [expression.this], expression.args["using"][0]
        if not targets:
            return f"DELETE FROM {self.sql(source)}" + self.chosen(expression, source)
        known = {each.alias_or_name.lower(): each for each in source.find_all(exp.Table)}
        table = known.get(targets[0].name.lower())
        if len(targets) != 1 or table is None:
            raise _not_yet("DELETE from several tables")
        return f"DELETE FROM {self.sql(table.this)}" + self.chosen(expression, table, source)

    def chosen(self, expression: exp.Expr, table: exp.Expr, source: exp.Expr | None = None) -> str:
        """Write which rows change: by id, where SQLite has LIMIT and joins only in SELECT."""
        parts = {part: self.sql(expression, part) for part in ("where", "order", "limit")}
        if not parts["limit"] and source is None:
            return parts["where"]
        name, rows = self.sql(exp.to_identifier(table.alias_or_name)), self.sql(source or table)
        return f" WHERE rowid IN (SELECT {name}.rowid FROM {rows}{''.join(parts.values())})"


def _not_yet(what: str) -> Wrong:
    return Wrong(f"ERROR 1235 (42000): This version of MySQL doesn't yet support '{what}'")


def _is_binary(collate: exp.Collate) -> bool:
    return bool(collate.expression.name.lower().endswith(("_bin", "_cs", "binary")))


def _cells(value: exp.Expr) -> list[exp.Expr] | None:
    """Return the expressions of a row such as (1, 2) or ROW(1, 2), and None for a plain value."""
    plain = value.unnest()
    is_call = isinstance(plain, exp.Anonymous) and plain.name.lower() == "row"
    return list(plain.expressions) if is_call or isinstance(plain, exp.Tuple) else None


def _any_text(values: list[exp.Expr]) -> bool:
    return any(isinstance(value.unnest(), exp.Column) or value.unnest().is_string for value in values)


def _refuse(_writer: _Writer, node: exp.Expr) -> str:
    raise _not_yet(node.key.upper())


# The name of a function, and the parts of the node that are its arguments.
_CALLS: dict[type, tuple[str, ...]] = {
    **{kind: (kind.key, "this", "expression") for kind in _OPERATORS},
    exp.BitwiseNot: ("bitwisenot", "this"),
    exp.Between: ("between", "this", "low", "high"),
    exp.RegexpLike: ("regexp", "expression", "this"),
    exp.Substring: ("substring", "this", "start", "length"),
    exp.StrPosition: ("locate", "substr", "this"),
    exp.Soundex: ("soundex", "this"),
    **dict.fromkeys((exp.CurrentTimestamp, exp.Localtime, exp.Localtimestamp), ("now",)),
    exp.CurrentDate: ("curdate",),
    exp.CurrentTime: ("curtime",),
}
_FORMS: dict[type, Callable[[_Writer, Any], str]] = {
    **dict.fromkeys(_CALLS, _Writer.called),
    **dict.fromkeys(_COMPARISONS, _Writer.compared),
    **dict.fromkeys((exp.Add, exp.Sub), _Writer.arithmetic),
    **dict.fromkeys((exp.Any, exp.All, exp.Chr), _refuse),
    exp.Introducer: lambda writer, node: writer.sql(node, "expression"),
    exp.National: lambda writer, node: writer.quote(node.name),
    exp.HexString: lambda _, node: f"x'{'0' * (len(node.this) % 2)}{node.this}'",
    exp.BitString: lambda _, node: f"x'{int(node.name or '0', 2):0{max(1, (len(node.name) + 7) // 8) * 2}x}'",
    exp.Concat: lambda writer, node: writer.call("concat", *map(writer.written, node.expressions)),
    exp.Extract: lambda writer, node: writer.call("extract", writer.quote(node.name), node.expression),
    exp.Trim: lambda writer, node: writer.call(
        "trim", node.this, node.expression or "' '", writer.quote(node.args.get("position") or "BOTH")
    ),
    exp.TruncateTable: lambda writer, node: f"DELETE FROM {writer.sql(node.expressions[0])}",
}
# sqlglot prefers this table to the methods, so it gets no form of SQLite's that a method above replaces.
_SQLITES_FORMS = SQLiteGenerator.TRANSFORMS.items()
_Writer.TRANSFORMS = {kind: form for kind, form in _SQLITES_FORMS if f"{kind.key}_sql" not in vars(_Writer)}
_Writer.TRANSFORMS.update(_FORMS)
