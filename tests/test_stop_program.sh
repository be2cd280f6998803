#!/bin/sh
# The commands of examples/stop_signal.c: it builds by the line of its head comment, and without warnings in C99 and
# C11; simulates, fits, checks and compares; refuses wrong input with the right exit status and leaves no partly
# written file; stopped and resumed it makes exactly the draws of an uninterrupted run; with make long validate passes.
. ./check.sh
cd ..
CC=${CC:-cc}
strict="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror"
source=examples/stop_signal.c

line=$(sed -n 's/^ *Build: *//p' $source)
check 'a build line' test "$line" = "cc -O2 $source -o stop_signal -lm -pthread"
check 'builds' built build/stop_signal
check 'no warnings, C99' $CC -std=c99 -fsyntax-only $strict $source
! have clang || check 'no warnings, clang, C11' clang -std=c11 -fsyntax-only $strict $source
cp tests/build/stop_signal "$scratch" || finish
cd "$scratch" || exit 1

# says STATUS TEXT COMMAND...: the command exits with STATUS and its output contains TEXT
says() {
    want=$1 part=$2
    shift 2
    "$@" >out 2>err
    got=$?
    [ $got = "$want" ] && cat out err | grep -qF -- "$part" && return
    echo "error: status $got, wanted $want with \"$part\": $(cat out err | head -3)"
    return 1
}

# ---- words -------------------------------------------------------------------------------------------------
check 'usage' says 2 'usage: stop_signal COMMAND' ./stop_signal
check 'help' says 0 'simulate' ./stop_signal help
check 'an unknown command' says 2 'guess: unknown command' ./stop_signal guess
for command in simulate fit check merge compare validate plan bench; do
    check "$command help" says 0 "usage: $command" ./stop_signal $command help
    check "$command: an unknown key" says 2 'nokey=1: unknown key' ./stop_signal $command nokey=1
done
check 'fit without data' says 2 'data= is missing' ./stop_signal fit
check 'check without fit' says 2 'fit= is missing' ./stop_signal check data=x
check 'compare without fits' says 2 'first= is missing' ./stop_signal compare
check 'simulate without trials' says 2 'trials= is missing' ./stop_signal simulate
check 'too many stop trials' says 2 'stops' ./stop_signal simulate trials=x stops=91
check 'no subjects' says 2 'subjects' ./stop_signal simulate trials=x subjects=0
check 'a model that is none' says 2 'rdex_abcd|rdex' ./stop_signal simulate trials=x model=dex

# ---- simulate, fit, check, compare -------------------------------------------------------------------------
check 'simulate' ./stop_signal simulate trials=trials.csv truth=truth.csv subjects=4 run_trials=60 stops=10
check 'as many lines as trials' test "$(wc -l <trials.csv)" = 481
check 'the same again' ./stop_signal simulate trials=again.csv subjects=4 run_trials=60 stops=10
check 'the same trials' cmp trials.csv again.csv
short="num_warmup=60 num_samples=100 num_chains=2 seed=3 progress=no"
check 'fit' says 0 'all 110 quantities' ./stop_signal fit data=trials.csv $short output=fit.zarr \
    report=fit.html table=subjects.csv summary=summary.csv
check 'a table of subjects' test "$(wc -l <subjects.csv)" = 5
check 'with their SSRT' sh -c "head -1 subjects.csv | grep -q '^subject,trials,stop_trials,ssrt,'"
check 'a summary' test "$(wc -l <summary.csv)" = 111
check 'a report' grep -q '</html>' fit.html
check 'check' says 0 'statistics lie outside' ./stop_signal check fit=fit.zarr data=trials.csv \
    truth=truth.csv page=page.html draws=50
check 'recovery' grep -q '90 % intervals hold the truth' out
check 'of all population parameters' grep -q 'of 22 population parameters lie' out
check 'a page of figures' grep -q '</html>' page.html
check_fails 'a number that is none, or anything fetched' grep -qiE 'nan|http' page.html
cp trials.csv same_trials.csv
check 'truth that is none' says 1 'columns name, subject and value' ./stop_signal check fit=fit.zarr \
    data=trials.csv truth=same_trials.csv page=none.html draws=20
check 'data that would be written over' says 1 'is to be two files' ./stop_signal fit data=trials.csv \
    table=trials.csv $short
