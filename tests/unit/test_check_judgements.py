"""The structure of a check tells whether it believes an agent. These tables hold forms of checks."""

from __future__ import annotations

from case_checks import each_case

from harness.environments.os.checks import shell_tools
from harness.environments.os.checks.judgement import judge_check
from harness.environments.os.checks.shell_parser import parse_shell
from harness.environments.os.checks.shell_syntax import NotUnderstood
from harness.environments.os.grader import StateChecks
from harness.environments.os.scripts import Language, Script

# Each line is a check that starts a program of the agent's, or is read as a text of the agent's says.
TRUSTING = r"""
grep -q word "$(cat /root/name)"
[ $(cat /root/out) = 5 ]
out=$(prog); eval "x=$out"; [ "$x" = 1 ]
out=$(cat /root/o); python3 -c "exit(0 if $out == 5 else 1)"
(( $(cat /root/n) == 5 ))
n=$(cat /root/n); [ $((n+1)) -eq 6 ]
n=$(cat /root/n); [[ $n -eq 5 ]]
x=$(cat /root/p); [[ abc == $x ]]
x=$(cat /root/p); [[ abc =~ $x ]]
case abc in $(cat /root/p)) exit 0;; esac; exit 1
if prog; then exit 0; fi; exit 1
prog && exit 0 || exit 1
prog
prog | grep -q word
prog 1 2 > /dev/null; [ $? -eq 0 ]
diff <(prog) /root/expected
diff <(bash /root/a.sh) <(echo 5)
source /root/f.sh; [ "$(f 1)" = 1 ]
. ~/.bashrc && f
bash /root/x.sh | grep -q ok
bash -c "$(cat /root/x)"
bash < /root/x.sh
sh /root/x.sh && exit 0
cat /root/x.sh | bash | grep -q ok
python3 /root/x.py | grep -qx 5
python3 < /root/x.py
./prog | tail -1 | grep -q ok
cat /root/list | xargs -I{} sh -c '{}'
cat /root/list | xargs rm
find /root -name '*.sh' -exec {} \;
find /root -name '*.sh' -exec bash {} \; | grep -q ok
awk -f /root/p.awk /etc/passwd
awk "BEGIN { exit !($(cat /root/n) == 5) }"
expr $(cat /root/n) = 5
expr "$(cat /root/n)" = 5
test $(cat /root/n) = 5
[ "$(cat /root/n)" -ne 5 ] && exit 1; exit 0
if [ "$(cat /root/n)" -ne 5 ]; then exit 1; fi
! [ "$(cat /root/n)" -eq 3 ]
grep -q "$(cat /root/pattern)" /etc/passwd
grep -qf /root/patterns /etc/passwd
echo "$(cat /root/n) == 5" | bc
echo "$(cat /root/n)" | bc | grep -q 5
set -e; prog; exit 0
trap 'exit 0' EXIT; prog; exit 1
while read -r a b; do [ "$(prog $a)" = "$b" ] || exit 1; done < /root/cases
exit $(cat /root/code)
exit $(grep -c bad /root/x)
make -C /root/p check
cd /root/repo && git log --oneline | grep -q fix
gcc /root/x.c -o /tmp/x && /tmp/x
/usr/local/bin/prog 3 | grep -q 3
timeout 5 prog | grep -q 3
env prog
sudo -u eve prog
su - eve -c 'true'
su eve -c prog
nohup prog
crontab /root/c
PATH=/root/bin:$PATH; ls
export PATH=/root/bin:$PATH
LD_PRELOAD=/root/x.so ls
read -r x < /root/n; [ $x = 5 ]
x=($(cat /root/n)); [ ${x[0]} = 5 ]
mapfile -t a < /root/n; (( a[0] == 5 ))
for x in $(cat /root/n); do [ $x = 5 ] || exit 1; done
[ "$(cat /root/a)" = 1 -a "$(cat /root/b)" = 2 ]
[ $(ls /root/d) ]
[ -f /root/*.txt ]
[ $(ls -l /root/x | awk '{print $1}') = -rw-r--r-- ]
[ -n $(cat /root/x) ]
sort /root/a > /tmp/a; sort /root/b > /tmp/b; cmp /tmp/a /tmp/b
prog > /tmp/o; grep -q 5 /tmp/o
declare -i n=$(cat /root/n); [ $n = 5 ]
printf -v x "$(cat /root/n)"
sed -n "$(cat /root/s)" /etc/passwd | grep -q root
sed 's/x/y/e' /root/x
sed -i 's/a/b/' /root/x; grep -q b /root/x
jq "$(cat /root/f)" /root/x.json
perl -ne 'print' /root/x
node /root/x.js
f() { prog; }; f
f() { return $(cat /root/n); }; f && exit 0
if [ $(wc -l < /root/x) -ne 3 ]; then exit 1; fi
[ $(wc -l < /root/a) -eq $(wc -l < /root/b) ]
grep -q bad $(cat /root/files) && exit 1; exit 0
curl -s localhost:8080 | grep -q ok
nc -z localhost 80
prog & wait; exit 0
if x=$(prog); then exit 0; fi; exit 1
x=$([ $(cat /root/n) = 5 ] && echo yes); [ "$x" = yes ]
exec prog
command prog
builtin source /root/x
let "x = $(cat /root/n)"; [ $x = 5 ]
echo ${x:$(cat /root/n)}
arr[$(cat /root/n)]=1
test -v "$(cat /root/n)"
[ $1 -eq 5 ]
(( $1 == 5 ))
grep -q "$1" /root/answers
echo 5 | grep -q "$1"
case 5 in $1) exit 0;; esac; exit 1
python3 -c "exit(0 if $1 == 5 else 1)"
if timeout 1 grep -q bad /root/x; then exit 1; fi
n=$(stat -c %a /root/x); if [ $n != 644 ]; then exit 1; fi
code='import os; os.system("prog")'; python3 -c "$code"
x=$(cat /root/n | tr -d ' '); [ $x = 5 ]
sort -k1 --compress-program=/root/x /root/y
tar xf /root/a.tar && grep -q x a
tar -tf /root/a.tar --to-command=/root/x
unzip -o /root/a.zip
[[ -v $(cat /root/n) ]]
awk '{system($0)}' /root/x
awk '{print | "sh"}' /root/x
ls | while read f; do bash "$f"; done
unalias ls; ls
hash -p /root/x ls; ls
function [ { return 0; }; [ 1 = 2 ]
x=1; [ "$(cat /root/n)" -gt 3 ] || x=0; [ $x = 1 ]
xargs -a /root/list grep -q ok
"$(cat /root/cmd)"
$CMD
who | grep -q "$USER$(cat /root/x)"
IFS=5; [ $(wc -l < /root/x) = 5 ]
ssh localhost true
vim -c ':q' /root/x
npm test
systemctl is-active cron
while [ ! -f /root/done ]; do sleep 1; done; prog
until prog; do :; done
select x in a; do :; done
time prog
coproc prog
grep -q x <(prog)
x=$(prog 1) || exit 1; [ "$x" = 1 ]
x=$(prog 1); [ $? -eq 0 ]
x=$(prog 2>&1); [ "$x" = 1 ]
x=$(echo 3 | prog); [ $x = 3 ]
x=$(if prog; then echo y; fi); [ "$x" = y ]
x=$(y=$(prog) && echo ok); [ "$x" = ok ]
set -e; x=$(prog); [ "$x" = y ]
{ out=$(prog); [ "$out" = 6 ]; } < /root/numbers
if grep -q bad /root/*.txt; then exit 1; fi
export X="$(cat /root/x)"; grep -q bad /root/y && exit 1; exit 0
[[ $(cat /root/x) =~ (.*) ]]; [ ${BASH_REMATCH[1]} = 5 ]
x=$(cat /root/x); : ${y:=$x}; [ $y = 3 ]
[ $(cat /root/missing 2>&1) = 5 ]
"""
# Each line is a check that looks at the machine with tools of the image, and compares texts as data.
SOUND = r"""
[ -f /root/x ] && [ -d /root/y ]
[ -e /root/a ] && [ ! -e /root/b ] || exit 1
grep -q word /root/x
grep -qx 'a line' /root/x && ! grep -q bad /root/x
[ "$(cat /root/x)" = "hello" ]
[ "$(cat /root/x)" == 'hello' ] && exit 0 || exit 1
if [ "$(cat /root/x)" != "hello" ]; then exit 1; fi
[ "$(stat -c %a /root/x)" = 644 ]
[ $(stat -c %a /root/x) -eq 644 ]
[ $(stat -c '%a' /root/x) == 644 ] || exit 1
[ "$(stat -c '%U:%G' /root/x)" = eve:eve ] || exit 1
[ $(ls /root | wc -l) -eq 3 ]
[ $(find /root -type f -name '*.txt' | wc -l) -eq 3 ] && exit 0; exit 1
test $(find / -name x -perm 644 2>/dev/null | wc -l) = 5
if [ $(find . -type f -perm 0444 | wc -l) -ne 3 ]; then exit 1; fi
[ "$(find . -name '*.txt' -not -perm 0444)" = "" ]
[ -z "$(find . -name '*.txt' -not -perm 0444)" ]
cmp -s /root/a /root/b
diff -q /root/a /root/b > /dev/null
diff <(sort /root/a) <(sort /root/b)
md5sum /root/x | awk '{print $1}' | grep -q abc
[ "$(md5sum /root/x | cut -d' ' -f1)" = abc ]
[ $(md5sum /root/x | cut -d' ' -f1) = abc ] || exit 1
id eve && id -nG eve | grep -qw sudo
getent passwd eve | grep -q ':/bin/bash$'
grep -q '^eve:' /etc/passwd
crontab -l | grep -q backup
for f in /root/*.txt; do [ -w "$f" ] || exit 1; done
for f in $(find /root -name '*.txt'); do [ "$(stat -c %a "$f")" = 444 ] || exit 1; done
for i in 1 2 3; do [ -f /root/file$i ] || exit 1; done
for i in {1..3}; do test -f "/root/file$i" || exit 1; done
while read -r line; do [ "$line" = x ] || exit 1; done < /root/x
n=$(wc -l < /root/x); [ "$n" -eq 3 ]
n=$(cat /root/x | wc -l); [ $n -eq 3 ] || exit 1
n=$(grep -c x /root/x); [ "$n" -ge 2 ]
count=0; for f in /root/*; do count=$((count+1)); done; [ $count -eq 3 ]
[ "$1" = "$2" ]
[ "$1" -eq "$2" ]
[[ "$1" == "$2" ]]
case "$1" in yes|y) exit 0;; *) exit 1;; esac
[[ "$(cat /root/x)" =~ ^[0-9]+$ ]]
cd /root/d && [ "$(ls)" = "a" ]
tar -tf /root/a.tar | grep -q x
head -n 1 /root/x | grep -q '^a$'
[ "$(head -1 /root/x)" = a ]
[ "$(sed -n 2p /root/x)" = b ]
[ "$(awk 'NR==2' /root/x)" = b ]
awk -F, '$2 != 3 {exit 1}' /root/x.csv
readlink /root/l | grep -qx /root/x
[ "$(readlink -f /root/l)" = /root/x ]
[ -L /root/l ] && [ -x /root/x ]
[ -s /root/x ]
du -s /root/x | cut -f1 | grep -q 4
set -e
set -e; test -f /root/x; grep -q a /root/x
[ $(cat /root/x | wc -l) -eq $(cat /root/y | wc -l) ]
jq -e '.a == 3' /root/x.json > /dev/null
jq -r .name /root/x.json | grep -qx bob
python3 -c "import json; d=json.load(open('/root/x.json')); assert d['a'] == 3"
python3 -m json.tool /root/x.json > /dev/null
su eve -c 'test -r /root/x'
f() { [ -f "$1" ]; }; f /root/a && f /root/b
check() { local n=$(wc -l < "$1"); [ "$n" -eq "$2" ]; }; check /root/a 3 || exit 1
unzip -l /root/a.zip | grep -q x
ls -l /root/x | awk '{print $1}' | grep -q '^-r--r--r--'
ls -ld /root/x | grep -q '^drwx'
[ "$(ls -l /root/x | awk '{print $1}')" = "-rw-r--r--" ]
stat -c '%a %U' /root/x | grep -qx '644 root'
which vim > /dev/null && command -v git >/dev/null 2>&1
find /home/a >/dev/null 2>/dev/null && exit 1 || exit 0
x=$(cat /root/x); if [ "$x" = a ] || [ "$x" = b ]; then exit 0; else exit 1; fi
[ ! -d /root/x ]
[ "$(wc -w < /root/x)" -eq 3 ] && exit 0 || exit 1
tail -n1 /root/x | tr -d '\n' | grep -q '^z'
result=$(grep -c x /root/y); if [ "$result" -eq 3 ]; then exit 0; else exit 1; fi
size=$(stat -c%s /root/x); [ "$size" -gt 100 ] || exit 1
echo "$1" | grep -q '^[0-9]*$'
answer=$(echo "$1" | tr -d ' '); [ "$answer" = "$2" ]
[ "$(id -u eve)" -eq 1001 ]
groups eve | grep -q admin
sort -c /root/x
[ "$(sort /root/x | uniq | wc -l)" = 3 ]
test "$(date -r /root/x +%Y)" = 2020
hidden=$(ls -A /root | grep '^\.'); [ -n "$hidden" ]
"""
# Each line is a check that starts programs, and uses nothing of them but their output.
OF_PROGRAMS = r"""
cat <<< $(prog) | grep -q x
[ "$(echo "$(prog)")" = 3 ]
out=$(prog 3); [ $out == 3 ] && exit 0; exit 1
[ $(prog) != 3 ] && exit 1; exit 0
[ `~/prog` -eq 5 ] || exit 1
python3 -c "print($(prog) == 5)" | grep -q True
[ "$(python3 /root/x.py 3)" = 9 ]
x=$(./prog 3 | head -1); [ $x -eq 3 ]
f() { local o=$(prog "$1"); echo $o; }; [ `f 1` = 1 ] || exit 1
for a in 1 2 3; do [ "$(sq $a)" = "$((a*a))" ] || exit 1; done
[ "$(prog 1)" = 1 ] && [ "$(prog 2)" = 2 ]
[ "$1" = "$(prog)" ]
"""


