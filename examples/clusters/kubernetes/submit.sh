#!/bin/sh
# Start the shards, wait for them, and merge them. Afterwards the run folder is in merged/ of the volume.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
kubectl create configmap harness-scripts --from-file="$here/../shard.sh" --from-file="$here/../merge.sh" \
    --dry-run=client -o yaml | kubectl apply -f -
kubectl apply -f "$here/volume.yaml" -f "$here/shards.yaml"
kubectl wait --for=condition=complete --timeout=24h job/harness-shards
kubectl apply -f "$here/merge.yaml"
kubectl wait --for=condition=complete --timeout=1h job/harness-merge
