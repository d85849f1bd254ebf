"""The tools of the image that a check may start, and what an agent can make of their outputs and statuses.

A tool that is not listed counts as a program of the agent's. No listed tool executes the contents of files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from harness.environments.os.checks import shell_syntax as sh
from harness.environments.os.checks import shell_values
from harness.environments.os.checks.python_analysis import analyse_python
from harness.environments.os.checks.shell_values import (
    OUTPUTS,
    Argument,
    Call,
    Kind,
    Trusting,
    Value,
    filter_input,
    list_operands,
    list_options,
)

if TYPE_CHECKING:
    from harness.environments.os.checks.shell_analysis import ShellAnalysis

Tool = Callable[["ShellAnalysis", "Call"], Value | None]

DECLARATIONS = frozenset(("declare", "export", "local", "readonly", "typeset"))
_OPTION = "passes a text of the agent's to `{}`, which may take it for an option"
_PROGRAM = "passes a text of the agent's to `{}`, which executes it"
_NAMED = re.compile(r"([A-Za-z_]\w*)=")
_NAME = re.compile(r"[A-Za-z_]\w*")
# These print texts, and no argument makes them start a program or change a file.
_READERS = frozenset(
    (
        *("base64", "basename", "cat", "cksum", "cmp", "column", "comm", "cut", "date", "df", "diff"),
        *("dirname", "du", "egrep", "expand", "fgrep", "file", "fold", "free", "getent", "grep", "groups"),
        *("head", "hexdump", "id", "join", "ls", "lsattr", "lscpu", "lsof", "md5sum", "netstat", "nl", "od"),
        *("paste", "pgrep", "pidof", "printenv", "ps", "pwd", "readlink", "realpath", "rev", "sha1sum"),
        *("sha224sum", "sha256sum", "sha384sum", "sha512sum", "ss", "stat", "strings", "sum", "tac", "tail"),
        *("tr", "tree", "tty", "uniq", "uptime", "users", "w", "wc", "whereis", "which", "who", "whoami"),
        *("xxd", "zcat"),
    )
)
_SILENT = frozenset((":", "cd", "false", "sleep", "true"))
_FIXED = frozenset(("arch", "hostname", "nproc", "uname"))
# These only read with this option.
_READ_WITH = {"chage": "-l", "crontab": "-l", "gunzip": "-t", "gzip": "-t", "passwd": "-S", "zip": "-T"}
_COLUMN = re.compile(r"[^{}]*\{\s*print\s+\$(?:\d+|NF)\s*;?\s*\}\s*")
_COUNT = re.compile(
    r"[^{}]*(?:\{\s*\w+\s*(?:\+\+|\+=\s*(?:\d+|\$\d+|\$NF))\s*;?\s*\}\s*)?END\s*\{\s*print\s+\w+(?:\s*\+\s*0)?\s*\}\s*"
)
# In awk, `system`, a pipe, `getline`, an extension or an output file reaches beyond the data.
_REACHING_AWK = re.compile(r"system|getline|@|fflush|close|(?<!\|)\|(?!\|)|print[^;}]*>")
# Lines of sed that print, delete and replace, and neither write a file nor start a program.
_ADDRESS = r"(?:\d+|\$|/[^/\n]*/)"
_SED_LINE = (
    rf"\s*(?:{_ADDRESS}(?:,{_ADDRESS})?)?\s*!?\s*(?:[pdq=]|s(?P<mark>[/|#,@:])(?:(?!(?P=mark))[^\n\\]|\\.)*(?P=mark)"
    r"(?:(?!(?P=mark))[^\n\\]|\\[^n])*(?P=mark)[gpI\d]*)\s*"
)
_SED = re.compile(_SED_LINE)
_READS_OF_FIND = frozenset(
    ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf")
)


def find_tool(name: str) -> Tool | None:
    """Return the function that judges the calls of a tool, None for a command that is not known."""
    if name in _TOOLS:
        return _TOOLS[name]
    if name in _READERS:
        return _read
    if name in _SILENT:
        return _note_steering
    if name in _FIXED:
        return lambda _analysis, _call: Value(led=True)
    return _read_with_option if name in _READ_WITH else None


def list_tools() -> frozenset[str]:
    """Return the names of all tools. The image has each of them."""
    return _READERS | _SILENT | _FIXED | _READ_WITH.keys() | _TOOLS.keys() | BUILTINS | DECLARATIONS


def declare(analysis: ShellAnalysis, command: sh.Simple) -> None:
    """Assign the variables of `local`, `export` and the like. Raises Trusting."""
    options = "".join(word.text or "" for word in command.words[1:] if (word.text or "").startswith("-"))
    for word in command.words[1:]:
        first = word.parts[0]
        found = _NAMED.match(first.text) if isinstance(first, sh.Text) and not first.quoted else None
        if found is not None and isinstance(first, sh.Text):
            rest = sh.make_word([sh.Text(first.text[found.end() :], quoted=False), *word.parts[1:]])
            value = analysis.expand(rest, splits=False).value
            if value.kind is Kind.TEXT and (command.words[0].text == "export" or "x" in options):
                raise Trusting("puts a text of the agent's into the environment of its commands")
            analysis.assign(found[1], value)
            continue
        text = word.text or ""
        if _NAME.fullmatch(text) and command.words[0].text != "export":
            continue
        if not re.fullmatch(r"-[raAgx]+", text):
            raise Trusting(f"declares variables in a way that is not understood: {text or 'no text'}")


def _read(analysis: ShellAnalysis, call: Call) -> Value | None:
    """Return the output of a tool that only reads."""
    _note_steering(analysis, call)
    if any(argument.steers for argument in call.arguments):
        return Value(Kind.TEXT)
    special = OUTPUTS.get(call.name)
    return Value(Kind.TEXT) if special is None else special(analysis, call)


def _note_steering(analysis: ShellAnalysis, call: Call) -> None:
    if any(argument.steers for argument in call.arguments):
        analysis.force(call, _OPTION.format(call.name))


def _require_steady(call: Call, arguments: Iterable[Argument] | None = None) -> None:
    """Raise Trusting if an agent may add an option to a tool whose options start programs."""
    if any(argument.steers for argument in (call.arguments if arguments is None else arguments)):
        raise Trusting(_PROGRAM.format(call.name))


def _read_with_option(analysis: ShellAnalysis, call: Call) -> Value | None:
    needed = _READ_WITH[call.name]
    if needed not in [argument.text for argument in call.arguments]:
        raise Trusting(f"calls `{call.name}` without {needed}, so that it changes files")
    return _read(analysis, call)


def _echo(analysis: ShellAnalysis, call: Call) -> Value:
    values = [argument.value for argument in call.arguments]
    if call.name == "printf" and [argument.text for argument in call.arguments[:1]] == ["-v"]:
        raise Trusting("assigns a variable with printf")
    kind = max((value.kind for value in values), default=Kind.FIXED)
    if Kind.FIXED < kind < Kind.LINE and len(values) > 1:
        kind = Kind.LINE
    return Value(kind, led=bool(values) and values[0].led)


def _locate_command(analysis: ShellAnalysis, call: Call) -> Value | None:
    """Return the output of `command -v`, `type`, or of the command behind `command`."""
    first = call.arguments[0].text if call.arguments else None
    if call.name == "type" or first in ("-v", "-V"):
        _note_steering(analysis, call)
        return Value(Kind.TEXT)
    return _wrap(analysis, call)


def _wrap(analysis: ShellAnalysis, call: Call, skipped: int = 0) -> Value | None:
    """Return the output of a command that another one starts."""
    inner = call.inner(skipped)
    if inner is None or inner.name.startswith("-") or "=" in inner.name:
        raise Trusting(f"calls `{call.name}` in a way that is not understood")
    if find_tool(inner.name) is None or inner.name in BUILTINS or analysis.defines(inner.name):
        return analysis.start(inner, inner.name)
    return analysis.call(inner)


def _limit_time(analysis: ShellAnalysis, call: Call) -> Value | None:
    analysis.force(call, "limits a command's time, which an agent can use up", (False,))
    return _wrap(analysis, call, 1)


def _be_user(analysis: ShellAnalysis, call: Call) -> Value:
    """Return the output of `su USER -c COMMAND`, without the user's start-up files."""
    texts = [argument.text for argument in call.arguments]
    if len(texts) != 3 or "-c" not in texts[:2] or None in texts or any(t in ("-", "-l") for t in texts):
        raise Trusting(f"calls `{call.name}` in a way that is not understood")
    analysis.is_fixed(texts[texts.index("-c") + 1] or "")
    return Value(Kind.TEXT)


