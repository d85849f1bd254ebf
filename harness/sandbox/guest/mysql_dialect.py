"""MySQL's statements rewritten for SQLite, as trees that `sqlglot` reads and writes.

The grammar is sqlglot's; the meaning is ours. Each operator and function that SQLite understands otherwise than
MySQL becomes a call of the function that does what MySQL does (`mysql_functions`), and each value on its
way into a column is written as MySQL stores it in a TEXT. Only children of PID 1 import this module, and only
where a statement needs it: it takes a tenth of a second and 35 MB.
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

from . import mysql_functions
from .mysql import Unreadable, Wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

MAX_CHARACTERS = 200_000
MAX_NODES = 100_000
# A level of nesting takes about twenty frames of the parser. SQLite itself gives up at a hundred levels.
_RECURSION_LIMIT = 6000
_PREFIX = mysql_functions.PREFIX
# SQLite lets a function have 127 arguments.
_MOST_ARGUMENTS = 100
_COMPARISONS = {
    exp.EQ: "eq",
    exp.NEQ: "neq",
    exp.LT: "lt",
    exp.LTE: "lte",
    exp.GT: "gt",
    exp.GTE: "gte",
    exp.NullSafeEQ: "same",
}
_OPERATORS = {
    exp.Div: "divide",
    exp.IntDiv: "div",
    exp.Mod: "mod",
    exp.Xor: "xor",
    exp.BitwiseAnd: "bit_and",
    exp.BitwiseOr: "bit_or",
    exp.BitwiseXor: "bit_xor",
    exp.BitwiseLeftShift: "shift_left",
    exp.BitwiseRightShift: "shift_right",
}
_NAMELESS = {
    exp.CurrentDate: "curdate",
    exp.CurrentTime: "curtime",
    exp.CurrentTimestamp: "now",
    exp.Localtime: "now",
    exp.Localtimestamp: "now",
}
_CASTS = {
    **dict.fromkeys(("CHAR", "NCHAR", "VARCHAR", "NVARCHAR", "TEXT"), "to_char"),
    **dict.fromkeys(("BINARY", "VARBINARY"), "to_binary"),
    **dict.fromkeys(("BIGINT", "INT", "MEDIUMINT", "SMALLINT", "TINYINT"), "to_signed"),
    **dict.fromkeys(("UBIGINT", "UINT"), "to_unsigned"),
    **dict.fromkeys(("DOUBLE", "FLOAT"), "to_double"),
    **{"DECIMAL": "to_decimal", "YEAR": "to_signed", "DATE": "date", "TIME": "time"},
    **dict.fromkeys(("DATETIME", "TIMESTAMP"), "timestamp"),
}
# What these are given, they write: a DECIMAL with all digits after its point.
_WRITING = (
    "concat",
    "concat_ws",
    "length",
    "char_length",
    "lpad",
    "rpad",
    "replace",
    "left",
    "right",
    "reverse",
)
# These give back one of their arguments, as a text where another one is a text.
_CHOOSING = ("if", "ifnull", "coalesce", "greatest", "least")
_UNITS_FIRST = ("timestampdiff", "timestampadd")
_AGGREGATES = ("sum", "min", "max")


# Functions whose arguments are more than a list of expressions.
_GRAMMATICAL = (
    *(
        "CAST",
        "CHAR",
        "CONVERT",
        "EXTRACT",
        "GROUP_CONCAT",
        "MATCH",
        "POSITION",
        "SUBSTR",
        "SUBSTRING",
        "TRIM",
    ),
    "VALUES",
)


class _Parser(MySQLParser):
    # Functions stay as they were written: sqlglot's own forms would lose what is MySQL's about them.
    FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: MySQLParser.FUNCTION_PARSERS[name] for name in _GRAMMATICAL
    }


class _Dialect(MySQL):
    Parser = _Parser


class _Generator(SQLiteGenerator):
    """Writes names so that SQLite never takes one that there is not for a text.

    In double quotes it would, and that is what `loose` names had in an agent's statement.
    """

    loose: frozenset[str] = frozenset()

    def identifier_sql(self, expression: exp.Identifier) -> str:
        name = expression.this
        mark = '"' if name in self.loose else "`"
        return mark + name.replace(mark, 2 * mark) + mark

    def literal_sql(self, expression: exp.Literal) -> str:
        value = expression.this
        if not expression.is_string:
            return str(value)
        if "\0" in value:  # which would end the statement
            return f"CAST(x'{value.encode('utf-8', 'surrogateescape').hex()}' AS TEXT)"
        return "'" + value.replace("'", "''") + "'"


def translated(text: str, loose: frozenset[str] = frozenset()) -> str:
    """Return a statement of MySQL's, as `mysql.for_parser` writes it, for SQLite. Raises Unreadable."""
    if len(text) > MAX_CHARACTERS:
        raise Unreadable(f"the statement is longer than {MAX_CHARACTERS:,} characters")
    logging.disable(logging.CRITICAL)  # sqlglot warns of what SQLite will say anyway
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(_RECURSION_LIMIT)
    try:
        found = _Dialect().parse(text)
        if len(found) != 1 or found[0] is None:
            raise Unreadable("one statement is wanted")
        generator = _Generator(dialect=SQLite(), comments=False)
        generator.loose = loose
        return generator.generate(_Statement(found[0]).rewritten(), copy=False)
    except RecursionError:
        raise Unreadable("the statement is nested too deep") from None
    except SqlglotError as error:
        raise Unreadable(_complaint(error)) from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # Of a tree that no statement should have: the parser does not check all that it builds.
        raise Unreadable(f"this statement is not understood ({type(error).__name__})") from error
    finally:
        sys.setrecursionlimit(before)


