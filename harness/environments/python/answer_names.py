"""Find the names in trusted tests that may be bound to an answer of the program under test.

The analysis errs on one side. It ignores the order of statements, and takes every name of a statement for an
The analysis errs on one side. It ignores the order of statements, and takes every name of a statement for an
finds names that never hold an answer, but it misses none that the text shows.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPOUND = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.AsyncFor, ast.While, ast.If),
    *(ast.With, ast.AsyncWith, ast.Try, ast.Match, ast.Module),
)


def qualify_locals(tree: ast.Module) -> ast.Module:
    """Return the tests with each local name of a function made unique, so that a name means one variable."""
    for number, node in enumerate(ast.walk(tree)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _qualify(node, f"{node.name}#{number}:")
    return tree


def _qualify(function: ast.FunctionDef | ast.AsyncFunctionDef, prefix: str) -> None:
    inside = [node for statement in (function.args, *function.body) for node in ast.walk(statement)]
    shared = {name for node in inside if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    if shared or any(isinstance(node, (ast.Lambda, ast.ClassDef, ast.Match)) for node in inside):
        return  # Then its names count as the module's, which only finds more aliases.
    local = {node.arg for node in inside if isinstance(node, ast.arg)}
    local |= {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in inside:
        if isinstance(node, ast.Name) and node.id in local:
            node.id = prefix + node.id
        elif isinstance(node, ast.arg):
            node.arg = prefix + node.arg


def list_names(*nodes: ast.AST) -> set[str]:
    """Return all names that occur below some nodes: variables, parameters, functions and handlers."""
    found: set[str] = set()
    for root in nodes:
        for node in ast.walk(root):
            match node:
                case ast.Name(id=name) | ast.arg(arg=name):
                    found.add(name)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    found.add(name)
                case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                    found.add(name)
                case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                    found.add(name)
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    found.update(names)
    return found


class AnswerNames:
    """The names of some tests that may hold an answer of the program, or give one.

    Attributes:
        functions: the functions that the tests define, by name.
        imported: the module, and the name in it or None, by the name that an import binds.
        bound: all names that the tests bind, other than by one import.
        rebound: the names of functions that the tests bind in another way as well.
    """

    def __init__(self, trees: Sequence[ast.Module], exports: Iterable[str]) -> None:
        self.functions: dict[str, list[ast.FunctionDef]] = {}
        self.imported: dict[str, tuple[str, str | None]] = {}
        self.bound: set[str] = set()
        self.rebound: set[str] = set()
        for tree in trees:
            for node in ast.walk(tree):
                self._note_bindings(node)
        # Built-in functions and modules hold nothing, unless the tests bind their names.
        self._constant = {*dir(builtins), *self.imported} - self.bound
        self._constant |= _list_numbers(trees, is_random="random" not in self.bound)
        self._names = set(exports)
        groups = [group for tree in trees for group in self._list_groups(tree)]
        before = -1
        while before != len(self._names):
            before = len(self._names)
            for group in groups:
                if not self._names.isdisjoint(group):
                    self._names |= group
            # An exception of the program leaves every function that calls it, directly or not.
            self._names.update(
                name
                for name, defined in self.functions.items()
                if any(self.cover(*each.body) for each in defined)
            )

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def cover(self, *nodes: ast.AST) -> bool:
        """Return whether anything below some nodes may be an answer."""
        return not self._names.isdisjoint(list_names(*nodes))

    def _note_bindings(self, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef():
                self.functions.setdefault(node.name, []).append(node)
                self.bound.add(node.name)
            case ast.AsyncFunctionDef() | ast.ClassDef():
                self.bound.add(node.name)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                self.bound.add(name)
                self.rebound.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                self.bound.add(name)
            case ast.Import():
                for alias in node.names:
                    self._note_import(alias.asname or alias.name.partition(".")[0], alias.name, None)
            case ast.ImportFrom():
                for alias in node.names:
                    self._note_import(alias.asname or alias.name, node.module or "", alias.name)

    def _note_import(self, bound: str, module: str, name: str | None) -> None:
        if self.imported.setdefault(bound, (module, name)) != (module, name):
            self.bound.add(bound)  # Two imports bind it to different objects.

    def _list_groups(self, tree: ast.Module) -> Iterator[set[str]]:
        """Yield sets of names that may share an object."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert):
                # An assert binds nothing, but a call in it may keep or change what it gets.
                for call in ast.walk(node.test):
                    if isinstance(call, ast.Call):
                        yield self._names_of(call)
            elif isinstance(node, (ast.For, ast.AsyncFor)):
                yield self._names_of(node.target, node.iter)
            elif isinstance(node, ast.FunctionDef):
                # A function shares what its body uses with whoever calls it.
                yield self._names_of(node.args, *node.decorator_list, *_results(node)) | {node.name}
            elif isinstance(node, ast.stmt) and not isinstance(node, _COMPOUND):
                yield self._names_of(node)
            elif isinstance(
                node, (ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.Match, ast.ClassDef)
            ):
                # The names bound there may depend on what decides.
                yield self._names_of(node)

    def _names_of(self, *nodes: ast.AST) -> set[str]:
        return list_names(*nodes) - self._constant


def _list_numbers(trees: Sequence[ast.Module], *, is_random: bool) -> set[str]:
    """Return the names that are only ever bound to numbers of the tests, which nobody can change.

    `is_random` tells whether the name `random` means the module. Its functions draw numbers.
    """
    drawing = _list_generators(trees) | {"random"} if is_random else set()
    numbers: set[str] = set()
    others: set[str] = set()
    for tree in trees:
        counted = set()
        for node in ast.walk(tree):
            found: list[tuple[ast.expr, bool]] = []
            match node:
                case ast.For(target=target, iter=source) | ast.comprehension(target=target, iter=source):
                    found = [(target, _is_call(source, "range") and _is_number_list(source))]
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(
                    targets
                ) == len(values):
                    found = [
                        (each, _is_number(value, drawing))
                        for each, value in zip(targets, values, strict=True)
                    ]
                case ast.Assign(targets=[target], value=value):
                    found = [(target, _is_number(value, drawing))]
            for each, is_number in found:
                if isinstance(each, ast.Name):
                    counted.add(each)
                    (numbers if is_number else others).add(each.id)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and node not in counted:
                others.add(node.id)
            elif isinstance(node, ast.arg):
                others.add(node.arg)
    return numbers - others


def _list_generators(trees: Sequence[ast.Module]) -> set[str]:
    """Return the names that are bound once, to a generator of random numbers."""
    bound = [
        node.id
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    ]
    found = set()
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=name)],
                    value=ast.Call(func=ast.Attribute(value=ast.Name(id="random"), attr="Random")),
                ) if bound.count(name) == 1:
                    found.add(name)
    return found


def _is_number(node: ast.expr, drawing: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="randint" | "randrange"), keywords=[]):
            return name in drawing and _is_number_list(node)
    return bool(_literals([node]))


def _is_number_list(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and len(_literals(node.args)) == len(node.args)


def _is_call(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _literals(nodes: Sequence[ast.expr]) -> list[ast.expr]:
    """Return the nodes that are literal integers, none unless all of them are."""
    for node in nodes:
        inner = node.operand if isinstance(node, ast.UnaryOp) else node
        if not isinstance(inner, ast.Constant) or type(inner.value) is not int:
            return []
    return list(nodes)


def _results(function: ast.FunctionDef) -> list[ast.AST]:
    return [node for node in ast.walk(function) if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom))]