def _run_shell(analysis: ShellAnalysis, call: Call) -> Value | None:
    """Return the output of `bash -c CODE`, which must be a sound check of its own."""
    texts = [argument.text for argument in call.arguments]
    if texts[:1] == ["-c"] and len(texts) > 1 and texts[1] is not None:
        analysis.is_fixed(texts[1])
        return Value(Kind.TEXT)
    return _start_interpreter(analysis, call)


def _start_interpreter(analysis: ShellAnalysis, call: Call) -> Value | None:
    shown = " ".join([call.name, *(argument.text or "..." for argument in call.arguments[:1])])
    if not call.arguments or any(argument.text == "-c" for argument in call.arguments[:2]):
        raise Trusting(f"gives `{call.name}` code that is made when the check runs")
    return analysis.start(call, shown)


def _run_python(analysis: ShellAnalysis, call: Call) -> Value | None:
    """Return the output of Python with code that the check contains."""
    texts = [argument.text for argument in call.arguments]
    if texts[:2] == ["-m", "json.tool"]:
        return Value(Kind.TEXT)
    code, rest = None, call.arguments
    if texts[:1] == ["-c"] and len(call.command.words) > 1:
        code, rest = _find_code(analysis, call), call.arguments[2:]
    elif texts in ([], ["-"]):
        documents = [redirect.target for redirect in call.command.redirects if redirect.operator == "<<"]
        code = _fill_in(analysis, documents[0]) if len(documents) == 1 else None
    if code is None:
        return _start_interpreter(analysis, call)
    facts = analyse_python(code, analysis.is_fixed)
    kinds = [argument.value.kind for argument in rest]
    is_fixed = facts.is_plain and all(kind is Kind.FIXED for kind in [*kinds, call.input.kind])
    return Value() if is_fixed else Value(Kind.TEXT)


