"""The digits after the point that MySQL writes of an exact number, by the expression that computes it.

SQLite has no exact numbers. It computes 1.50 * 2 as 3.0, and MySQL stores 3.00 in a TEXT.
"""

from __future__ import annotations

import re

from sqlglot import exp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The function for each type of CAST.
CASTS = {
    **dict.fromkeys(("CHAR", "NCHAR", "VARCHAR", "NVARCHAR", "TEXT", "CHARACTER_SET"), "to_char"),
    **dict.fromkeys(("BINARY", "VARBINARY"), "to_binary"),
    **dict.fromkeys(("BIGINT", "INT", "MEDIUMINT", "SMALLINT", "TINYINT", "YEAR"), "to_signed"),
    **dict.fromkeys(("UBIGINT", "UINT"), "to_unsigned"),
    **dict.fromkeys(("DOUBLE", "FLOAT"), "to_double"),
    **dict.fromkeys(("DATETIME", "TIMESTAMP"), "timestamp"),
    "DECIMAL": "to_decimal",
    "DATE": "date",
    "TIME": "time",
}
# These return one of their arguments, as a text if another argument is a text.
CHOOSING = ("ifnull", "coalesce", "greatest", "least")


def scale_of(node: Any) -> int | None:
    """Return how many digits after the point MySQL writes of an exact number, and None for other values."""
    if isinstance(node, exp.Literal):
        is_exact = not node.is_string and "e" not in node.this.lower()
        return min(30, len(node.this.partition(".")[2])) if is_exact else None
    if isinstance(node, (exp.Paren, exp.Neg)):
        return scale_of(node.this)
    if isinstance(node, exp.Cast):
        sizes = [size.name for size in node.args["to"].expressions]
        scales = {"to_decimal": int((*sizes, "0", "0")[1]), "to_signed": 0, "to_unsigned": 0}
        return scales.get(CASTS.get(getattr(node.args["to"].this, "name", ""), ""))
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)):
        one, other = scale_of(node.this), scale_of(node.expression)
        if one is None or other is None:
            return None
        places = {"mul": one + other, "div": one + 4, "intdiv": 0}
        return min(30, places.get(node.key, max(one, other)))
    if isinstance(node, exp.Case):
        return _common([*(each.args["true"] for each in node.args["ifs"]), node.args.get("default")])
    if isinstance(node, exp.If):
        return _common([node.args["true"], node.args.get("false")])
    if not isinstance(node, exp.Anonymous) or not node.expressions:
        return None
    name = node.name.lower()
    if name in CHOOSING:
        return _common(node.expressions)
    scale = scale_of(node.expressions[0])
    if scale is None or name in ("sum", "min", "max", "abs"):
        return scale
    return scale + 4 if name == "avg" else digits_shown(node)


def _common(values: list[Any]) -> int | None:
    """Return the scale of whichever of these values is chosen."""
    scales = [scale_of(value) for value in values if value is not None and not isinstance(value, exp.Null)]
    return None if None in scales or not scales else max(scale or 0 for scale in scales)


def digits_shown(node: exp.Expr) -> int | None:
    """Return the digits after the point that ROUND and TRUNCATE show."""
    if not isinstance(node, exp.Anonymous) or node.name.lower() not in ("round", "truncate"):
        return None
    digits = node.expressions[1].unnest().sql() if len(node.expressions) > 1 else "0"
    return min(30, int(digits)) if re.fullmatch(r"\d\d?", digits, re.ASCII) else None
