"""Follow the flow of a bash script: can it pass after a certain command, and which statuses does it use?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from harness.environments.os.checks import shell_syntax as sh

MAX_DEPTH = 30
_ALWAYS_SUCCEED = frozenset((":", "true", "echo", "set", "local", "declare", "export", "readonly"))


class _State(NamedTuple):
    """A moment of the script: the last exit status, and whether the command in question has run."""

    success: bool
    seen: bool


class _End(NamedTuple):
    """One way that a command may end."""

    how: Literal["next", "exit", "return", "break", "continue"]
    state: _State


_Ends = frozenset[_End]


def may_pass_after(script: sh.Script, command: sh.Command, success: bool) -> bool:
    """Return whether the script may exit with code 0 although `command` ran and ended with this status.

    Every other command may end either way. If it is called in a loop, it ends with this status each time.
    """
    flow = _Flow(script, command, success)
    ends = flow.run(script.body, _State(True, seen=False), is_condition=False)
    return any(end.state.success and end.state.seen for end in ends)


def find_used_statuses(script: sh.Script) -> set[sh.Simple]:
    """Return the commands outside of substitutions whose exit status may decide how the script goes on."""
    found: set[sh.Simple] = set()
    has_errexit = any(isinstance(item, sh.Simple) and _is_errexit(item) for item in script.body.items)

    def visit(command: sh.Command, used: bool) -> None:
        match command:
            case sh.Simple():
                if used or has_errexit:
                    found.add(command)
            case sh.Body(items):
                for item in items:
                    visit(item, used and item is items[-1])
            case sh.AndOr(items):
                for _operator, item in items:
                    visit(item, used or item is not items[-1][1])
            case sh.Pipeline(commands, is_negated):
                for item in commands:
                    visit(item, used or is_negated)
            case sh.Block(body) | sh.Function(body=body):
                visit(body, used)
            case sh.If(clauses, otherwise):
                for condition, body in clauses:
                    visit(condition, True)
                    visit(body, used)
                if otherwise is not None:
                    visit(otherwise, used)
            case sh.While(condition, body):
                visit(condition, True)
                visit(body, used)
            case sh.For(body=body):
                visit(body, used)
            case sh.Case(items=items):
                for _patterns, body in items:
                    visit(body, used)

    visit(script.body, True)
    for body in script.functions.values():
        visit(body, True)
    return found


def list_unused_statuses(command: sh.Command, *, only_last: bool = False) -> Iterator[sh.Simple]:
    """Yield the commands of a substitution whose statuses nothing in it uses.

    With `only_last`, they are only those whose status is the status of the whole.
    """
    match command:
        case sh.Body(items) | sh.Pipeline(items, False):
            for item in items[-1:] if only_last else items:
                yield from list_unused_statuses(item, only_last=only_last)
        case sh.Block(body):
            yield from list_unused_statuses(body, only_last=only_last)
        case sh.Simple():
            yield command


def list_last_in(word: sh.Word) -> Iterator[sh.Simple]:
    """Yield the last command of each substitution in a word."""
    for part in word.parts:
        if isinstance(part, sh.Substitution):
            yield from list_unused_statuses(part.body, only_last=True)


class _Flow:
    def __init__(self, script: sh.Script, command: sh.Command, success: bool) -> None:
        self._functions: Mapping[str, sh.Command] = script.functions
        self._command = command
        self._success = success
        self._depth = 0
        first = next(iter(script.body.items), None)
        self._fails_at_once = isinstance(first, sh.Simple) and _is_errexit(first)

    def run(self, command: sh.Command, state: _State, *, is_condition: bool) -> _Ends:
        """Return the ways that a command may end. Bash ignores `set -e` in conditions."""
        if command is self._command:
            return self._leave([_End("next", _State(self._success, seen=True))], is_condition)
        match command:
            case sh.Body(items):
                return self._run_all(items, state, is_condition)
            case sh.AndOr(items):
                return self._run_and_or(command, state, is_condition)
            case sh.Pipeline(commands, is_negated):
                ends = self.run(commands[-1], state, is_condition=True)
                if len(commands) > 1:
                    ends = _of_subshell(ends)
                return _negate(ends) if is_negated else self._leave(ends, is_condition)
            case sh.Block(body, is_subshell=True):
                inner = self.run(body, state, is_condition=is_condition)
                return self._leave(_of_subshell(inner), is_condition)
            case sh.Block(body):
                return self.run(body, state, is_condition=is_condition)
            case sh.If():
                return self._run_if(command, state, is_condition)
            case sh.While(condition, body):
                return self._run_loop(condition, body, state, is_condition)
            case sh.For(body=body):
                return self._run_loop(sh.Body(()), body, state, is_condition)
            case sh.Case(items=items):
                bodies = [body for _patterns, body in items]
                ends = frozenset({_End("next", _State(True, state.seen))})
                return ends.union(*(self.run(body, state, is_condition=is_condition) for body in bodies))
            case sh.Function():
                return frozenset({_End("next", _State(True, state.seen))})
            case sh.Simple():
                return self._run_simple(command, state, is_condition)
        return self._end_either_way(state, is_condition)

    def _end_either_way(self, state: _State, is_condition: bool) -> _Ends:
        return self._leave([_End("next", _State(each, state.seen)) for each in (True, False)], is_condition)

    def _leave(self, ends: Iterable[_End], is_condition: bool) -> _Ends:
        """Return the ends of a command that let `set -e` end the script."""
        if is_condition or not self._fails_at_once:
            return frozenset(ends)
        return frozenset(
            _End("exit", end.state) if end.how == "next" and not end.state.success else end for end in ends
        )

    def _run_all(self, items: Iterable[sh.Command], state: _State, is_condition: bool) -> _Ends:
        done: set[_End] = set()
        states = {state}
        for item in items:
            states = self._step(states, item, done, is_condition)
        return frozenset(done | {_End("next", each) for each in states})

    def _step(
        self, states: Iterable[_State], command: sh.Command, done: set[_End], is_condition: bool
    ) -> set[_State]:
        """Run a command from these states. Return the states after it, and add other ends to `done`."""
        after: set[_State] = set()
        for state in states:
            for end in self.run(command, state, is_condition=is_condition):
                if end.how == "next":
                    after.add(end.state)
                else:
                    done.add(end)
        return after

    def _run_and_or(self, command: sh.AndOr, state: _State, is_condition: bool) -> _Ends:
        done: set[_End] = set()
        states = {state}
        for number, (operator, item) in enumerate(command.items):
            starts = {each for each in states if number == 0 or each.success == (operator == "&&")}
            is_last = number == len(command.items) - 1
            states = (states - starts) | self._step(starts, item, done, is_condition or not is_last)
        return frozenset(done | {_End("next", each) for each in states})

    def _run_if(self, command: sh.If, state: _State, is_condition: bool) -> _Ends:
        done: set[_End] = set()
        states = {state}
        for condition, body in command.clauses:
            decided = self._step(states, condition, done, True)
            for each in decided:
                if each.success:
                    done |= self.run(body, each, is_condition=is_condition)
            states = {each for each in decided if not each.success}
        for each in states:
            if command.otherwise is None:
                done.add(_End("next", _State(True, each.seen)))
            else:
                done |= self.run(command.otherwise, each, is_condition=is_condition)
        return frozenset(done)

    def _run_loop(self, condition: sh.Body, body: sh.Body, state: _State, is_condition: bool) -> _Ends:
        done: set[_End] = set()
        starts, tried = {state}, set[_State]()
        while starts - tried:
            start = (starts - tried).pop()
            tried.add(start)
            # The loop may end after its condition, whatever that says.
            decided = self._step([start], condition, done, True)
            done |= {_End("next", _State(True, each.seen)) for each in decided} | {_End("next", start)}
            ended: set[_End] = set()
            starts |= self._step(decided, body, ended, is_condition)
            for end in ended:
                if end.how in ("exit", "return"):
                    done.add(end)
                else:
                    done.add(_End("next", _State(True, end.state.seen)))
                    starts.add(_State(True, end.state.seen))
        return frozenset(done)

    def _run_simple(self, command: sh.Simple, state: _State, is_condition: bool) -> _Ends:
        name = command.words[0].text if command.words else None
        match name:
            case "exit" | "return":
                how: Literal["exit", "return"] = "exit" if name == "exit" else "return"
                statuses = _statuses_of_exit(command.words[1:], state)
                return frozenset(_End(how, _State(each, state.seen)) for each in statuses)
            case "break" | "continue":
                kind: Literal["break", "continue"] = "break" if name == "break" else "continue"
                return frozenset({_End(kind, _State(True, state.seen))})
            case None if not command.assignments:
                return frozenset({_End("next", _State(True, state.seen))})
            case "false":
                return self._leave([_End("next", _State(False, state.seen))], is_condition)
        if name in _ALWAYS_SUCCEED:
            return frozenset({_End("next", _State(True, state.seen))})
        body = self._functions.get(name or "")
        if body is None or self._depth >= MAX_DEPTH:
            return self._end_either_way(state, is_condition)
        self._depth += 1
        ends = self.run(body, state, is_condition=is_condition)
        self._depth -= 1
        return self._leave(
            [_End("next", end.state) if end.how == "return" else end for end in ends], is_condition
        )


def _statuses_of_exit(arguments: tuple[sh.Word, ...], state: _State) -> Iterable[bool]:
    """Return the possible statuses of `exit` or `return` with these arguments."""
    if not arguments:
        return (state.success,)
    code = arguments[0].text
    if code is not None:
        return (code.isdigit() and int(code) % 256 == 0,)
    match arguments[0].parts:
        case (sh.Variable("?"),):
            return (state.success,)
    return (True, False)


def _negate(ends: Iterable[_End]) -> _Ends:
    return frozenset(
        _End("next", _State(not end.state.success, end.state.seen)) if end.how == "next" else end
        for end in ends
    )


def _of_subshell(ends: Iterable[_End]) -> _Ends:
    """Return the ends of commands in a subshell, which only ends itself."""
    return frozenset(_End("next", end.state) for end in ends)


def _is_errexit(command: sh.Simple) -> bool:
    texts = [word.text or "" for word in command.words]
    return texts[:1] == ["set"] and any(text.startswith("-") and "e" in text for text in texts[1:2])