def _find_code(analysis: ShellAnalysis, call: Call) -> str | None:
    """Return the argument after `-c`, with the check's numbers and texts replaced by a number."""
    words = list(call.command.words)
    place = next((place for place, word in enumerate(words) if word.text == "-c"), None)
    return None if place is None or place + 1 >= len(words) else _fill_in(analysis, words[place + 1])


def _fill_in(analysis: ShellAnalysis, word: sh.Word) -> str | None:
    """Return code of Python with a number for each expansion, None if an expansion may be code itself."""
    holes = [sh.make_word([part]) for part in word.parts if not isinstance(part, sh.Text)]
    kinds = {analysis.expand(hole, splits=False).value.kind for hole in holes}
    if max(kinds, default=Kind.FIXED) > Kind.MAYBE:
        return None
    texts = [part.text for part in word.parts if isinstance(part, sh.Text)]
    if Kind.FIXED in kinds and analysis.may_have_code(texts):
        return None
    return "".join(part.text if isinstance(part, sh.Text) else "0" for part in word.parts)


def _run_awk(analysis: ShellAnalysis, call: Call) -> Value:
    """Return the output of `awk`, whose program must be the check's own."""
    rest = list(call.arguments)
    assigns = False
    while rest and (rest[0].text or "").startswith("-"):
        option = rest.pop(0).text or ""
        assigns = assigns or option.startswith("-v")
        if option in ("-F", "-v") and rest:
            separator = rest.pop(0)
            if option == "-F" and separator.text is None:
                raise Trusting("calls `awk` with a separator that is not the check's own")
        elif not option.startswith(("-F", "-v")):
            raise Trusting(f"calls `awk` with {option}, which is not understood")
    program = rest.pop(0).text if rest else None
    if program is None or _REACHING_AWK.search(program):
        raise Trusting("runs a program of awk that is not the check's own, or reaches beyond its data")
    _require_steady(call, rest)
    kind = call.input.kind
    if _COUNT.fullmatch(program) and not assigns:
        return Value(Kind.MAYBE)
    if rest or assigns or kind is Kind.TEXT:
        return Value(Kind.TEXT)
    if _COLUMN.fullmatch(program):
        return Value(Kind.FIXED if kind is Kind.FIXED else Kind.MAYBE)
    return Value(kind)


def _run_sed(analysis: ShellAnalysis, call: Call) -> Value:
    """Return the output of `sed`, whose script must be the check's own."""
    _require_steady(call)
    options = [argument.text for argument in call.arguments if (argument.text or "").startswith("-")]
    operands = [argument for argument in call.arguments if not (argument.text or "").startswith("-")]
    script = operands[0].text if operands else None
    if script is None or not all(_SED.fullmatch(line) for line in script.split(";")):
        raise Trusting("runs a script of sed that is not the check's own, or more than prints and replaces")
    if not set(options) <= {"-n", "-E", "-r"}:
        raise Trusting("calls `sed` in a way that is not understood")
    return Value(Kind.TEXT if operands[1:] else call.input.kind)


