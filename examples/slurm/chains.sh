#!/bin/sh
# One chain a task: DATA=trials.csv OUT=fit sbatch chains.sh, then merge.sh (submit.sh does both).
# Before its time is up a task gets USR1, saves its state, ends with status 75 and is queued again; the next
# run goes on where this one stopped. READING has the keys that say how data are read (unit, columns, deadline,
# truncation), ARGUMENTS what else fit is to get. The time limit is ample for 200 subjects: `stop_signal plan`
# measures the machine, and submit.sh takes its limit from that.
#SBATCH --job-name=stop_signal
#SBATCH --array=0-3
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=1G
#SBATCH --time=00:30:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120
chain=$SLURM_ARRAY_TASK_ID
srun "${PROGRAM:-./stop_signal}" fit data="${DATA:?}" num_chains=1 chain="$chain" threads=1 \
    seed="${SEED:-1}" checkpoint="${OUT:?}_$chain.state" output="${OUT}_$chain.zarr" ${READING:-} ${ARGUMENTS:-}
status=$?
if [ $status = 75 ]; then scontrol requeue "${SLURM_ARRAY_JOB_ID}_$chain"; fi
exit $status
