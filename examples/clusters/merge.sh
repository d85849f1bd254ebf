#!/bin/sh
# Join the shards below PLACE into one run folder in PLACE/merged.
#
#     merge.sh PLACE [the options of harness merge]
set -eu
place=$1
shift
: "${HARNESS:=harness}"
exec "$HARNESS" merge "$place"/[0-9]*/*/ --output-dir "$place/merged" "$@"
