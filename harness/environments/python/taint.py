"""Find the names in trusted tests whose values may come from the program under test.

The analysis ignores the order of statements and merges all calls of a function, so it finds too many names
rather than too few. Each name belongs to the function that binds it, or else to the tests' module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

# Methods that put an argument into a container and do not look at it.
STORING = frozenset(("add", "append", "appendleft", "extend", "insert", "update"))
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.comprehension)
# These hold no name.
_LEAVES = frozenset(
    (
        *(ast.Constant, ast.Load, ast.Store, ast.Del, ast.And, ast.Or, ast.Pass, ast.Break, ast.Continue),
        *ast.operator.__subclasses__(),
        *ast.unaryop.__subclasses__(),
        *ast.cmpop.__subclasses__(),
    )
)
_PASSING_ON = (
    *(ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.comprehension, ast.withitem, ast.Call),
    *(ast.AsyncFor, ast.Global, ast.Nonlocal, ast.Return, ast.Yield, ast.YieldFrom),
)
_BRANCHES = (ast.If, ast.While, ast.Match, ast.Try, ast.For)


def walk(*nodes: ast.AST) -> Iterator[ast.AST]:
    """Yield nodes and all nodes below them, in no particular order."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        waiting += children(node)


def children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the direct children of a node in the order of its fields, but for those without names."""
    for field in node._fields:
        value = getattr(node, field, None)
        if type(value) is list:
            for item in value:
                if type(item) not in _LEAVES and isinstance(item, ast.AST):
                    yield item
        elif type(value) not in _LEAVES and isinstance(value, ast.AST):
            yield value


class Scope:
    """The module of the tests, or a function in it, with the names that it binds."""

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.bound: set[str] = set()
        self.tainted: set[str] = set()
        # The place after which the program may have changed the object of a variable.
        self.changed: dict[str, tuple[int, int, int]] = {}
        # The functions that are defined here, by name.
        self.functions: dict[str, list[ast.AST]] = {}

    def owner(self, name: str) -> Scope:
        """Return the scope whose variable a name means here: the innermost that binds it, or the module."""
        scope = self
        while name not in scope.bound and scope.parent is not None:
            scope = scope.parent
        return scope


class Taint:
    """The tainted names of tests: those that may hold an answer, or an object or a function of the program.

    Args:
        trees: The modules of the tests, which share one namespace.
        exports: The names under which the tests find the program's functions and classes.
    """

    def __init__(self, trees: Iterable[ast.Module], exports: Iterable[str]) -> None:
        self._module = Scope(None)
        # The scope of each expression and statement, by identity, because nodes compare by identity anyway.
        self._scopes: dict[ast.AST, Scope] = {}
        self._inner: dict[ast.AST, Scope] = {}
        self._fed: set[ast.AST] = set()
        self._trees: dict[ast.AST, int] = {}
        self._repeated: set[ast.AST] = set()
        self._passing_on: list[ast.AST] = []
        self.imported: set[str] = set()
        self._module.tainted.update(exports)
        for number, tree in enumerate(trees):
            self._enter(tree, self._module, number)
        before = -1
        while before != (before := self._count()):
            for node in self._passing_on:
                self._spread(node)

    def covers(self, *nodes: ast.AST) -> bool:
        """Return whether a value that these nodes read may come from the program."""
        return any(isinstance(node, ast.Name) and self.has(node) for node in walk(*nodes))

    def has(self, name: ast.Name) -> bool:
        """Return whether a variable is tainted where it is read."""
        scope = self._scopes[name].owner(name.id)
        return name.id in scope.tainted or scope.changed.get(name.id, self._place(name)) < self._place(name)

    def functions_of(self, name: ast.Name) -> list[ast.AST]:
        """Return the functions of the tests that a name may mean."""
        return self._scopes[name].owner(name.id).functions.get(name.id, [])

    def _count(self) -> int:
        scopes = {id(scope): scope for scope in (self._module, *self._inner.values())}
        return sum(len(scope.tainted) + len(scope.changed) for scope in scopes.values()) + len(self._fed)

    def _place(self, node: Any) -> tuple[int, int, int]:
        return self._trees[node], node.lineno, node.col_offset

    def _enter(self, node: ast.AST, scope: Scope, number: int) -> None:
        """Record the scope of every node below, and the names that each scope binds."""
        waiting = [(node, scope, False)]
        while waiting:
            node, scope, repeated = waiting.pop()
            self._scopes[node] = scope
            self._trees[node] = number
            if repeated:
                self._repeated.add(node)
            if isinstance(node, (*_PASSING_ON, *_BRANCHES)):
                self._passing_on.append(node)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                scope.bound.add(node.id)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                scope.bound.add(node.name)
            elif isinstance(node, ast.alias):
                name = (node.asname or node.name).partition(".")[0]
                scope.bound.add(name)
                self.imported.add(name)
            elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name is not None:
                scope.bound.add(node.name)
            elif isinstance(node, ast.arg):
                scope.bound.add(node.arg)
            below = scope
            repeated = repeated or isinstance(node, _LOOPS)
            if isinstance(node, _FUNCTIONS):
                repeated = False  # Each call has its own variables.
                below = self._inner[node] = Scope(scope)
                if not isinstance(node, ast.Lambda):
                    scope.functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        scope.functions.setdefault(target.id, []).append(node.value)
            waiting += [(child, below, repeated) for child in children(node)]

    def _spread(self, node: ast.AST) -> None:
        """Taint what a node passes on."""
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
            if node.value is not None and self.covers(node.value):
                self._taint(*(node.targets if isinstance(node, ast.Assign) else [node.target]))
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            if self.covers(node.iter):
                self._taint(node.target)
        elif isinstance(node, ast.withitem):
            if node.optional_vars is not None and self.covers(node.context_expr):
                self._taint(node.optional_vars)
        elif isinstance(node, ast.Call):
            self._spread_call(node)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self._taint_everywhere(node.names)
        elif isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)):
            self._spread_result(node)
        if isinstance(node, _BRANCHES) and self.covers(*_deciding(node)):
            # Whether a name is bound here depends on an answer.
            for inner in walk(*children(node)):
                if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
                    self._taint(inner)
                elif isinstance(inner, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and inner.name:
                    self._scopes[inner].owner(inner.name).tainted.add(inner.name)
                elif isinstance(inner, (ast.Return, ast.Yield)):
                    self._taint_function(self._scopes[inner])

    def _spread_result(self, node: ast.Return | ast.Yield | ast.YieldFrom) -> None:
        if node.value is not None and self.covers(node.value):
            self._taint_function(self._scopes[node])

    def _spread_call(self, node: ast.Call) -> None:
        passed = [*node.args, *(word.value for word in node.keywords)]
        for given in passed:
            # Whoever gets a function may call it with anything.
            if isinstance(given, ast.Lambda):
                self._feed(given)
            elif isinstance(given, ast.Name):
                for function in self.functions_of(given):
                    self._feed(function)
        if self._may_reach_program(node.func):
            self._note_changes(node, passed)
        if not self.covers(*passed):
            return
        if isinstance(node.func, ast.Name):
            for function in self.functions_of(node.func):
                self._feed(function)
        elif isinstance(node.func, ast.Attribute):
            for scope in (self._module, *self._inner.values()):
                for function in scope.functions.get(node.func.attr, []):
                    self._feed(function)
            self._taint(node.func.value)  # A method may keep its arguments in its object.

    def _may_reach_program(self, function: ast.expr) -> bool:
        """Return whether a call may be one of the program's functions, or of a test's that makes one."""
        if isinstance(function, ast.Attribute):
            return function.attr not in STORING and self.covers(function.value)
        own = self.functions_of(function) if isinstance(function, ast.Name) else []
        if not own:
            return self.covers(function)
        return any(
            isinstance(inner, ast.Call) and inner.func is not function and self.covers(inner.func)
            for each in own
            for inner in walk(each)
        )

    def _note_changes(self, call: ast.Call, passed: list[ast.expr]) -> None:
        """Note that a function of the program may change its arguments."""
        for given in passed:
            for name in walk(given):
                if not isinstance(name, ast.Name) or name.id in self.imported:
                    continue
                scope = self._scopes[name].owner(name.id)
                if scope is self._scopes[call] and call not in self._repeated:
                    place = self._place(call)
                    scope.changed[name.id] = min(place, scope.changed.get(name.id, place))
                elif name.id in scope.bound:
                    scope.tainted.add(name.id)

    def _feed(self, function: ast.AST) -> None:
        """Taint the parameters of a function of the tests."""
        self._fed.add(function)
        arguments: Any = function.args  # type: ignore[attr-defined]
        for node in walk(arguments):
            if isinstance(node, ast.arg):
                self._inner[function].tainted.add(node.arg)

    def _taint(self, *targets: ast.AST) -> None:
        """Taint the variables that are assigned to, or whose objects are changed."""
        for target in targets:
            while isinstance(target, (ast.Attribute, ast.Subscript, ast.Starred, ast.Call)):
                target = target.func if isinstance(target, ast.Call) else target.value
            if isinstance(target, (ast.Tuple, ast.List)):
                self._taint(*target.elts)
            elif isinstance(target, ast.Name) and target.id not in self.imported:
                self._scopes[target].owner(target.id).tainted.add(target.id)

    def _taint_function(self, scope: Scope) -> None:
        """Taint the function that returns a tainted value."""
        for node, inner in self._inner.items():
            if inner is scope and not isinstance(node, ast.Lambda):
                self._scopes[node].tainted.add(node.name)  # type: ignore[attr-defined]

    def _taint_everywhere(self, names: Iterable[str]) -> None:
        """Taint names that several functions share, if any of them is tainted."""
        scopes = (self._module, *self._inner.values())
        for name in names:
            if any(name in scope.tainted for scope in scopes):
                for scope in scopes:
                    scope.tainted.add(name)


def _deciding(node: Any) -> list[ast.AST]:
    """Return the nodes on which the way through a statement depends."""
    if isinstance(node, ast.Match):
        return [node.subject, *(case.guard for case in node.cases if case.guard is not None)]
    if isinstance(node, ast.Try):
        return [*node.body] if node.handlers else []
    if isinstance(node, ast.For):
        return [node.iter]
    return [node.test]
