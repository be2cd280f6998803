#!/bin/sh
# Chains as an array, and the merge once all of them are done: ./submit.sh trials.csv fit
# PROGRAM is the path of stop_signal, ARGUMENTS what fit is to get beside (num_samples=2000, say).
set -e
export DATA="${1:?usage: submit.sh TRIALS OUT}" OUT="${2:?usage: submit.sh TRIALS OUT}"
folder=$(dirname "$0")
array=$(sbatch --parsable ${SBATCH_ARGUMENTS:-} "$folder/chains.sh")
merge=$(sbatch --parsable ${SBATCH_ARGUMENTS:-} --dependency=afterok:"$array" "$folder/merge.sh") || {
    scancel "$array"
    exit 1
}
echo "$array $merge"
