"""Change a program in one place, as a mistake would: an operator, a constant, a condition, a statement."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import setitem

_COMPARED: Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt,),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt,),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COMPUTED: Mapping[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add,),
    ast.Div: (ast.FloorDiv,),
    ast.FloorDiv: (ast.Div,),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
}
_CALLED = {"max": "min", "min": "max", "any": "all", "all": "any", "isupper": "islower", "islower": "isupper"}
_REMOVED = (ast.Assign, ast.AugAssign, ast.Expr, ast.Break, ast.Continue)

Change = Callable[[], None]


def make_mutants(program: str, name: str, most: int, seed: str) -> list[str]:
    """Return up to `most` programs that differ from `program` in one place of the function `name`."""
    places = sum(1 for _ in _list_changes(_find_function(ast.parse(program), name)))
    made: list[str] = []
    for number in random.Random(seed).sample(range(places), places):
        tree = ast.parse(program)
        for place, change in enumerate(_list_changes(_find_function(tree, name))):
            if place == number:
                change()
                break
        text = ast.unparse(ast.fix_missing_locations(tree))
        if text not in made and text != ast.unparse(ast.parse(program)):
            made.append(text)
        if len(made) == most:
            break
    return made


def _find_function(tree: ast.Module, name: str) -> ast.FunctionDef:
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return found[-1]


def _list_changes(function: ast.FunctionDef) -> Iterator[Change]:
    """Yield the changes of a function, each of which changes its tree. Only one of them may be made."""
    for node in ast.walk(function):
        match node:
            case ast.Compare():
                for place, operator in enumerate(node.ops):
                    for other in _COMPARED.get(type(operator), ()):
                        yield partial(setitem, node.ops, place, other())
            case ast.BinOp() | ast.AugAssign():
                for new in _COMPUTED.get(type(node.op), ()):
                    yield partial(setattr, node, "op", new())
            case ast.BoolOp():
                new_operator = ast.Or if isinstance(node.op, ast.And) else ast.And
                yield partial(setattr, node, "op", new_operator())
            case ast.Constant(value=bool()):
                yield partial(setattr, node, "value", not node.value)
            case ast.Constant(value=int() | float() as number):
                for step in (1, -1):
                    yield partial(setattr, node, "value", number + step)
            case ast.If() | ast.While() | ast.IfExp():
                yield partial(setattr, node, "test", ast.UnaryOp(ast.Not(), node.test))
                if not isinstance(node, ast.While):
                    yield partial(setattr, node, "test", ast.Constant(False))
            case ast.UnaryOp():
                yield partial(setattr, node, "operand", ast.UnaryOp(node.op, node.operand))
            case ast.Name(id=name) if name in _CALLED:
                yield partial(setattr, node, "id", _CALLED[node.id])
            case ast.Attribute(attr=name) if name in _CALLED:
                yield partial(setattr, node, "attr", _CALLED[node.attr])
            case ast.keyword(arg="reverse"):
                yield partial(setattr, node, "value", ast.UnaryOp(ast.Not(), node.value))
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            for place, statement in enumerate(body if isinstance(body, list) else []):
                is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                if isinstance(statement, _REMOVED) and not is_text:
                    yield partial(setitem, body, place, ast.Pass())
