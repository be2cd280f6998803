#!/bin/sh
# examples/slurm with a real Slurm: a controller and a node on this machine, in a folder of their own. The array job
# of chains is told to stop, saves, requeues itself, finishes, and is merged; then a job that takes a whole node.
# Skipped if Slurm is not installed (Debian: slurm-wlm, munge) or the user is not root, who alone may run jobs.
. ./check.sh
cd ..
PATH=$PATH:/usr/sbin
for need in slurmctld slurmd munged sbatch srun; do
    have $need || { skip "no $need"; finish; }
done
[ "$(id -u)" = 0 ] || { skip 'not root'; finish; }
for script in examples/slurm/*.sh; do check "$script: sh takes it" sh -n "$script"; done

# ---- a cluster of one node ---------------------------------------------------------------------------------
port=$((20000 + $$ % 20000))
mkdir "$scratch/state" "$scratch/spool" "$scratch/jobs"
dd if=/dev/urandom of="$scratch/key" bs=128 count=1 2>/dev/null
chmod 600 "$scratch/key"
chmod 755 "$scratch"
cat >"$scratch/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=root
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$scratch/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.pid
SlurmctldLogFile=$scratch/slurmctld.log
SlurmdLogFile=$scratch/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SwitchType=switch/none
MpiDefault=none
NodeName=$(hostname -s) NodeAddr=127.0.0.1 CPUs=4 RealMemory=4000 State=UNKNOWN
SlurmdParameters=config_overrides
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$scratch/slurm.conf"
stop_cluster() {
    timeout 20 scancel --user=root --signal=KILL --full 2>/dev/null
    timeout 20 scancel --user=root 2>/dev/null
    for name in slurmd slurmctld munged; do
        [ -f "$scratch/$name.pid" ] && kill "$(cat "$scratch/$name.pid")" 2>/dev/null
    done
    sleep 1
    rm -rf "$scratch" 2>/dev/null
}
trap stop_cluster EXIT
munged --force --key-file="$scratch/key" --socket="$scratch/munge.socket" --pid-file="$scratch/munged.pid" \
    --log-file="$scratch/munged.log" --seed-file="$scratch/munged.seed" >/dev/null 2>&1
slurmctld -c >/dev/null 2>&1
slurmd -N "$(hostname -s)" >/dev/null 2>&1 || slurmd >/dev/null 2>&1
idle() { sinfo -h -o %t 2>/dev/null | grep -q idle; }
wait_for() {
    n=$(($1 * 5))
    shift
    while ! "$@"; do
        n=$((n - 1))
        [ $n -gt 0 ] || return 1
        sleep 0.2
    done
}
if ! wait_for 30 idle; then
    skip "Slurm does not start here: $(tail -n 1 "$scratch/slurmd.log" 2>/dev/null)"
    finish
fi

# ---- jobs --------------------------------------------------------------------------------------------------
check 'the program' built build/stop_signal
cp tests/build/stop_signal "$scratch/jobs" || finish
folder=$PWD/examples/slurm
cd "$scratch/jobs" || exit 1
check 'trials' ./stop_signal simulate trials=trials.csv subjects=4 run_trials=60 stops=10
export ARGUMENTS='num_warmup=100 num_samples=3000 checkpoint_seconds=0.5 progress=no'
jobs=$("$folder/submit.sh" trials.csv fit)
array=${jobs% *} merge=${jobs#* }
check 'both are queued' test -n "$array" -a -n "$merge" -a "$array" != "$jobs"
running() { [ "$(squeue -h -j "$1" -t running 2>/dev/null | wc -l)" -ge "$2" ]; }
done_all() { [ "$(squeue -h -j "$1" 2>/dev/null | wc -l)" = 0 ]; }
check 'chains run' wait_for 60 running "$array" 2
check 'the first saves now and then' wait_for 60 test -e fit_0.state
check 'one is told that its time is up' scancel --signal=USR1 "${array}_0"
check 'chains end' wait_for 300 done_all "$array"
check 'merge ends' wait_for 120 done_all "$merge"
check 'it was saved' grep -q 'stopped and saved' slurm-"$array"_0.out
check 'and went on' sh -c "grep -q 'gradients=' slurm-${array}_0.out"
for chain in 0 1 2 3; do check "chain $chain" test -d fit_$chain.zarr; done
check 'merged' test -d fit.zarr -a -s fit.html -a -s fit_check.html
check 'a table of subjects' test "$(wc -l <fit_subjects.csv)" = 5
check 'no state is left' test -z "$(ls ./*.state 2>/dev/null)"
export DATA=trials.csv OUT=node ARGUMENTS='num_warmup=100 num_samples=200 progress=no'
job=$(sbatch --parsable "$folder/node.sh")
check 'the whole node' wait_for 300 done_all "$job"
check 'its report' test -s node.html -a -d node.zarr
finish