def _find(analysis: ShellAnalysis, call: Call) -> Value:
    """Return the output of `find`, which may only start tools that read."""
    _require_steady(call)
    texts = [argument.text for argument in call.arguments]
    for place, text in enumerate(texts):
        if text not in _READS_OF_FIND:
            continue
        started = texts[place + 1] if place + 1 < len(texts) else None
        if text != "-exec" or started not in _READERS | {"echo", "test", "["}:
            raise Trusting(f"calls `find` with {text} {started or ''}".rstrip())
    return Value(Kind.TEXT, led=(texts[:1] or [None])[0] is not None)


def _pass_on(analysis: ShellAnalysis, call: Call) -> Value:
    """Return the output of `xargs`, which may only start tools that read."""
    _require_steady(call)
    operands = list_operands(call)
    started = operands[0].text if operands else "echo"
    if started not in _READERS | {"echo"} or (operands and call.input.kind is Kind.TEXT):
        raise Trusting(f"starts `{started or 'a command'}` by xargs, with arguments that the agent writes")
    if operands:
        return Value(Kind.TEXT)
    if set("nL") & set(list_options(call)):
        return Value(Kind.TEXT)
    return Value(max(call.input.kind, Kind.LINE) if call.input.kind else Kind.FIXED)


def _calculate(analysis: ShellAnalysis, call: Call) -> Value:
    """Return the output of `bc` or `dc`."""
    if call.input.kind > Kind.MAYBE or any((a.text or "x")[0] != "-" for a in call.arguments):
        raise Trusting(f"gives `{call.name}` a text of the agent's to evaluate")
    return Value(Kind.MAYBE if call.input.kind else Kind.FIXED)


def _express(analysis: ShellAnalysis, call: Call) -> Value:
    """Return the output of `expr`, which may take a text for an operator."""
    if any(a.value.kind >= Kind.LINE or a.many for a in call.arguments):
        analysis.force(call, "gives `expr` a text of the agent's, which it may take for an operator")
        return Value(Kind.TEXT)
    return Value(Kind.MAYBE)


def _list_numbers(analysis: ShellAnalysis, call: Call) -> Value:
    return Value(Kind.LINE if any(a.value.kind for a in call.arguments) else Kind.FIXED)


def _sort(analysis: ShellAnalysis, call: Call) -> Value:
    _require_steady(call)
    if any(re.match(r"-\w*o|--(output|comp)", argument.text or "") for argument in call.arguments):
        raise Trusting("calls `sort` in a way that is not understood")
    return filter_input(analysis, call)


def _list_archive(analysis: ShellAnalysis, call: Call) -> Value:
    """Return the output of `tar -t` or `unzip -l`."""
    _require_steady(call)
    texts = [argument.text or "" for argument in call.arguments]
    mode = {"tar": r"-?[zjJv]*t[zjJv]*f?", "unzip": r"-[lptqZ1]+"}[call.name]
    if not texts or not re.fullmatch(mode, texts[0]) or any(text.startswith("-") for text in texts[1:]):
        raise Trusting(f"unpacks an archive, or calls `{call.name}` in a way that is not understood")
    return Value(Kind.TEXT)


def _query_json(analysis: ShellAnalysis, call: Call) -> Value:
    """Return the output of `jq`, whose program must be the check's own."""
    _require_steady(call)
    operands, options = list_operands(call), list_options(call)
    if (
        not operands
        or operands[0].text is None
        or re.search(r"import|include|\binput_filename|env", operands[0].text)
    ):
        raise Trusting("runs a program of jq that is not the check's own")
    if set(options) - set("recsSjnC") or any((a.text or "").startswith("--") for a in call.arguments):
        raise Trusting("calls `jq` in a way that is not understood")
    return Value(Kind.TEXT)


