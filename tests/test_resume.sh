#!/bin/sh
# An example that is killed at random moments and restarted until it finishes writes the same files as an
# uninterrupted run; on SIGTERM, SIGINT or SIGUSR1 it saves, exits with status 75, and continues when restarted.
# KILLS=100 sh test_resume.sh kills it more often, as `make long` does.
. ./check.sh
CC=${CC:-cc}
kills=${KILLS:-${LONG:+100}}
kills=${kills:-20}
have timeout || { skip 'no timeout here'; finish; }

check 'the implementation' built build/gpumc.o
check 'the example' $CC -O2 -DGPUMC__IMPLEMENTED ../examples/hierarchical.c build/gpumc.o \
    -o "$scratch/example" -lm -pthread
[ -x "$scratch/example" ] || finish
cd "$scratch" || exit 1
model='size=100 num_samples=300 thin=100'

# draws PREFIX: the CSV files of a run without the lines of times.
draws() { for chain in 1 2 3 4; do grep -v ' seconds (' "$1_$chain.csv" || return 1; done; }
same() { draws "$1" >one && draws "$2" >two && cmp one two && cmp "$1.summary" "$2.summary"; }
refuses_seed() { ! ./example $model seed=5 checkpoint=state >out 2>err && grep -q seed err; }
# run PREFIX: starts or resumes the example, prefixed by $before (a time limit, or empty)
run() { $before ./example $model threads=$threads csv="$1" summary="$1.summary" checkpoint=state \
        checkpoint_seconds=0.02 >out 2>err; }

before='' threads=2
took=''
for go in 1 2 3; do                                  # the least of three: other tests run beside this one
    begin=$(date +%s%N)
    check 'in one go' run whole
    spent=$(($(date +%s%N) - begin))
    [ -n "$took" ] && [ "$took" -lt $spent ] || took=$spent
done
check 'a checkpoint that has served is removed' test ! -e state -a ! -e state.old
delays=$(awk -v n="$kills" -v took="$took" \
    'BEGIN { srand(1); for (i = 0; i < n; i++) printf "%.3f ", 1e-9 * took * (0.05 + rand()) }')
rm -f state*

# ---- killed
killed=0 runs=0
for delay in $delays; do
    before="timeout -s KILL $delay" threads=$((1 + killed % 3))
    run killed
    status=$?
    case $status in
    137) killed=$((killed + 1)) ;;
    0) check "run $runs: the draws of a run in one go" same whole killed; runs=$((runs + 1)) ;;
    *) check "started again: status $status, $(cat err)" false ;;
    esac
done
before=''
check 'the last one comes to its end' run killed
check 'its draws are those of a run in one go' same whole killed
check 'some were killed' test $killed -gt $((kills / 4))
check 'nothing is left' test -z "$(ls | grep '^state' | grep -v tmp)"
echo "killed $killed times in $((runs + 1)) runs"
rm -f state*

# ---- stopped
# Stops after a third of the time of an uninterrupted run; if the run has finished by then, after half of that, etc.
for signal in TERM INT USR1; do
    stops=0
    for part in 3 6 12 24 48; do
        delay=$(awk -v took="$took" -v part=$part 'BEGIN { printf "%.4f", 1e-9 * took / part }')
        before="timeout --preserve-status -s $signal $delay" threads=2
        rm -f state* stopped*
        while run stopped; [ $? = 75 ]; do
            stops=$((stops + 1))
            check "$signal: says so" grep -q 'stopped and saved: .* saved in state' err
            [ $stops = 1 ] && check "$signal: other options are refused" refuses_seed
            [ $stops -lt 40 ] || before=''           # a busy machine gets nowhere in that time
        done
        [ $stops = 0 ] || break
    done
    check "$signal: stopped at least once" test $stops -gt 0
    check "$signal: the draws of a run in one go" same whole stopped
    rm -f state* stopped*
done
finish
