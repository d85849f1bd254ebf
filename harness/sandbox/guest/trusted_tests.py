"""The trusted side: run the tests in this process, with stand-ins for what the candidate defines.

Of the candidate's process nothing arrives here but plain data, rebuilt from bytes by a decoder
that can build nothing else (DESIGN section 3.4). Whatever else comes, or does not come, fails.
"""

from __future__ import annotations

import builtins

from . import channel, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_EVIDENCE = 2000
EXCEPTIONS: dict[str, type[BaseException]] = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}


class CandidateLost(BaseException):
    """The candidate's process is gone or broke the protocol. No test may catch its way past this."""


class UnsupportedTestError(Exception):
    """A test does what a candidate in another process cannot take part in."""


class RemoteObject:
    """An object of the candidate's that is not plain data: it has a truth value and nothing more."""

    __slots__ = ("_candidate", "_number")

    def __init__(self, candidate: Candidate, number: int) -> None:
        self._candidate = candidate
        self._number = number

    def __bool__(self) -> bool:
        return self._candidate.ask(channel.TRUTH, self) is True

    def __repr__(self) -> str:
        return f"<an object of the candidate's, number {self._number}>"


class RemoteIterator(RemoteObject):
    """An iterator of the candidate's: each item is fetched when it is asked for."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._candidate.ask(channel.NEXT, self)

    def __bool__(self) -> bool:
        return True


class RemoteCallable(RemoteObject):
    """A function of the candidate's."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._candidate.call(self, args, kwargs)

    def __bool__(self) -> bool:
        return True


KINDS = {
    values.OPAQUE: RemoteObject,
    values.ITERATOR: RemoteIterator,
    values.CALLABLE: RemoteCallable,
}


class Candidate:
    """The candidate as the tests see it. `lost` is set once its process cannot be trusted to answer."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._remotes: dict[int, RemoteObject] = {}
        self.lost: str | None = None
        self.breach: str | None = None
        self.last_call: tuple[tuple[Any, ...], dict[str, Any], list[Any]] | None = None

    def load(self, preamble: str, program: str) -> None:
        self.ask(channel.LOAD, (preamble, program))

    def get(self, name: str) -> Any:
        return self.ask(channel.GET, name)

    def ask(self, letter: bytes, argument: object) -> Any:
        payload = values.Encoder(self._handle_of).encode(argument)
        return self._exchange(letter, payload, [])

    def call(self, function: RemoteCallable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        encoder = values.Encoder(self._handle_of)
        payload = encoder.encode((function, args, kwargs))
        outcome: list[Any] = []
        self.last_call = (args, kwargs, outcome)
        result = self._exchange(channel.CALL, payload, encoder.containers)
        outcome.append(result)
        return result

    def _exchange(self, letter: bytes, payload: bytes, containers: list[object]) -> Any:
        if self.lost is not None:
            raise CandidateLost(self.lost)
        try:
            channel.send(self._descriptor, letter, payload)
            answer, data = channel.receive(self._descriptor)
            value = values.Decoder(self._remote, containers).decode(data)
            if answer == channel.CHANGED:
                answer, value = _apply(value, containers)
            if answer == channel.VALUE:
                return value
            if answer == channel.STOPPED and letter == channel.NEXT:
                raise StopIteration(value)
            if answer != channel.RAISED:
                raise channel.ChannelBreach(f"unknown answer {answer!r}")
            error = _exception(value)
        except channel.ChannelClosed:
            self.lost = "the program's process ended before the tests did"
            raise CandidateLost(self.lost) from None
        except (channel.ChannelBreach, values.ValueRefused) as breach:
            self.lost = self.breach = f"the program's process broke the protocol: {breach}"
            raise CandidateLost(self.lost) from None
        raise error

    def _handle_of(self, value: object) -> tuple[int, int]:
        if isinstance(value, RemoteObject):
            return values.OPAQUE, value._number
        raise UnsupportedTestError(f"the test passes a {type(value).__name__}, which is not plain data")

    def _remote(self, kind: int, number: int) -> RemoteObject:
        if number not in self._remotes:
            self._remotes[number] = KINDS[kind](self, number)
        return self._remotes[number]


def _apply(value: Any, containers: list[object]) -> tuple[bytes, Any]:
    """Bring the caller's arguments to what the call left in them; return how it ended, and with what."""
    if type(value) is not tuple or len(value) != 3 or type(value[2]) is not tuple:
        raise channel.ChannelBreach("changed arguments of a wrong shape")
    answer, result, after = value
    if answer not in (channel.VALUE, channel.RAISED) or len(after) > len(containers):
        raise channel.ChannelBreach("changed arguments of no call of ours")
    for container, items in zip(containers, after):
        try:
            values.restore(container, items)
        except (TypeError, ValueError) as error:
            raise channel.ChannelBreach(f"changed arguments: {error}") from None
    return answer, result