def _read_variables(analysis: ShellAnalysis, call: Call) -> None:
    """Assign the variables of `read`, `mapfile` and `readarray`."""
    values = {"read": ("-d", "-n", "-N", "-p", "-t", "-u"), "mapfile": ("-d", "-n")}
    names, is_value = [], False
    for argument in call.arguments:
        text = argument.text
        if is_value:
            is_value = False
        elif text is not None and text.startswith("-"):
            if not re.fullmatch(r"-[rast]+|-[dnNpu]", text):
                raise Trusting(f"calls `{call.name}` in a way that is not understood")
            is_value = text in values.get(call.name, values["mapfile"])
        elif text is None or not _NAME.fullmatch(text):
            raise Trusting("reads into a variable whose name is made when the check runs")
        else:
            names.append(text)
    kind = call.input.kind
    for name in names or ["REPLY" if call.name == "read" else "MAPFILE"]:
        analysis.assign(name, Value(Kind.MAYBE if kind is Kind.NUMBER else kind))


def _set_options(analysis: ShellAnalysis, call: Call) -> None:
    known = {
        "set": r"-[eufx]*o?|pipefail|errexit|nounset",
        "shopt": r"-[sq]|nullglob|globstar|dotglob|nocasematch",
    }
    texts = [argument.text or "" for argument in call.arguments]
    if not texts or not all(re.fullmatch(known[call.name], text) for text in texts):
        raise Trusting(f"calls `{call.name}` in a way that is not understood")


def _unset(analysis: ShellAnalysis, call: Call) -> None:
    if not all(_NAME.fullmatch(argument.text or "") for argument in call.arguments):
        raise Trusting("removes a variable or a function in a way that is not understood")


def _let(analysis: ShellAnalysis, call: Call) -> None:
    for argument in call.arguments:
        text = argument.text
        if text is None or re.search(r"[\[$`]", text):
            raise Trusting("calls `let` in a way that is not understood")
        names = _NAME.findall(text)
        analysis.compute(
            sh.Arithmetic(tuple(sh.Variable(name, quoted=True) for name in names), assigned=tuple(names))
        )


def _leave(analysis: ShellAnalysis, call: Call) -> None:
    """Check the argument of `exit` or `return`. The system keeps eight bits of it."""
    command = call.command
    for argument, word in zip(call.arguments, command.words[-1:], strict=False):
        is_last_status = any(isinstance(part, sh.Variable) and part.name == "?" for part in word.parts)
        if argument.value.kind > Kind.FIXED and not is_last_status:
            raise Trusting("exits with a number that the agent chooses, and of 256 bash makes 0")


def _refuse(analysis: ShellAnalysis, call: Call) -> Value | None:
    shown = " ".join([call.name, *(argument.text or "..." for argument in call.arguments[:1])])
    does = {"source": "reads a file as its own commands", ".": "reads a file as its own commands"}
    raise Trusting(f"{does.get(call.name, 'changes how its own commands are read')}: `{shown}`")


BUILTINS = frozenset(
    (
        *(".", ":", "[", "alias", "break", "builtin", "cd", "command", "continue", "echo", "enable", "eval"),
        *("exec", "exit", "false", "let", "mapfile", "printf", "pwd", "read", "readarray", "return", "set"),
        *("shift", "shopt", "source", "test", "trap", "true", "type", "unset"),
    )
)
_TOOLS: dict[str, Tool] = {
    **dict.fromkeys(("[", "test"), shell_values.check_test),
    **dict.fromkeys(("awk", "gawk", "mawk"), _run_awk),
    **dict.fromkeys(("bash", "dash", "sh"), _run_shell),
    **dict.fromkeys(("bc", "dc"), _calculate),
    **dict.fromkeys(("break", "continue"), lambda _analysis, _call: None),
    **dict.fromkeys(("echo", "printf"), _echo),
    **dict.fromkeys(("eval", "source", ".", "exec", "trap", "builtin", "enable", "alias"), _refuse),
    **dict.fromkeys(("exit", "return"), _leave),
    **dict.fromkeys(("python", "python3"), _run_python),
    **dict.fromkeys(("read", "mapfile", "readarray"), _read_variables),
    **dict.fromkeys(("set", "shopt"), _set_options),
    **dict.fromkeys(("tar", "unzip"), _list_archive),
    **dict.fromkeys(("command", "type"), _locate_command),
    **dict.fromkeys(("env", "nice"), _wrap),
    **dict.fromkeys(("su", "runuser"), _be_user),
    "expr": _express,
    "find": _find,
    "jq": _query_json,
    "let": _let,
    "sed": _run_sed,
    "seq": _list_numbers,
    "shift": lambda analysis, _call: analysis.shift(),
    "sort": _sort,
    "timeout": _limit_time,
    "unset": _unset,
    "xargs": _pass_on,
}