def offenders(checks: list[str], kind: str, language: Language = "bash") -> dict[str, str]:
    """Return the checks that are of another kind, with the reason."""
    judgements = {check: judge_check(Script(language, check)) for check in checks}
    return {check: str(found) for check, found in judgements.items() if found.kind != kind}


def lines(table: str) -> list[str]:
    return table.strip().split("\n")


def test_a_check_that_believes_an_agent_is_trusting() -> None:
    assert offenders(lines(TRUSTING), "trusting") == {}


def test_a_check_that_compares_data_is_sound() -> None:
    assert offenders(lines(SOUND), "sound") == {}


def test_a_check_that_uses_only_the_output_of_programs_can_be_judged_as_data() -> None:
    assert offenders(lines(OF_PROGRAMS), "data") == {}


def test_a_check_that_must_be_compiled_is_trusting() -> None:
    assert offenders(["int main() { return 0; }"], "trusting", "c") == {}


def test_the_starts_of_programs_are_offsets_of_their_commands() -> None:
    check = '# calc\n[ `calc 1`x = 1x ] && [ "$(X=1 calc 2)" = 2 ]'
    starts = judge_check(Script("bash", check)).starts
    assert [check[start:].split()[:2] for start in starts] == [["calc", "1`x"], ["calc", '2)"']]