check 'they are there' cmp trials.csv same_trials.csv
(head -1 trials.csv; tail -n +2 trials.csv | sort -s -t , -k 1,1r) >backwards.csv
check 'subjects in another order' says 1 'subject 1 is "s004" in the data, and another in fit.zarr' \
    ./stop_signal check fit=fit.zarr data=backwards.csv draws=20
check 'nor are they merged' says 1 'subject 1 is "s004" in the data, and another in fit.zarr' \
    ./stop_signal merge fit=fit.zarr data=backwards.csv table=none.csv
check 'no page is left' test ! -e none.html -a ! -e none.html.tmp
./stop_signal simulate trials=other.csv subjects=3 run_trials=60 stops=10 >/dev/null
check 'other data' says 1 'were they read with the same arguments?' ./stop_signal check fit=fit.zarr \
    data=other.csv
check 'fit again' says 0 'quantities' ./stop_signal fit data=trials.csv $short output=second.zarr seed=4
check 'compare' says 0 'Monte Carlo standard errors apart' ./stop_signal compare first=fit.zarr \
    second=second.zarr page=forest.html
check 'a forest' grep -q '</svg>' forest.html
check 'a store that is not there' says 1 'none.zarr' ./stop_signal compare first=none.zarr second=fit.zarr

# ---- chains of an array job, merged ------------------------------------------------------------------------
for chain in 0 1; do
    check "chain $chain alone" ./stop_signal fit data=trials.csv num_warmup=60 num_samples=100 num_chains=1 \
        seed=3 chain=$chain progress=no output=chain_$chain.zarr
done
check 'merged' says 0 'statistics lie outside' ./stop_signal check fit=chain_0.zarr,chain_1.zarr \
    data=trials.csv draws=20
check 'merge' says 0 'all 110 quantities' ./stop_signal merge fit=chain_0.zarr,chain_1.zarr data=trials.csv \
    report=merged.html table=merged.csv
check 'its table' test "$(wc -l <merged.csv)" = 5
check 'one chain twice' says 1 'are also in' ./stop_signal check fit=chain_0.zarr,chain_0.zarr data=trials.csv

# ---- small and odd data --------------------------------------------------------------------------------------
./stop_signal simulate trials=one.csv subjects=1 run_trials=120 stops=30 >/dev/null
check 'one subject' says 0 'm_B  ' ./stop_signal fit data=one.csv $short output=one.zarr
check 'its check' says 0 'statistics lie outside' ./stop_signal check fit=one.zarr data=one.csv draws=20
check 'a truncation that leaves little' says 0 '120 trials' timeout 60 ./stop_signal simulate trials=late.csv \
    subjects=1 run_trials=60 stops=10 truncation=50
check 'a task that cannot be' says 2 'start, step and top cannot be' ./stop_signal check fit=one.zarr data=one.csv \
    top=-5
awk -F, -v OFS=, 'NR > 1 && $4 == "" { $4 = 0 } NR > 1 && $6 != "" && ++n % 3 == 0 { $6 = 0 } { print }' one.csv \
    >zero.csv
check 'a delay of 0 where 0 is no response' says 0 ', 60 stop' ./stop_signal fit data=zero.csv none=0 $short
check 'more stores than fit' says 1 'more than 64 stores' ./stop_signal check data=one.csv \
    fit="$(yes one.zarr | head -n 65 | paste -s -d , -)"

# ---- what is refused leaves nothing ------------------------------------------------------------------------
head -c 5000 trials.csv >cut.csv
check 'a file that is cut' says 1 'does not end' ./stop_signal fit data=cut.csv $short output=cut.zarr \
    table=cut_table.csv
check 'leaves nothing' test ! -e cut.zarr -a ! -e cut_table.csv
check 'no file' says 1 'no.csv' ./stop_signal fit data=no.csv
sed 's/^subject/person/' trials.csv >person.csv
check 'a column that is missing' says 1 'no column "subject"; found: person, run' ./stop_signal fit \
    data=person.csv
check 'a folder that is not there' says 1 'nowhere' ./stop_signal simulate trials=/nowhere/x.csv
awk -F, -v OFS=, 'NR == 5 { $5 = "0.09"; $4 = $3 } { print }' trials.csv >fast.csv
check 'exclusions are said' says 0 'line 5: 0.090 s' ./stop_signal fit data=fast.csv $short \
    excluded=excluded.csv
check 'and listed' grep -q '^s001,1,5,1,0.090000,' excluded.csv

