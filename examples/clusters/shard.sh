#!/bin/sh
# Make shard I of N of a run in the folder PLACE/I, or finish it if it was begun there. Every scheduler may
# therefore start this script again after a lost machine.
#
#     shard.sh I N PLACE [the options of harness run]
set -eu
index=$1 number=$2 place=$3/$1
shift 3
: "${HARNESS:=harness}"

for manifest in "$place"/*/manifest.json; do
    if [ -e "$manifest" ]; then
        exec "$HARNESS" run --resume "${manifest%/manifest.json}"
    fi
done
exec "$HARNESS" run "$@" --shard "$index/$number" --output-dir "$place"
