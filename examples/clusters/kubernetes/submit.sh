#!/bin/sh
# Start the shards, wait for them, and merge them. Afterwards the run folder is in merged/ of the volume.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

# Wait until a Job has succeeded or failed: JOB SECONDS. `kubectl wait` waits for one condition alone.
wait_for_end() {
    ends=$(($(date +%s) + $2))
    while [ "$(date +%s)" -lt "$ends" ]; do
        states=$(kubectl get "job/$1" -o 'jsonpath={.status.conditions[?(@.status=="True")].type}') || states=''
        case " $states " in
            *" Complete "*) return 0 ;;
            *" Failed "*) echo "$1 failed; see: kubectl logs --selector=job-name=$1 --all-containers" >&2; return 3 ;;
        esac
        sleep 5
    done
    echo "$1 has not ended within $2 seconds" >&2
    return 3
}

kubectl create configmap harness-scripts --from-file="$here/../shard.sh" --from-file="$here/../merge.sh" \
    --dry-run=client -o yaml | kubectl apply -f -
kubectl apply -f "$here/volume.yaml" -f "$here/shards.yaml"
wait_for_end harness-shards 86400
kubectl apply -f "$here/merge.yaml"
wait_for_end harness-merge 3600
