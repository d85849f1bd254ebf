"""The syntax tree of a check in Python tells whether it believes an agent, or only compares its parameters.

The tables hold forms of checks.
"""

from __future__ import annotations

from case_checks import each_case

from harness.environments.os.checks.judgement import judge_check
from harness.environments.os.scripts import Script, is_comparison

# Scripts that a text of the agent's can make pass.
TRUSTING = r"""
exit(print(open("/root/o").read()))
---
import subprocess
out=subprocess.check_output(["calc","1"])
assert out==b"1"
---
import os
exit(os.system("prog"))
---
import os
exit(os.system("grep -q x /root/y"))
---
from sys import argv
exit(0 if eval(argv[1])==5 else 1)
---
import sys
sys.path.insert(0,"/root")
import mod
---
import re,sys
exit(0 if re.search(sys.argv[1], "abc") else 1)
---
from sys import argv
try:
  assert int(argv[1])==5
except Exception:
  pass
---
from sys import argv
if abs(float(argv[1])-5)>1e-3: exit(1)
---
import importlib.util
---
exec(open("/root/x.py").read())
---
import pickle
pickle.load(open("/root/x","rb"))
---
from sys import argv
exit(int(argv[1])-int(argv[2]))
---
import runpy
---
open("/root/x","w").write("a")
---
import subprocess,sys
subprocess.run(sys.argv[1],shell=True)
---
import subprocess
subprocess.run("bash /root/x.sh",shell=True,check=True)
---
import subprocess
subprocess.run(["python3","/root/x.py"],check=True)
---
import ast,sys
ast.literal_eval(sys.argv[1])
---
getattr(__builtins__,"ev"+"al")("1")
---
import ctypes
---
(lambda: 0).__globals__
---
from os import *
system("prog")
---
import sqlite3
---
import yaml
---
n = int(open("/root/n").read())
exit(n)
---
def main():
  return int(open("/root/n").read())
exit(main())
---
import socket
---
from sys import argv
if float(argv[1]) < 3 or float(argv[1]) > 4:
  exit(1)
"""
# Scripts that look at the machine and compare.
SOUND = r"""
import os
assert os.path.isfile("/root/x")
---
from sys import argv
assert argv[1].strip() == argv[2].strip()
---
import os, sys
mode = oct(os.stat("/a").st_mode)[-3:]
sys.exit(0 if os.path.exists("/a") and mode == "644" else 1)
---
with open("/root/x") as f:
  lines = f.read().splitlines()
exit(0 if lines == ["a","b"] else 1)
---
import subprocess
out = subprocess.run(["ls", "-a", "/root"], capture_output=True, text=True).stdout
exit(0 if "x" in out else 1)
---
import json
d=json.load(open("/root/x.json"))
exit(not d["a"]==3)
---
from pathlib import Path
assert Path("/root/x").read_text().strip() == "a"
---
import os
for f in os.listdir("/root"):
  if not f.endswith(".txt"):
    exit(1)
exit(0)
---
from sys import argv
try:
  a=float(argv[1])
except ValueError:
  exit(1)
exit(0 if abs(a-float(argv[2]))<1e-3 else 1)
---
import re
assert re.fullmatch(r"\d+", open("/root/x").read().strip())
---
import csv
rows=list(csv.reader(open("/root/x.csv")))
assert len(rows)==3
---
import hashlib
assert hashlib.md5(open("/root/x","rb").read()).hexdigest()=="a"
---
import pwd
pwd.getpwnam("eve")
"""


def offenders(checks: list[str], kind: str) -> dict[str, str]:
    """Return the checks that are of another kind, with the reason."""
    judgements = {check: judge_check(Script("python", check)) for check in checks}
    return {check: found.reason for check, found in judgements.items() if found.kind != kind}


def scripts(table: str) -> list[str]:
    return table.strip().split("\n---\n")


def test_a_check_in_python_that_believes_an_agent_is_trusting() -> None:
    assert offenders(scripts(TRUSTING), "trusting") == {}


def test_a_check_in_python_that_compares_data_is_sound() -> None:
    assert offenders(scripts(SOUND), "sound") == {}


HEAD = "from sys import argv\n"


@each_case(
    "code",
    [
        HEAD + "if int(argv[1]) == int(argv[2]): exit(0)\nexit(1)",
        HEAD
        + "def norm(s):\n  return s.replace('\\r', '')\nexit(norm(argv[1]).strip() != norm(argv[2]).strip())",
        "import re, json, sys\nsys.exit(0 if re.search(sys.argv[1], json.loads(sys.argv[2])) else 1)",
        HEAD + "assert argv[1].strip() == '/home/user1/file'",
    ],
)
def test_a_plain_comparison_is_recognised(code: str) -> None:
    assert is_comparison(Script("python", code))


@each_case(
    "code",
    [
        "exit(open('/root/state').read() != 'right')",
        "import os\nexit(os.system('calc'))",
        "import subprocess",
        "from os import path",
        "from . import x",
        "import sys.modules",
        "from sys import modules",
        "import sys\nsys.modules['os'].system('calc')",
        "__import__('os').system('calc')",
        "().__class__.__base__.__subclasses__()",
        "exec(argv[1])",
        "eval('1')",
        "print(__builtins__)",
        "getattr(str, 'x')",
        "import collections as c\nc._sys.modules",
        "input()",
        "def f(:",
        "x = '\ud800'",
        "(" * 1000,
    ],
)
def test_a_script_that_may_reach_further_is_no_comparison(code: str) -> None:
    assert not is_comparison(Script("python", code))


def test_a_script_in_another_language_is_no_comparison() -> None:
    assert not is_comparison(Script("bash", "[ $1 = $2 ]"))
