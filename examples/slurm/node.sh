#!/bin/sh
# All chains on one node, which pool their warm-up: DATA=trials.csv OUT=fit sbatch node.sh
# Saves and queues itself again when its time is up, as chains.sh does, which says where the limit is from.
#SBATCH --job-name=stop_signal
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=2G
#SBATCH --time=00:10:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" "${PROGRAM:-./stop_signal}" fit data="${DATA:?}" \
    seed="${SEED:-1}" threads="$SLURM_CPUS_PER_TASK" checkpoint="${OUT:?}.state" output="$OUT.zarr" \
    report="$OUT.html" table="${OUT}_subjects.csv" ${ARGUMENTS:-}
status=$?
if [ $status = 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $status
