#!/bin/sh
# Run one shard on each host over ssh, copy the run folders here, and merge them.
#
#     HOSTS="alpha beta" run.sh PLACE [the options of harness run]
#
# PLACE is a folder on this machine. On each host the shard lies in the folder REMOTE, which is relative to the
# home folder. Start the script again with the same REMOTE to finish a run that was interrupted.
set -eu
place=$1
shift
: "${HOSTS:?names the hosts, such as HOSTS=\"alpha beta\"}"
: "${REMOTE:=harness-shards}" "${HARNESS:=harness}"
here=$(cd "$(dirname "$0")/.." && pwd)

# Quote words for the shell of a host.
quote() {
    for word in "$@"; do
        printf "'%s' " "$(printf %s "$word" | sed "s/'/'\\\\''/g")"
    done
}

number=0
for host in $HOSTS; do
    number=$((number + 1))
done
mkdir -p "$place"
index=0 waiting='' processes=''
# A shell lets the programs in its background ignore Ctrl-C.
trap 'kill $processes 2>/dev/null; exit 130' INT TERM HUP
for host in $HOSTS; do
    index=$((index + 1))
    command="HARNESS=$(quote "$HARNESS") sh -c $(quote "$(cat "$here/shard.sh")") shard.sh \
        $index $number $(quote "$REMOTE" "$@")"
    # With a terminal on the host, the end of this ssh ends the shard too, which then can be resumed.
    ssh -tt "$host" "$command" </dev/null >"$place/$index.log" 2>&1 &
    processes="$processes $!" waiting="$waiting $!:$host:$index"
done

failed=''
for each in $waiting; do
    rest=${each#*:}
    code=0
    wait "${each%%:*}" || code=$?
    if [ "$code" -ne 0 ]; then
        echo "shard ${rest#*:} on ${rest%:*} exited with $code; see $place/${rest#*:}.log" >&2
        failed=yes
    fi
done
[ -z "$failed" ] || exit 3

index=0
for host in $HOSTS; do
    index=$((index + 1))
    mkdir -p "$place/$index"
    command="tar -C $(quote "$REMOTE/$index") -cf - ."
    # shellcheck disable=SC2029  # the command is quoted for the host
    ssh "$host" "$command" </dev/null >"$place/$index.tar"
    tar -C "$place/$index" -xf "$place/$index.tar"
    rm "$place/$index.tar"
done
exec sh "$here/merge.sh" "$place"
