#!/bin/sh
# Chains as an array, and the merge once all of them are done: ./submit.sh trials.csv fit
# PROGRAM is the path of stop_signal, READING how data are read (unit=ms, deadline=0.6, say: for all commands),
# ARGUMENTS what fit is to get beside (num_samples=3000, say). The time
# limit of a chain is from what stop_signal plan measures here with these data; PLAN is what plan is to get
# beside (num_samples=1500, as fit does), LIMIT=h:mm:ss another limit.
set -e
export DATA="${1:?usage: submit.sh TRIALS OUT}" OUT="${2:?usage: submit.sh TRIALS OUT}"
folder=$(dirname "$0")
limit=${LIMIT:-$("${PROGRAM:-./stop_signal}" plan data="$DATA" num_chains=1 threads=1 ${READING:-} ${PLAN:-} |
    sed -n 's/^limit *\([0-9:]*\).*/\1/p')}
: "${limit:?plan gave no time limit}"
array=$(sbatch --parsable --time="$limit" ${SBATCH_ARGUMENTS:-} "$folder/chains.sh")
merge=$(sbatch --parsable ${SBATCH_ARGUMENTS:-} --dependency=afterok:"$array" "$folder/merge.sh") || {
    scancel "$array"
    exit 1
}
echo "$array $merge"