def _exception(value: Any) -> BaseException:
    """Rebuild the candidate's exception as its nearest built-in type, under its own name."""
    if type(value) is not tuple or len(value) != 4:
        raise channel.ChannelBreach("an exception of a wrong shape")
    base_name, own_name, args, message = value
    if type(base_name) is not str or type(own_name) is not str or type(message) is not str:
        raise channel.ChannelBreach("an exception without a name")
    kind = EXCEPTIONS.get(base_name, Exception)
    if own_name != base_name and own_name.isidentifier():
        kind = type(own_name, (kind,), {})
    try:
        return kind(*args) if type(args) is tuple else kind(message)
    except Exception:
        return Exception(f"{own_name}: {message}")


def run(descriptor: int, request: dict[str, Any]) -> dict[str, Any]:
    """Run every test of `request` against the candidate on `descriptor`.

    Returns `results` (one of `passed` or `failed` for each statement, in order; shorter where the
    candidate was lost), `evidence` (of the first failure), `error` (the exception's name), and
    `breach`.
    """
    candidate = Candidate(descriptor)
    results: list[str] = []
    evidence: str | None = None
    error_name: str | None = None
    namespace: dict[str, Any] = {"__name__": "tests", "__builtins__": builtins}
    try:
        stage = "the program failed to load"
        candidate.load(request["preamble"], request["program"])
        stage = "the tests' own set-up failed"
        exec(compile(request["setup"], "setup.py", "exec"), namespace)
        stage = "the program does not define what the tests use"
        for alias, name in request["exports"].items():
            namespace.pop(alias, None)
            namespace[alias] = candidate.get(name)
    except BaseException as error:
        error_name = type(error).__name__
        evidence = f"{stage}: {_describe(error)}"
        results = ["failed"] * len(request["statements"])
    else:
        for number, statement in enumerate(request["statements"]):
            candidate.last_call = None
            try:
                exec(compile(statement, "tests.py", "exec"), namespace)
                if candidate.lost is not None:
                    raise CandidateLost(candidate.lost)
            except BaseException as error:
                results.append("failed")
                if evidence is None:
                    error_name = type(error).__name__
                    evidence = f"test {number + 1}: {_failure(error, statement, candidate)}"
                if candidate.lost is not None:
                    break
            else:
                results.append("passed")
    return {
        "results": results,
        "evidence": None if evidence is None else _bounded(evidence, MAX_EVIDENCE),
        "error": error_name,
        "breach": candidate.breach,
        "lost": candidate.lost,
    }


def _failure(error: BaseException, statement: str, candidate: Candidate) -> str:
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "tests.py":
            line = trace.tb_lineno
        trace = trace.tb_next
    lines = statement.splitlines()
    text = lines[line - 1].strip() if line and line <= len(lines) else statement.strip()
    parts = [f"{_bounded(text, 600)}: {_describe(error)}"]
    if candidate.last_call is not None:
        args, kwargs, outcome = candidate.last_call
        shown = [_shown(arg) for arg in args] + [f"{name}={_shown(arg)}" for name, arg in kwargs.items()]
        result = _shown(outcome[0]) if outcome else "nothing"
        parts.append(f"last call ({_bounded(', '.join(shown), 400)}) returned {result}")
    return "; ".join(parts)


def _describe(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:
        message = ""
    return type(error).__name__ + (f": {_bounded(message, 600)}" if message else "")


def _shown(value: object) -> str:
    try:
        return _bounded(repr(value), 300)
    except Exception as error:
        return f"a {type(value).__name__} whose repr raised {type(error).__name__}"


def _bounded(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 20]} ... ({len(text)} characters)"
