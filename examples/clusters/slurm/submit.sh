#!/bin/sh
# Submit a run as a Slurm array, and its merge as a job that starts when all shards have ended.
#
#     submit.sh N PLACE [the options of harness run]
#
# N is the number of shards. PLACE is a folder that all nodes share.
set -eu
number=$1 place=$2
shift 2
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$place"
array=$(sbatch --parsable --array="1-$number" --output="$place/shard-%a.log" \
    "$here/slurm/shard.sbatch" "$here" "$number" "$place" "$@")
# A failed shard starts the merge too, because the merge names the shards that are not finished.
sbatch --dependency="afterany:${array%%;*}" --output="$place/merge.log" \
    "$here/slurm/merge.sbatch" "$here" "$place"