def test_a_check_is_as_sound_as_its_weakest_script() -> None:
    sound, data, trusting = (Script("bash", code) for code in ("true", "[ $(calc) = 1 ]", "calc"))
    example = Script("bash", "true")
    assert StateChecks((sound, None), example).judgement.kind == "sound"
    assert StateChecks((sound, data), example).judgement.kind == "data"
    assert StateChecks((data, trusting), example).judgement.kind == "trusting"
    assert StateChecks((data,)).judgement.kind == "trusting", "no reference makes the program"


def test_syntax_that_is_not_analysed_is_refused() -> None:
    table = r"""
a & b
echo "
$(a
if a; then b
for x in a; do
a | | b
a |& b
coproc a
case x in a) b;& esac
echo ${!x}
echo ${x@P}
a() { b; }; a() { c; }
}
echo )
[[ a
$((a[1]))
echo $"x"
ls !(a)
time ls
"""

    def is_refused(code: str) -> bool:
        try:
            parse_shell(code)
        except NotUnderstood:
            return True
        return False

    assert [code for code in lines(table) if not is_refused(code)] == []


@each_case("code", ["((" * 5000, "$(" * 5000, "a" * 100_000, "if " * 5000])
def test_enormous_scripts_are_refused(code: str) -> None:
    assert judge_check(Script("bash", code)).kind == "trusting"


def test_no_tool_that_executes_files_counts_as_a_reader() -> None:
    assert shell_tools.list_tools().isdisjoint({"git", "make", "perl", "node", "sudo", "ssh", "vim", "less"})
