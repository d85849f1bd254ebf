"""The languages of programs: their images, compilers and commands, under the names of SandboxFusion.

A program is compiled in its sandbox as an untrusted command, with limits of its own. Expected outputs never
enter that sandbox.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.core.errors import unknown_name
from harness.core.text import escape_text
from harness.core.types import Phase, Status, Verdict
from harness.sandbox.guest.durations import find_longest
from harness.sandbox.guest.messages import Exec
from harness.sandbox.layout import HOME
from harness.sandbox.sandbox import Sandbox

PYTHON = "python"
# The processor time of each process of a compiler, and the wall time of all. Waiting for a disk counts.
COMPILE_CPU_SECONDS, COMPILE_SECONDS = 30, 100.0
_KEPT_BYTES = 4096
_SHOWN = 400
_PUBLIC_CLASS = re.compile(r"^\s*public\s+(?:final\s+|abstract\s+)*class\s+(\w+)", re.MULTILINE)
# Makes what a compiler wrote readable for the users of single runs, who cannot change it.
_COMPILE = ("/bin/sh", "-c", 'ulimit -t "$0"; "$@" && chmod -R go+rX .')
# The interpreter of the sandbox starts each run, and becomes the program.
_START = """import os, signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.execvp({command!r}, {argv!r})
"""

# Compiles, and notes the class that has `main`. `NAME` is the public class as far as a pattern can tell. The
# compiler knows it, and the file must have its name.
_JAVAC = r"""file=NAME.java
build() { errors=$(javac -nowarn -d . -cp TUPLES "$file" 2>&1); }
build || {
  own='s/.* is public, should be declared in a file named \([^/]*\)$/\1/p'
  public=$(printf %s "$errors" | sed -n "$own" | head -n 1)
  test -n "$public" && mv "$file" "$public" && file=$public && build
} || { printf '%s\n' "$errors" >&2; exit 1; }
for each in $(find . -name "${file%.java}.class") $(find . -name '*.class'); do
  if grep -qs '(\[Ljava/lang/String;)V' "$each" && grep -q main "$each"; then
    each=${each#./}; echo "${each%.class}" | tr / . > .main; exit 0
  fi
done
echo "no class has a method main" >&2; exit 1
"""
_GO = ("env", "GOCACHE=/tmp/go", "GO111MODULE=off", "go", "build", "-o", "main", "main.go")
_TYPESCRIPT = """
const ts = require('typescript'), fs = require('fs');
const made = ts.transpileModule(fs.readFileSync('main.ts', 'utf8'), {reportDiagnostics: true,
  compilerOptions: {module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2020, esModuleInterop: true}});
const wrong = made.diagnostics.filter(each => each.category === ts.DiagnosticCategory.Error);
for (const each of wrong) {
  const at = each.file.getLineAndCharacterOfPosition(each.start);
  const text = ts.flattenDiagnosticMessageText(each.messageText, '\\n');
  console.error(`main.ts(${at.line + 1},${at.character + 1}): ${text}`);
}
if (wrong.length) process.exit(1);
fs.writeFileSync('main.js', made.outputText);
"""
_TUPLES = "/usr/share/java/javatuples.jar"
_JAVA = "exec java -ea -XX:+UseSerialGC -XX:MaxRAM=MEMORYm -XX:MaxRAMPercentage=70 -Xss64m " + (
    f'-cp {HOME}:{_TUPLES} "$(cat {HOME}/.main)" "$@"'
)


@dataclass(frozen=True, slots=True)
class Language:
    """A language. `NAME` in its texts means the public class of a program, and `MEMORY` MiB of memory."""

    name: str
    image: str
    # The name of the source file.
    file: str
    run: tuple[str, ...]
    # Empty if nothing is compiled.
    compile: tuple[str, ...] = ()

    def place(self, source: str, memory_mb: int) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """Return the name of the source file, the command of the compiler, and the one of the program.

        Both commands run in the agent's folder, and the second one in any.
        """
        if self.name != "java":
            return self.file, self.compile, self.run
        public = _PUBLIC_CLASS.search(source)
        name = "Main" if public is None else public[1]

        def fill(part: str) -> str:
            return part.replace("NAME", name).replace("MEMORY", str(memory_mb))

        return fill(self.file), tuple(map(fill, self.compile)), tuple(map(fill, self.run))


LANGUAGES = {
    each.name: each
    for each in (
        Language(PYTHON, "python", "main.py", ("python3", "main.py")),
        Language("bash", "python", "main.sh", ("/bin/bash", f"{HOME}/main.sh")),
        Language(
            *("cpp", "cpp", "main.cpp", (f"{HOME}/main",)),
            ("g++", "-std=c++17", "-O2", "-o", "main", "main.cpp"),
        ),
        Language("go", "go", "main.go", (f"{HOME}/main",), _GO),
        Language(
            *("java", "java", "NAME.java", ("/bin/sh", "-c", _JAVA, "java")),
            ("/bin/sh", "-c", _JAVAC.replace("TUPLES", _TUPLES)),
        ),
        Language("nodejs", "node", "main.js", ("node", f"{HOME}/main.js")),
        Language("php", "php", "main.php", ("php", f"{HOME}/main.php")),
        Language("ruby", "ruby", "main.rb", ("ruby", f"{HOME}/main.rb")),
        Language(
            *("rust", "rust", "main.rs", (f"{HOME}/main",)),
            ("rustc", "--edition", "2021", "-O", "-o", "main", "main.rs"),
        ),
        Language("typescript", "node", "main.ts", ("node", f"{HOME}/main.js"), ("node", "-e", _TYPESCRIPT)),
    )
}


def find_language(name: str) -> Language:
    """Return a language by its name. Raises UsageError, which lists all names."""
    if name not in LANGUAGES:
        raise unknown_name("language", name, LANGUAGES)
    return LANGUAGES[name]


async def compile_program(sandbox: Sandbox, language: Language, source: str) -> bytes | Verdict:
    """Compile a program in a fresh sandbox, and return Python that becomes it, or the verdict on its failure.

    No user but the compiler's can change the result. Raises SandboxError.
    """
    file, compiler, command = language.place(source, sandbox.limits.memory_mb)
    await sandbox.write_file(file, source.encode("utf-8", "surrogatepass"))
    request: Exec = {
        "argv": [*_COMPILE, str(COMPILE_CPU_SECONDS), *(compiler or ("true",))],
        "environment": sandbox.environment,
        "folder": "",
        "limits": sandbox.job_limits(COMPILE_SECONDS, _KEPT_BYTES),
    }
    # The guest does not count the time that the compiler waits for a processor.
    header, body = await sandbox.call("compile", request, timeout=find_longest(COMPILE_SECONDS))
    done = sandbox.read_result(header, body)
    if done.limit is None and done.exit_code == 0:
        return _START.format(command=command[0], argv=command).encode()
    phase = Phase.EVALUATOR
    if done.limit in ("wall_seconds", "cpu_seconds"):
        evidence = f"the compiler ran out of time (limit {done.limit}, after {done.duration_seconds:.1f} s)"
        return Verdict(Status.TIMEOUT, 0.0, evidence=evidence, phase=phase, limit=done.limit)
    why = f"the compiler reached the limit {done.limit}" if done.limit else "the program does not compile"
    messages = (done.stderr.data or done.stdout.data).decode("utf-8", "replace")
    status = Status.MEMORY_LIMIT if done.limit == "memory_mb" else Status.FAILED
    return Verdict(status, 0.0, evidence=escape_text(f"{why}: {messages[:_SHOWN]}"), phase=phase)
