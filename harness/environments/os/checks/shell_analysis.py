"""Find out by the structure of a bash check whether it believes an agent.

A check may look at an agent's files with the tools of the image, and compare texts in them as data. It must
neither start a program of the agent, nor let a text of the agent's decide how bash reads the check: an
unquoted text may make `[` fail, so that the `exit 1` behind it is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from harness.environments.os.checks import shell_syntax as sh
from harness.environments.os.checks import shell_tools, shell_values
from harness.environments.os.checks.shell_flow import (
    find_used_statuses,
    list_last_in,
    list_unused_statuses,
    may_pass_after,
)
from harness.environments.os.checks.shell_values import (
    NOTHING,
    Argument,
    Call,
    Input,
    Kind,
    Trusting,
    Value,
    join_all,
    one_after_another,
    one_of,
)

MAX_ROUNDS = 20
_COMMAND_FOLDERS = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/")
_OUTPUTS = frozenset(("/dev/null", "/dev/stdout", "/dev/stderr", "1", "2", "-"))
# Bash, the C library, interpreters or tools read these variables.
_STEERING = re.compile(
    r"PATH|CDPATH|HOME|ENV|IFS|SHELL|SHELLOPTS|EDITOR|PAGER|VISUAL|TMPDIR|GLOBIGNORE|EXECIGNORE|OPT\w+|PWD"
    r"|OLDPWD|POSIXLY_CORRECT|PROMPT_COMMAND|DIRSTACK|TAR_OPTIONS|PS\d|TIMEFORMAT|FUNCNEST|HOSTFILE|INPUTRC"
    r"|(?:LD|BASH|PYTHON|PERL|RUBY|NODE|GIT|GREP|GCONV|MALLOC|GLIBC|COMP|AWK|JQ|LOCALE|NLS|LESS|XDG|SSL)\w*"
)
_EXIT_CODE = "uses the exit code of a program of the agent's"
_CHOSEN_FILE = "reads a file whose name the agent chooses"
_CODE = re.compile(r"\b(?:import|exec|eval|open|compile|globals|getattr|breakpoint)\b|__")
_SET_BY_BASH = frozenset(
    ("_", "BASH_ARGV", "BASH_COMMAND", "BASH_REMATCH", "DIRSTACK", "MAPFILE", "OLDPWD", "PWD", "REPLY")
)
_FIXED_NUMBERS = frozenset("?#$!")


class ShellAnalysis:
    """The values of one script's variables and outputs, joined over all of its flow."""

    def __init__(
        self, script: sh.Script, code: str, *, is_fixed: Callable[[str], bool], allow_programs: bool = False
    ) -> None:
        """Make the analysis of one script.

        Args:
            script: the syntax tree.
            code: the text.
            is_fixed: returns whether the output of a shell's code is fixed, and raises Trusting unless the
                code is a sound check of its own.
            allow_programs: whether the check may start programs of the agent inside `$(...)`.
        """
        self.is_fixed = is_fixed
        self.starts: set[int] = set()
        self._started: set[sh.Simple] = set()
        self._script = script
        self._code = code
        self._allow_programs = allow_programs
        self._variables: dict[str, Value] = {}
        self._outputs: dict[str, Value | None] = {}
        self._forced: dict[sh.Simple, dict[bool, str]] = {}
        # The commands whose status an agent rules, with the reason, in each substitution being evaluated.
        self._ruled_in: list[dict[sh.Simple, str]] = []
        # The functions that are being evaluated, the innermost last.
        self._running: list[str] = []
        self._is_captured = False
        self._mixes_errors = False
        # The input of the command that is being evaluated, which its substitutions inherit.
        self._input = NOTHING

    def settle(self) -> Value | None:
        """Evaluate the script until nothing changes, and return its output. Raises Trusting."""
        for _round in range(MAX_ROUNDS):
            before = dict(self._variables), dict(self._outputs)
            output = self.run(self._script.body, NOTHING)
            if before == (self._variables, self._outputs):
                return output
        raise sh.NotUnderstood("its values depend on each other")

    def require_data_only(self) -> None:
        """Raise Trusting if the check uses more of a program of the agent's than its output."""
        if not self._started:
            return
        for command in find_used_statuses(self._script):
            words = [word for assignment in command.assignments for word in assignment.values]
            if self._started & {each for word in words for each in list_last_in(word)}:
                raise Trusting(_EXIT_CODE)
        if self._mixes_errors or "$?" in self._code or "${?" in self._code or "PIPESTATUS" in self._code:
            raise Trusting("uses more of a program of the agent's than its output")

    def require_sound_flow(self, *, strict: bool = False) -> None:
        """Raise Trusting if the script can pass because a text of the agent's decides a command's status."""
        for command, statuses in self._forced.items():
            for status, reason in statuses.items():
                if strict or may_pass_after(self._script, command, status):
                    raise Trusting(reason)

    def force(self, call: Call, reason: str, statuses: Iterable[bool] = (True, False)) -> None:
        """Note that an agent can give a command these statuses, whatever the check compares."""
        for status in statuses:
            self._force(call.command, status, reason)

    def _force(self, command: sh.Simple, status: bool, reason: str) -> None:
        self._forced.setdefault(command, {}).setdefault(status, reason)
        for commands in self._ruled_in[-1:]:
            commands[command] = reason

    def defines(self, name: str) -> bool:
        """Return whether the script defines a function of this name."""
        return name in self._script.functions

    def may_have_code(self, known: Iterable[str]) -> bool:
        """Return whether a text of the script may be code of Python, apart from these known pieces."""
        rest = self._code
        for text in filter(None, known):
            rest = rest.replace(text, " ")
        return _CODE.search(rest) is not None

    # Variables.

    def get(self, name: str) -> Value:
        """Return the value of a variable or parameter."""
        if name in _FIXED_NUMBERS:
            return Value(Kind.NUMBER, led=True)
        if (name.isdigit() and name != "0") or name in ("@", "*"):
            if not self._running:
                return Value(Kind.TEXT)
            function = self._running[-1]
            found = [self._variables.get(f"{function} {name}"), self._variables.get(f"{function} many")]
            return join_all(value for value in found if value is not None)
        if name in _SET_BY_BASH:
            return Value(Kind.TEXT)
        return self._variables.get(name, Value(led=name == "HOME"))

    def shift(self) -> None:
        """Note that the parameters change their places."""
        if self._running:
            self._add(f"{self._running[-1]} many", self.get("@"))

    def assign(self, name: str, value: Value) -> None:
        """Add a value that a variable may have. Raises Trusting for variables that steer programs."""
        if _STEERING.fullmatch(name):
            raise Trusting(f"changes the variable {name}")
        self._add(name, value)

    def _add(self, name: str, value: Value) -> None:
        before = self._variables.get(name)
        self._variables[name] = value if before is None else before.join(value)

    # Words.

    def expand(self, word: sh.Word, *, splits: bool = True) -> Argument:
        """Return a word after its expansion. Without `splits`, bash does not split it into several."""
        values = [self._value_of(part) for part in word.parts]
        kind = max((value.kind for value in values), default=Kind.FIXED)
        has_text = any(isinstance(part, sh.Text) and part.text for part in word.parts)
        if has_text and kind is Kind.MAYBE:
            kind = Kind.NUMBER
        many = splits and any(_may_split(part, value) for part, value in zip(word.parts, values, strict=True))
        many = many or any(isinstance(part, sh.Variable) and part.is_list for part in word.parts)
        led = self._is_led(word, values) and not many
        if splits and word.is_pattern and not (word.has_braces and kind is Kind.FIXED):
            kind, many, led = Kind.TEXT, True, self._is_led(word, values) and not many
        return Argument(Value(kind, led), many and kind >= Kind.MAYBE, word.text)

    @staticmethod
    def _is_led(word: sh.Word, values: Sequence[Value]) -> bool:
        for part, value in zip(word.parts, values, strict=True):
            if isinstance(part, sh.Text):
                if part.text:
                    return not part.text.startswith("-")
            else:
                return value.led and (value.kind is not Kind.MAYBE or len(word.parts) == 1)
        return True

    def _value_of(self, part: sh.Part) -> Value:
        match part:
            case sh.Text():
                return Value(led=True)
            case sh.Variable():
                return self._value_of_variable(part)
            case sh.Substitution(body, is_file=is_file):
                output = self._capture(body, is_captured=not is_file)
                return Value(led=True) if is_file else output or Value()
            case sh.Arithmetic():
                return self.compute(part)

    def _value_of_variable(self, part: sh.Variable) -> Value:
        value = self.get(part.name)
        match part.operator:
            case "":
                return value
            case "length":
                return Value(Kind.NUMBER, led=True)
            case "[":
                for index in part.operand:
                    self._value_of(index)
                return value
        operand = self.expand(sh.make_word(list(part.operand)), splits=False).value
        if "=" in part.operator:
            self.assign(part.name, operand)
        if part.operator[-1] in "-=+?":
            return value.join(operand) if part.operator[-1] != "+" else one_of([operand, None]) or operand
        kind = max(value.kind, operand.kind)
        return Value(Kind.MAYBE if kind is Kind.NUMBER else kind)

    def _capture(self, body: sh.Body, *, is_captured: bool) -> Value | None:
        """Return the output of commands whose statuses no other command may use."""
        before, self._is_captured = self._is_captured, is_captured
        self._ruled_in.append({})
        output = self.run(body, self._input)
        self._is_captured = before
        unused = set(list_unused_statuses(body))
        for command, reason in self._ruled_in.pop().items():
            if command not in unused:
                raise Trusting(reason)
        return output

    def compute(self, arithmetic: sh.Arithmetic) -> Value:
        """Return the value of arithmetic. Raises Trusting if bash would evaluate a text of the agent's."""
        for part in arithmetic.parts:
            if self._value_of(part).kind > Kind.MAYBE:
                raise Trusting("evaluates a text of the agent's as arithmetic")
        for name in arithmetic.assigned:
            self._add(name, Value(Kind.NUMBER))
        return Value(Kind.NUMBER)

    # Commands.

    def run(self, command: sh.Command, given: Input) -> Value | None:
        """Return the output of a command, None if it prints nothing. Raises Trusting."""
        before, self._input = self._input, given
        output = self._run(command, given)
        self._input = before
        return output

    def _run(self, command: sh.Command, given: Input) -> Value | None:
        match command:
            case sh.Body(items):
                return one_after_another([self.run(item, given) for item in items])
            case sh.AndOr(items):
                outputs = [self.run(item, given) for _operator, item in items]
                first, later = outputs[0], [output for output in outputs[1:] if output is not None]
                return one_after_another([first, one_of([*later, None])])
            case sh.Pipeline(commands):
                return self._run_pipeline(commands, given)
            case sh.Block(body, redirects):
                given, redirect = self._redirect(redirects, given, None)
                return redirect(self.run(body, given))
            case sh.If(clauses, otherwise):
                return self._run_if(clauses, otherwise, given)
            case sh.While(condition, body):
                self.run(condition, given)
                return self._repeat(body, given)
            case sh.For():
                self._bind_loop(command)
                return self._repeat(command.body, given)
            case sh.Case(subject, items):
                self.expand(subject, splits=False)
                for patterns, _body in items:
                    if any(self.expand(each, splits=False).value.kind > Kind.MAYBE for each in patterns):
                        raise Trusting("compares with a pattern that the agent writes")
                return one_of([*(self.run(body, given) for _patterns, body in items), None])
            case sh.Function():
                return None
            case sh.Condition():
                shell_values.check_condition(self, command)
                return None
            case sh.ArithmeticCommand(value):
                self.compute(value)
                return None
            case sh.Simple():
                return self._run_simple(command, given)

    def _run_pipeline(self, commands: Sequence[sh.Command], given: Input) -> Value | None:
        output: Value | None = None
        for command in commands:
            output = self.run(command, given)
            given = Input((output or Value()).kind)
        return output

    def _run_if(
        self, clauses: Iterable[tuple[sh.Body, sh.Body]], otherwise: sh.Body | None, given: Input
    ) -> Value | None:
        outputs = []
        for condition, body in clauses:
            outputs.append(one_after_another([self.run(condition, given), self.run(body, given)]))
        outputs.append(None if otherwise is None else self.run(otherwise, given))
        return one_of(outputs)

    def _repeat(self, body: sh.Body, given: Input) -> Value | None:
        output = self.run(body, given)
        if output is None or output.kind is Kind.FIXED:
            return output
        return Value(Kind.TEXT)

    def _bind_loop(self, loop: sh.For) -> None:
        if loop.arithmetic is not None:
            self.compute(loop.arithmetic)
        for word in loop.words:
            value = self.expand(word).value
            if value.kind in (Kind.MAYBE, Kind.LINE):
                value = Value(Kind.NUMBER, value.led)
            self.assign(loop.name, value)

    def _redirect(
        self, redirects: Sequence[sh.Redirect], given: Input, command: sh.Simple | None
    ) -> tuple[Input, Callable[[Value | None], Value | None]]:
        """Return the input of a command, and a function from its output to the part that is not redirected.

        Raises Trusting.
        """
        errors: str | None = None
        printed: str | None = "output"
        for redirect in redirects:
            operator, target = redirect.operator, redirect.target
            if operator in ("<<", "<<<"):
                given = Input(self.expand(target, splits=False).value.kind)
            elif operator == "<":
                given = self._open(target, command)
            elif target.text not in _OUTPUTS or operator not in (">", ">>", ">|", "&>", "&>>", ">&"):
                raise Trusting("writes to a file, and the agent may have put a link in its place")
            elif redirect.descriptor in ("", "1"):
                printed = printed if target.text in ("1", "/dev/stdout") else None
                errors = None if operator.startswith("&") else errors
            elif redirect.descriptor == "2":
                errors = printed if target.text in ("1", "/dev/stdout") else None
        if errors is not None:
            self._mixes_errors = True
            return given, lambda output: Value(Kind.TEXT)
        return given, (lambda output: None) if printed is None else (lambda output: output)

    def _open(self, target: sh.Word, command: sh.Simple | None) -> Input:
        source = self.expand(target)
        if source.many and command is None:
            raise Trusting(_CHOSEN_FILE)
        if source.many and command is not None:
            self.force(Call(command, "", (), NOTHING), _CHOSEN_FILE)
        return NOTHING if source.text == "/dev/null" else Input(Kind.TEXT, exists=False)

    def _run_simple(self, command: sh.Simple, given: Input) -> Value | None:
        given, redirect = self._redirect(command.redirects, given, command)
        for assignment in command.assignments:
            self._run_assignment(command, assignment)
        if not command.words:
            return None
        arguments = [self.expand(word) for word in command.words]
        if command.assignments and any(
            self.expand(word, splits=False).value.kind is Kind.TEXT
            for assignment in command.assignments
            for word in assignment.values
        ):
            raise Trusting("puts a text of the agent's into the environment of a command")
        name = arguments[0].text
        if name is None:
            raise Trusting("starts a command whose name is made when the check runs")
        if name in shell_tools.DECLARATIONS:
            shell_tools.declare(self, command)
            return None
        return redirect(self.call(Call(command, name, arguments[1:], given)))

    def _run_assignment(self, command: sh.Simple, assignment: sh.Assignment) -> None:
        splits = assignment.is_array
        values = [self.expand(word, splits=splits).value for word in assignment.values]
        if assignment.name == "IFS":
            if (command.words and assignment.values[0].text is not None) or not any(
                map(str.isalnum, assignment.values[0].text or "x")
            ):
                return
            raise Trusting("changes the variable IFS")
        for value in values:
            self.assign(assignment.name, value)
        for word in assignment.values:
            self.take_status(command, word)

    def take_status(self, command: sh.Simple, word: sh.Word) -> None:
        """Give an assignment the statuses that an agent can give the last command in its value."""
        for last in list_last_in(word):
            for status, reason in self._forced.get(last, {}).items():
                self._force(command, status, reason)
            if last in self._started and self._ruled_in:
                self._ruled_in[-1][command] = _EXIT_CODE

    def call(self, call: Call) -> Value | None:
        """Return the output of a command by its name. Raises Trusting."""
        name = call.name
        if name in self._script.functions:
            return self._call_function(call)
        folder, slash, base = name.rpartition("/")
        if slash and f"{folder}/" in _COMMAND_FOLDERS:
            call = replace(call, name=base)
        tool = shell_tools.find_tool(call.name)
        if tool is None:
            return self.start(call, name)
        is_long = any(argument.value.kind is Kind.TEXT for argument in call.arguments)
        if is_long and call.name not in shell_tools.BUILTINS:
            self.force(
                call, "passes a text of the agent's to a command, which fails if it is too long", (False,)
            )
        return tool(self, call)

    def start(self, call: Call, shown: str) -> Value | None:
        """Return the output of a program that an agent may have made. Raises Trusting if not allowed."""
        start = call.command.start
        if self._allow_programs and self._is_captured and start is not None and not call.input.is_given:
            self.starts.add(start)
            self._started.add(call.command)
            self._ruled_in[-1][call.command] = _EXIT_CODE
            return Value()
        raise Trusting(f"starts `{shown}`, whose output and exit code the agent may control")

    def _call_function(self, call: Call) -> Value | None:
        name = call.name
        for place, argument in enumerate(call.arguments, 1):
            if argument.many:
                self._add(f"{name} many", Value(Kind.TEXT))
            self._add(f"{name} {place}", argument.value)
            self._add(f"{name} @", argument.value)
            self._add(f"{name} *", argument.value)
        if name in self._running:
            return self._outputs.get(name)
        self._running.append(name)
        output = self.run(self._script.functions[name], call.input)
        self._running.pop()
        before = self._outputs.get(name)
        if name in self._outputs:
            output = one_of([before, output]) if (before is None) == (output is None) else output or before
        self._outputs[name] = output
        return output


def _may_split(part: sh.Part, value: Value) -> bool:
    """Return whether bash may make another number of words than one of an expansion."""
    return not isinstance(part, sh.Text) and not part.quoted and value.kind >= Kind.MAYBE