# ---- stopped and resumed -----------------------------------------------------------------------------------
run="fit data=trials.csv num_warmup=100 num_samples=1500 num_chains=2 seed=5 progress=no"
saved() {
    n=0
    until [ -e state ]; do
        n=$((n + 1))
        [ $n -lt 3000 ] && kill -0 $1 2>/dev/null || return 1
        sleep 0.1
    done
}
check 'a run in one go' ./stop_signal $run csv=whole
./stop_signal $run csv=part checkpoint=state checkpoint_seconds=0.1 >/dev/null 2>&1 & pid=$!
check 'it saves now and then' saved $pid
kill -USR1 $pid
wait $pid
check 'stopped with status 75' test $? = 75
check 'resumed' ./stop_signal $run csv=part checkpoint=state
for c in 1 2; do
    grep -v '^#' whole_$c.csv >whole
    grep -v '^#' part_$c.csv >part
    check "the same draws of chain $c" cmp whole part
done
check 'the checkpoint has gone' test ! -e state

# ---- other models ------------------------------------------------------------------------------------------
for model in rdex rdex_a:0.8 beests2 beests_nofail beests2_nofail:0.7 wald; do
    late=${model#*:} model=${model%:*}
    [ "$late" != "$model" ] && deadline=deadline=$late || deadline=
    check "$model: simulate" ./stop_signal simulate trials=$model.csv subjects=3 run_trials=60 stops=10 \
        model=$model $deadline
    check "$model: fit" says 0 'quantities' ./stop_signal fit data=$model.csv model=$model $short \
        output=$model.zarr $deadline
    check "$model: check" says 0 'statistics lie outside' ./stop_signal check fit=$model.zarr \
        data=$model.csv draws=20 $deadline
done
check 'the priors of BEESTS' says 0 'quantities' ./stop_signal fit data=beests_nofail.csv \
    model=beests_nofail form=beests $short output=beests.zarr
./stop_signal simulate trials=same.csv truth=beests_truth.csv subjects=3 run_trials=60 stops=10 \
    model=beests_nofail >/dev/null
check 'recovery of subjects' says 0 'intervals hold the truth' ./stop_signal check fit=beests.zarr \
    data=beests_nofail.csv truth=beests_truth.csv draws=20
check_fails 'a population beside logarithms that is on another scale' grep -q '^m_mu_go' out
check 'which are for its models' says 1 'the priors of BEESTS are for beests, not for rdex' \
    ./stop_signal fit data=rdex.csv model=rdex form=beests $short
check 'the baseline has its own priors' says 1 'form t are not for wald' ./stop_signal fit data=wald.csv \
    model=wald form=t
./stop_signal simulate trials=go.csv subjects=3 run_trials=60 stops=0 >/dev/null
check 'data without stops' says 1 'go_only=keep keeps them' ./stop_signal fit data=go.csv model=wald $short
check 'which the baseline takes' says 0 'quantities' ./stop_signal fit data=go.csv model=wald go_only=keep $short \
    output=go.zarr
check 'their check' says 0 'statistics lie outside' ./stop_signal check fit=go.zarr data=go.csv go_only=keep draws=20
check 'a deadline makes late responses none' says 0 'after the deadline of 0.5 s count as none' \
    ./stop_signal fit data=trials.csv deadline=0.5 $short
check 'omissions that a model lacks' says 1 'has no go failures' ./stop_signal fit data=trials.csv \
    model=beests_nofail
check 'the baseline has no deadline' says 1 'wald with a deadline' ./stop_signal fit data=wald.csv \
    model=wald deadline=1
check 'a covariate: simulate' sh -c 'echo effect_v0=0.3 >group.txt
    ./stop_signal simulate trials=age.csv subjects=5 run_trials=60 stops=10 group=group.txt covariate=age'
check 'an effect of no covariate' says 2 'effect_v0 needs covariate=' ./stop_signal simulate trials=none.csv \
    group=group.txt
check 'a covariate: fit' says 0 'b_v0' ./stop_signal fit data=age.csv covariates=age:v0 $short

check 'plan for a file' says 0 'limit        0:0' ./stop_signal plan data=trials.csv num_chains=1 threads=1

# Which is timed in one of its checks and takes the longest of all.
[ -z "${LONG:-}" ] || check 'validate' says 0 'all passed' ./stop_signal validate
finish