def _complaint(error: SqlglotError) -> str:
    details = getattr(error, "errors", None)
    if not details:
        return re.sub(r"\x1b\[\d*m", "", f"{error}".partition("\n")[0])[:300] or "syntax error"
    first = details[0]
    near = f"near {first['highlight'][:50]!r}: " if first.get("highlight") else ""
    return f"{near}syntax error: {first.get('description') or 'not understood'}"[:300]


def _call(name: str, *arguments: Any) -> exp.Anonymous:
    return exp.Anonymous(this=_PREFIX + name, expressions=list(arguments))


def _text(value: str) -> exp.Literal:
    return exp.Literal.string(value)


def _number(value: int) -> exp.Literal:
    return exp.Literal.number(value)


class _Statement:
    """One statement on its way to SQLite, from the leaves of its tree to the root.

    `_scales` has how many digits after the point MySQL writes of an expression that is an exact number.
    """

    def __init__(self, root: exp.Expression) -> None:
        self._root = root
        self._scales: dict[int, int] = {}
        # Digits that MySQL computes of a division, of which it shows fewer; and those that ROUND shows.
        self._quotients: dict[int, int] = {}
        self._shown: dict[int, int] = {}
        self._kept: list[exp.Expression] = []

    def rewritten(self) -> exp.Expression:
        self._refuse()
        self._in_turn()
        for node in reversed(self._nodes()):
            self._replace(node)
        finish = _FINISHES.get(type(self._root))
        return finish(self, self._root) if finish else self._root

    def _nodes(self) -> list[exp.Expression]:
        nodes: list[exp.Expression] = []
        for node in self._root.bfs():
            nodes.append(node)
            if len(nodes) > MAX_NODES:
                raise Unreadable(f"the statement has more than {MAX_NODES:,} parts")
        return nodes

    def _refuse(self) -> None:
        if isinstance(self._root, exp.Command):
            raise Unreadable(f"near {self._root.name[:50]!r}: syntax error")
        schema = self._root.this
        if isinstance(self._root, exp.Insert) and isinstance(schema, exp.Schema):
            names = [column.name.lower() for column in schema.expressions]
            for name in names:
                if names.count(name) > 1:
                    raise Wrong(f"the column {name!r} is given twice")

    def _in_turn(self) -> None:
        """UPDATE t SET a = 1, b = a: MySQL assigns from left to right, and b becomes 1."""
        if not isinstance(self._root, exp.Update):
            return
        given: dict[str, exp.Expression] = {}
        for pair in self._root.expressions:
            for column in list(pair.expression.find_all(exp.Column)):
                value = given.get(column.name.lower())
                if value is not None:
                    self._kept_replace(pair, column, _call("stored", value.copy()))
            given[pair.this.name.lower()] = exp.Null() if _is_default(pair.expression) else pair.expression
            self._nodes()

    @staticmethod
    def _kept_replace(pair: exp.Expression, column: exp.Expression, value: exp.Expression) -> None:
        if column is pair.expression:
            pair.set("expression", value)
        else:
            column.replace(value)

    def _replace(self, node: exp.Expression) -> None:
        change = _CHANGES.get(type(node))
        if change is None:
            return
        new = change(self, node)
        self._kept.append(node)  # so that no other node gets its id
        if new is node:
            return
        if new is None:
            node.pop()
        elif node is self._root:
            self._root = new
        elif node.parent is not None:
            node.replace(new)

    def _scaled(self, node: exp.Expression, scale: int | None) -> exp.Expression:
        if scale is not None:
            self._kept.append(node)
            self._scales[id(node)] = min(scale, 30)
        return node

    def scale(self, node: Any) -> int | None:
        return self._scales.get(id(node))

    def stored(self, value: exp.Expression) -> exp.Expression:
        """Return the value as MySQL writes it into a TEXT."""
        plain = value.unnest()
        signed = isinstance(plain, exp.Neg) and plain.this.unnest()
        literal = signed or plain
        if isinstance(literal, exp.Literal) and not literal.is_string:
            said = _canonical(literal.this)
            if said is not None:
                return _text(f"-{said}" if signed and said != "0" else said)
        if _is_default(plain):
            return exp.Null()
        if (
            isinstance(plain, (exp.Literal, exp.Null, exp.Column))
            and not signed
            and (not isinstance(plain, exp.Literal) or plain.is_string)
        ):
            return value
        digits = self._quotients.get(id(plain))
        if digits is not None:
            return _call("quotient", *(part.copy() for part in plain.expressions), _number(digits))
        scale = self.scale(plain)
        return _call("stored", value.copy(), *([] if scale is None else [_number(scale)]))

    # Values

    def literal(self, node: exp.Expression) -> exp.Expression:
        if node.is_string:
            return node
        said = str(node.this)
        if "e" in said.lower():
            return node
        return self._scaled(node, len(said.partition(".")[2]))

    def neg(self, node: exp.Expression) -> exp.Expression:
        return self._scaled(node, self.scale(node.this))

    def paren(self, node: exp.Expression) -> exp.Expression:
        return self._scaled(node, self.scale(node.this))

    def hexadecimal(self, node: exp.Expression) -> exp.Expression:
        digits = str(node.this)
        return exp.HexString(this="0" * (len(digits) % 2) + digits)

    def bits(self, node: exp.Expression) -> exp.Expression:
        value = int(str(node.this) or "0", 2)
        return exp.HexString(this=value.to_bytes(max(1, (len(str(node.this)) + 7) // 8), "big").hex())

    def introduced(self, node: exp.Expression) -> exp.Expression:
        return node.expression if isinstance(node, exp.Introducer) else _text(node.name)

    def source(self, node: exp.Expression) -> exp.Expression | None:
        table = node.this
        nothing = isinstance(table, exp.Table) and table.name.upper() == "DUAL" and not table.this.quoted
        return None if nothing else node

    def table(self, node: exp.Expression) -> exp.Expression:
        node.set("db", None)
        node.set("catalog", None)
        return node

    def column(self, node: exp.Expression) -> exp.Expression:
        node.set("db", None)
        node.set("catalog", None)
        return node

    # Comparisons and operators

    def comparison(self, node: exp.Expression) -> exp.Expression:
        if isinstance(node.parent, exp.Update) and node.arg_key == "expressions":
            return node
        if isinstance(node.parent, exp.OnConflict) or isinstance(node.parent, exp.PropertyEQ):
            return node
        if isinstance(node.this.unnest(), exp.Tuple) or isinstance(node.expression.unnest(), exp.Tuple):
            return self._of_tuples(node)
        name = _COMPARISONS[type(node)]
        one, other = node.this, node.expression
        if isinstance(one, exp.Any) or isinstance(other, (exp.Any, exp.All)):
            raise Unreadable("ANY, SOME and ALL are not available here")
        return _call(name + _binary(one, other), one.copy(), other.copy())

    def _of_tuples(self, node: exp.Expression) -> exp.Expression:
        ones, others = node.this.unnest().expressions, node.expression.unnest().expressions
        if not isinstance(node, exp.EQ) or len(ones) != len(others) or not ones:
            return node
        pairs = [
            _call("eq" + _binary(one, other), one.copy(), other.copy()) for one, other in zip(ones, others)
        ]
        return exp.Paren(this=exp.and_(*pairs, copy=False))

    def between(self, node: exp.Expression) -> exp.Expression:
        low, high = node.args["low"], node.args["high"]
        return _call("between" + _binary(node.this, low, high), node.this.copy(), low.copy(), high.copy())

    def among(self, node: exp.Expression) -> exp.Expression:
        query = node.args.get("query")
        if isinstance(node.this.unnest(), exp.Tuple) or node.args.get("unnest") or node.args.get("field"):
            return node
        if query is not None:
            return self._among_rows(node, query)
        values = node.expressions
        groups = [values[start : start + _MOST_ARGUMENTS] for start in range(0, len(values), _MOST_ARGUMENTS)]
        name = "in" + _binary(node.this, *values)
        calls = [_call(name, node.this.copy(), *(value.copy() for value in group)) for group in groups]
        if len(calls) == 1:
            return calls[0]
        return exp.Paren(this=exp.or_(*calls, copy=False))

    def _among_rows(self, node: exp.Expression, query: exp.Expression) -> exp.Expression:
        """Compare as MySQL does: SQLite would give the rows the affinity of the column."""
        select = query.unnest()
        if not isinstance(select, exp.Select) or len(select.expressions) != 1 or select.is_star:
            return node
        label = f"{_PREFIX}{id(node)}"
        inner = select.copy()
        inner.set("expressions", [exp.alias_(inner.expressions[0].unalias(), label, quoted=True)])
        wanted = _call("eq", node.this.copy(), exp.column(label, quoted=True))
        rows = exp.select(exp.Literal.number(1)).from_(inner.subquery("mysql_rows")).where(wanted)
        return exp.Exists(this=rows)

    def operator(self, node: exp.Expression) -> exp.Expression:
        scales = self.scale(node.this), self.scale(node.expression)
        new = _call(_OPERATORS[type(node)], node.this.copy(), node.expression.copy())
        if None in scales:
            return new
        one, other = scales
        if isinstance(node, exp.Div):
            self._quotients[id(new)] = 9 * (-(-(one or 0) // 9) - (-(other or 0) // 9)) or 9
            return self._scaled(new, (one or 0) + 4)
        return self._scaled(new, max(one or 0, other or 0) if isinstance(node, exp.Mod) else 0)

    def arithmetic(self, node: exp.Expression) -> exp.Expression:
        for value, other in ((node.expression, node.this), (node.this, node.expression)):
            if isinstance(value, exp.Interval) and not isinstance(node, exp.Mul):
                return self._moved("date_sub" if isinstance(node, exp.Sub) else "date_add", other, value)
        one, other = self.scale(node.this), self.scale(node.expression)
        if one is None or other is None:
            return node
        return self._scaled(node, one + other if isinstance(node, exp.Mul) else max(one, other))

    @staticmethod
    def _moved(name: str, value: exp.Expression, interval: exp.Expression) -> exp.Expression:
        unit = interval.args.get("unit")
        return _call(name, value.copy(), interval.this.copy(), _text(unit.name if unit else "DAY"))

    def is_true(self, node: exp.Expression) -> exp.Expression:
        if not isinstance(node.expression, exp.Boolean):
            return node
        # SQLite reads IS TRUE of a text as MySQL does, once it is a number.
        return exp.Is(
            this=exp.Paren(this=exp.Add(this=node.this.copy(), expression=_number(0))),
            expression=node.expression.copy(),
        )

    def case(self, node: exp.Expression) -> exp.Expression:
        operand = node.this
        if operand is not None:
            for branch in node.args["ifs"]:
                branch.set(
                    "this", _call("eq" + _binary(operand, branch.this), operand.copy(), branch.this.copy())
                )
            node.set("this", None)
        results = [branch.args["true"] for branch in node.args["ifs"]]
        return self._scaled(node, self._common([*results, node.args.get("default")]))

    def _common(self, values: list[Any]) -> int | None:
        """The scale of whichever of these values it will be."""
        scales = [
            self.scale(value) for value in values if value is not None and not isinstance(value, exp.Null)
        ]
        return None if None in scales or not scales else max(scale or 0 for scale in scales)

    def like(self, node: exp.Expression) -> exp.Expression:
        return self._like(node, node.this, node.expression, _text("\\"))

    def escaped(self, node: exp.Expression) -> exp.Expression:
        call = node.this
        negated = isinstance(call, exp.Not)
        call = call.this if negated else call
        if not isinstance(call, exp.Anonymous) or call.name != f"{_PREFIX}like":
            return node
        pattern, value, _, binary = call.expressions
        new = _call("like", pattern.copy(), value.copy(), node.expression.copy(), binary.copy())
        return exp.Not(this=new) if negated else new

    def _like(self, node: exp.Expression, *parts: exp.Expression) -> exp.Expression:
        value, pattern, escape = parts
        binary = _number(1 if _binary(value, pattern) else 0)
        new = _call("like", _bare(pattern), _bare(value), escape, binary)
        return exp.Not(this=new) if node.args.get("negate") else new

    def regexp(self, node: exp.Expression) -> exp.Expression:
        name = "regexp" + _binary(node.this, node.expression)
        new = _call(name, _bare(node.expression), _bare(node.this))
        return exp.Not(this=new) if node.args.get("negate") else new

    # Functions

    def function(self, node: exp.Expression) -> exp.Expression:
        name = str(node.this).lower()
        if name.startswith(_PREFIX):
            return node
        if name == "row":
            return exp.Tuple(expressions=[argument.copy() for argument in node.expressions])
        arguments = list(node.expressions)
        known = name in mysql_functions.FUNCTIONS
        if name == "values" and len(arguments) == 1:
            return exp.column(arguments[0].copy(), table="excluded")
        if name in ("std", "stddev", "variance"):
            raise Unreadable(f"the function {name.upper()} is not available here")
        if known and len(arguments) == 2 and isinstance(arguments[1], exp.Interval):
            return self._moved(name, *arguments)
        if name in _UNITS_FIRST and arguments:
            arguments[0] = _text(arguments[0].name)
        if name in _WRITING or (name in _CHOOSING and _any_text(arguments[name == "if" :])):
            arguments = [self._written(argument) for argument in arguments]
        new = exp.Anonymous(
            this=(_PREFIX if known else "") + name, expressions=[argument.copy() for argument in arguments]
        )
        if name in ("round", "truncate"):
            return self._round(new, node)
        return self._scaled(new, self._scale_of(name, node.expressions))

    def _written(self, value: exp.Expression) -> exp.Expression:
        scale = self.scale(value) or self._shown.get(id(value))
        return value if not scale else _call("stored", value.copy(), _number(scale))

    def _round(self, new: exp.Anonymous, node: exp.Expression) -> exp.Expression:
        scale = self.scale(node.expressions[0]) if node.expressions else None
        digits = node.expressions[1].unnest() if len(node.expressions) > 1 else _number(0)
        if not isinstance(digits, exp.Literal) or not re.fullmatch(r"\d\d?", str(digits.this), re.ASCII):
            return new
        if scale is None:
            self._kept.append(new)
            self._shown[id(new)] = min(30, int(digits.this))
            return new
        if len(new.expressions) == 1:
            new.append("expressions", _number(0))
        if str(node.this).lower() == "round":
            new.append("expressions", _number(1))  # an exact number is rounded as one
        return self._scaled(new, int(digits.this))

    def _scale_of(self, name: str, arguments: list[Any]) -> int | None:
        if name in ("count", *_AGGREGATES) and not arguments:
            return None
        if name in ("count", "char_length", "length", "floor", "ceil", "ceiling"):
            return None  # SQLite and we make integers of them, which need no digits after the point
        if name in (*_AGGREGATES, "abs"):
            return self.scale(arguments[0].unnest())
        if name == "avg":
            scale = self.scale(arguments[0])
            return None if scale is None else scale + 4
        if name in _CHOOSING:
            return self._common(arguments[1:] if name == "if" else arguments)
        return None

    def nameless(self, node: exp.Expression) -> exp.Expression:
        return _call(_NAMELESS[type(node)])

    def conditional(self, node: exp.Expression) -> exp.Expression:
        if isinstance(node.parent, exp.Case):
            return node
        false = node.args.get("false") or exp.Null()
        new = _call("if", node.this.copy(), node.args["true"].copy(), false.copy())
        return self._scaled(new, self._common([node.args["true"], false]))

    def substring(self, node: exp.Expression) -> exp.Expression:
        parts = (node.this, node.args.get("start"), node.args.get("length"))
        return _call("substring", *(part.copy() for part in parts if part is not None))

    def trim(self, node: exp.Expression) -> exp.Expression:
        part = node.expression or _text(" ")
        return _call("trim", node.this.copy(), part.copy(), _text(node.args.get("position") or "BOTH"))

    def located(self, node: exp.Expression) -> exp.Expression:
        return _call("locate", node.args["substr"].copy(), node.this.copy())

    def extracted(self, node: exp.Expression) -> exp.Expression:
        return _call("extract", _text(node.name), node.expression.copy())

    def concatenated(self, node: exp.Expression) -> exp.Expression:
        return _call("concat", *(self._written(part).copy() for part in node.expressions))

    def characters(self, node: exp.Expression) -> exp.Expression:
        return _call("char", *(part.copy() for part in node.expressions))

    def cast(self, node: exp.Expression) -> exp.Expression:
        kind = node.args["to"]
        name = _CASTS.get(kind.this.name if hasattr(kind.this, "name") else str(kind.this))
        value = node.this.copy()
        if name is None:
            if kind.args.get("kind") or "CHARACTER SET" in kind.sql():
                return _call("to_char", value)
            raise Unreadable(f"CAST to {kind.sql()[:30]} is not available here")
        sizes = [int(size.name) for size in kind.expressions]
        if name == "to_decimal":
            precision, scale = [*sizes, 0][:2] if sizes else [10, 0]
            return self._scaled(_call(name, value, _number(precision), _number(scale)), scale)
        new = _call(name, value, *(_number(size) for size in sizes if name == "to_char"))
        return self._scaled(new, 0 if name in ("to_signed", "to_unsigned") else None)

    def collated(self, node: exp.Expression) -> exp.Expression:
        name = "BINARY" if node.expression.name.lower().endswith(("_bin", "_cs", "binary")) else "NOCASE"
        node.set("expression", exp.var(name))
        return node

    def grouped(self, node: exp.Expression) -> exp.Expression:
        value, order = node.this, []
        if isinstance(value, exp.Order):
            order, value = value.expressions, value.this
        once = isinstance(value, exp.Distinct)
        values = value.expressions if once else [value]
        if once and isinstance(values[-1], exp.Order):
            order, values = values[-1].expressions, [*values[:-1], values[-1].this]
        said = values[0] if len(values) == 1 else _call("concat", *(each.copy() for each in values))
        keys = [
            key for each in order for key in (each.this.copy(), _number(int(bool(each.args.get("desc")))))
        ]
        separator = node.args.get("separator") or _text(",")
        return _call("group_concat", separator.copy(), _number(int(once)), self._written(said).copy(), *keys)

    # Statements

    def inserted(self, node: exp.Expression) -> exp.Expression:
        source = node.expression
        if isinstance(source, exp.Values):
            source.set("alias", None)
            rows = [_cells(row) for row in source.expressions]
            if rows and not any(rows):
                return self._empty_rows(node, len(rows))
            source.set(
                "expressions", [exp.Tuple(expressions=[self.stored(cell) for cell in row]) for row in rows]
            )
        elif isinstance(source, exp.Select) and not source.is_star:
            source.set("expressions", [self.stored(each.unalias()) for each in source.expressions])
        return node

    @staticmethod
    def _empty_rows(node: exp.Expression, count: int) -> exp.Expression:
        if count != 1:
            raise Unreadable("one row without values is all that SQLite takes")
        if isinstance(node.this, exp.Schema):
            node.set("this", node.this.this)
        node.set("expression", exp.var("DEFAULT VALUES"))
        return node

    def updated(self, node: exp.Expression) -> exp.Expression:
        for pair in node.expressions:
            pair.set("expression", self.stored(pair.expression))
            pair.set("this", exp.Column(this=pair.this.this.copy()))
        joins = list(node.this.args.get("joins") or [])
        if joins:
            self._from_joins(node, joins)
        return self._bounded(node)

    @staticmethod
    def _from_joins(node: exp.Expression, joins: list[Any]) -> None:
        first, *rest = joins
        conditions = [first.args["on"]] if first.args.get("on") else []
        source = first.this.copy()
        for join in rest:
            source.append("joins", join.copy())
        node.this.set("joins", None)
        node.set("from_", exp.From(this=source))
        where = node.args.get("where")
        every = [*conditions, *([where.this] if where else [])]
        if every:
            node.set("where", exp.Where(this=exp.and_(*every)))

    def deleted(self, node: exp.Expression) -> exp.Expression:
        tables = node.args.get("tables")
        if not tables and node.args.get("using"):
            tables = [node.this.copy()]
            node.set("this", node.args["using"][0].copy())
            node.set("using", None)
        if tables:
            wanted = node.this.alias_or_name
            if len(tables) != 1 or tables[0].name.lower() != wanted.lower():
                raise Unreadable("DELETE from several tables is not available here")
            node.set("tables", None)
            if node.this.args.get("joins"):
                return self._by_row(node, keep_joins=True)
        return self._bounded(node)

    def _bounded(self, node: exp.Expression) -> exp.Expression:
        if node.args.get("limit") is None:
            node.set("order", None)
            return node
        return self._by_row(node, keep_joins=False)

    @staticmethod
    def _by_row(node: exp.Expression, *, keep_joins: bool) -> exp.Expression:
        """LIMIT and joins, which SQLite has in SELECT alone: choose the rows, then change them."""
        source = node.this.copy()
        if not keep_joins:
            source.set("joins", None)
        rows = exp.select(exp.column("rowid", table=source.alias_or_name)).from_(source)
        for part in ("where", "order", "limit"):
            if node.args.get(part) is not None:
                rows.set(part, node.args[part].copy())
                node.set(part, None)
        node.this.set("joins", None)
        node.set("where", exp.Where(this=exp.In(this=exp.column("rowid"), query=rows.subquery())))
        return node

    def emptied(self, node: exp.Expression) -> exp.Expression:
        return exp.Delete(this=node.expressions[0].copy())

    def conflicting(self, node: exp.Expression) -> exp.Expression:
        if not node.args.get("duplicate"):
            return node
        alias = node.parent.find(exp.Values) if node.parent is not None else None
        named = alias.alias if alias is not None else ""
        for pair in node.expressions:
            for column in pair.expression.find_all(exp.Column):
                if named and column.table.lower() == named.lower():
                    column.set("table", exp.to_identifier("excluded"))
            pair.set("this", exp.Column(this=pair.this.this.copy()))
            pair.set("expression", self.stored(pair.expression))
        node.set("duplicate", False)
        node.set("action", exp.var("DO UPDATE"))
        return node

    def ordered(self, node: exp.Expression) -> exp.Expression:
        node.set("nulls_first", not node.args.get("desc"))
        return node


def _any_text(values: list[Any]) -> bool:
    plain = [value.unnest() for value in values]
    return any(
        isinstance(value, exp.Column) or (isinstance(value, exp.Literal) and value.is_string)
        for value in plain
    )


def _is_default(value: exp.Expression) -> bool:
    """Whether this is the word DEFAULT: no column of a task's table has any but NULL."""
    if isinstance(value, exp.Column):
        return value.name.upper() == "DEFAULT" and not value.this.quoted
    return isinstance(value, exp.Var) and value.name.upper() == "DEFAULT"


def _binary(*values: exp.Expression) -> str:
    """The end of a comparison's name: whether one of its sides asks for bytes to be compared."""
    for value in values:
        plain = value.unnest()
        if isinstance(plain, exp.Collate) and plain.expression.name == "BINARY":
            return "_binary"
        if isinstance(plain, exp.Anonymous) and plain.name == f"{_PREFIX}to_binary":
            return "_binary"
    return ""


def _bare(value: exp.Expression) -> exp.Expression:
    """The value without what says how it compares."""
    plain = value.unnest()
    if isinstance(plain, exp.Collate):
        return plain.this.copy()
    if isinstance(plain, exp.Anonymous) and plain.name == f"{_PREFIX}to_binary":
        return plain.expressions[0].copy()
    return value.copy()


def _cells(row: exp.Expression) -> list[exp.Expression]:
    cells = row.expressions if isinstance(row, exp.Tuple) else [row]
    if len(cells) == 1 and isinstance(cells[0], exp.Anonymous) and cells[0].name.lower() == "row":
        return list(cells[0].expressions)
    return list(cells)


def _canonical(number: str) -> str | None:
    """The digits that MySQL keeps of a number as it is written: 007 is 7, .50 is 0.50. None for 1e3."""
    found = re.fullmatch(r"(\d*)\.?(\d*)", number)
    if found is None or not number.strip("."):
        return None
    whole, rest = found.groups()
    return (whole.lstrip("0") or "0") + (f".{rest}" if rest else "")


_CHANGES: dict[type, Callable[[_Statement, Any], Any]] = {
    **dict.fromkeys(_COMPARISONS, _Statement.comparison),
    **dict.fromkeys(_OPERATORS, _Statement.operator),
    **dict.fromkeys(_NAMELESS, _Statement.nameless),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _Statement.arithmetic),
    **dict.fromkeys((exp.Cast, exp.TryCast), _Statement.cast),
    **dict.fromkeys((exp.Introducer, exp.National), _Statement.introduced),
    exp.Literal: _Statement.literal,
    exp.Neg: _Statement.neg,
    exp.Paren: _Statement.paren,
    exp.HexString: _Statement.hexadecimal,
    exp.BitString: _Statement.bits,
    exp.BitwiseNot: lambda _, node: _call("bit_not", node.this.copy()),
    exp.From: _Statement.source,
    exp.Table: _Statement.table,
    exp.Column: _Statement.column,
    exp.Between: _Statement.between,
    exp.In: _Statement.among,
    exp.Is: _Statement.is_true,
    exp.Case: _Statement.case,
    exp.If: _Statement.conditional,
    exp.Like: _Statement.like,
    exp.Escape: _Statement.escaped,
    exp.RegexpLike: _Statement.regexp,
    exp.Anonymous: _Statement.function,
    exp.Substring: _Statement.substring,
    exp.Trim: _Statement.trim,
    exp.StrPosition: _Statement.located,
    exp.Extract: _Statement.extracted,
    exp.Concat: _Statement.concatenated,
    exp.Chr: _Statement.characters,
    exp.Collate: _Statement.collated,
    exp.GroupConcat: _Statement.grouped,
    exp.Ordered: _Statement.ordered,
    exp.TruncateTable: _Statement.emptied,
    exp.OnConflict: _Statement.conflicting,
}
_FINISHES: dict[type, Callable[[_Statement, Any], Any]] = {
    exp.Insert: _Statement.inserted,
    exp.Update: _Statement.updated,
    exp.Delete: _Statement.deleted,
}
