#!/bin/sh
# The examples do what their head comments say: they build as stated and print the output shown there, up to Monte
# Carlo error and times; wrong arguments are refused by name and with the right exit status; output files are
# complete; the program in the README is that of the example, compiles and runs.
. ./check.sh
cd ..
CC=${CC:-cc}
strict="-std=c99 -fsyntax-only -DGPUMC__IMPLEMENTED
        -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror"

# ---- build lines and expected output --------------------------------------------------------------------

# The lines of a head comment after "Output:", without their indentation.
expected() {
    awk '/^ *Output:/ { on = 1; next } /\*\// { exit } on && (NF || n++) { sub(/^   /, ""); print }' "$1"
}

# compare EXPECTED ACTUAL: compares lines word by word. Numbers of a table row (name, mean, mcse, sd, q5, q50, q95,
# ess_bulk, ess_tail, r_hat) may differ as much as another seed would change them; other numbers and counts of
# gradients may differ by a quarter, of divergences by 10; times, and the name of the worst element, are ignored.
compare() {
    awk '
    function off(what) { print FNR ": " what ": expected [" want[FNR] "], got [" $0 "]"; bad = 1 }
    function near(a, b, tolerance) { return (a - b <= tolerance) && (b - a <= tolerance) }
    function is_number(x) { return x ~ /^[-+]?[0-9]+[.]?[0-9]*(e[-+]?[0-9]+)?[,:;]?$/ }
    function is_element(x) { return x ~ /^[a-z_]+\[[0-9,]+\]$/ }
    function abs(x) { return x < 0 ? -x : x }
    function row(  k) {
        if (!near($4, w[4], 0.15 * w[4])) off("sd")
        for (k = 2; k <= 7; k++) if ((k < 3 || k > 4) && !near($k, w[k], 0.25 * w[4])) off("column " k)
        for (k = 8; k <= 9; k++) if ($k > 2 * w[k] || w[k] > 2 * $k) off("column " k)
        if (!near($10, w[10], 0.015)) off("r_hat")
    }
    function key(word, expected_word,  a, b) {
        split(word, a, "="); split(expected_word, b, "=")
        if (a[1] != b[1]) off("key")
        else if (a[1] == "gradients" && !near(a[2], b[2], 0.25 * b[2])) off("gradients")
        else if (a[1] == "divergences" && !near(a[2], b[2], 10)) off("divergences")
    }
    NR == FNR { want[FNR] = $0; n = FNR; next }
    {
        if (FNR > n) { off("more lines"); exit }
        lines = FNR
        words = split(want[FNR], w, " ")
        if (NF != words) off("number of words")
        else if (NF == 10 && is_number($2) && is_number($10) && $1 == w[1]) row()
        else for (k = 1; k <= NF; k++) {
            if ($k ~ /=/) key($k, w[k])
            else if (k > 1 && is_element($k) && is_element(w[k])) continue
            else if (!is_number($k) || !is_number(w[k])) { if ($k != w[k]) off("word") }
            else if ($(k + 1) != "s" && !near($k + 0, w[k] + 0, 0.25 * abs(w[k]) + 0.01)) off("number")
        }
    }
    END { if (lines != n) { print "expected " n " lines, got " lines + 0; bad = 1 } exit bad }' "$1" "$2"
}

# The first example is built by the very line of its head comment. For the others the implementation, which takes
# seconds, is compiled once: with GPUMC__IMPLEMENTED the header is only the interface, above the line of ####.
first_example() { built build/eight_schools && cp "$tests/build/eight_schools" "$scratch"; }
check 'the implementation' built build/gpumc.o
cp tests/build/gpumc.o "$scratch" || finish
for name in eight_schools regression hierarchical artists bradley_terry retest learning nile diffusion logistic \
            epidemic embed; do
    source=examples/$name.c
    line=$(sed -n 's/^ *Build: *//p' $source)
    check "$name: a build line" test "${line% -pthread}" = "cc -O2 $source -o $name -lm"
    build=$(echo "$line" | sed "s|-o $name|-o $scratch/$name|; s|^cc |$CC |")
    if [ $name = eight_schools ]; then check "$name: builds" first_example
    else check "$name: builds" sh -c "$build -DGPUMC__IMPLEMENTED $scratch/gpumc.o -lm"; fi
    check "$name: no warnings" $CC $strict $source
    (cd "$scratch" && ./$name) >"$scratch/output" 2>"$scratch/errors"
    status=$?
    check "$name: exit status 0" test $status = 0
    check "$name: nothing on stderr" test ! -s "$scratch/errors"
    expected $source >"$scratch/expected"
    check "$name: there is an expected output" test -s "$scratch/expected"
    check "$name: prints what its head comment says" compare "$scratch/expected" "$scratch/output"
    sed '$d' "$scratch/output" >"$scratch/short"
    check_fails "$name: output that lacks a line passes" compare "$scratch/expected" "$scratch/short"
    cp "$scratch/output" "$scratch/$name.output"
done
[ -x "$scratch/eight_schools" ] && [ -x "$scratch/regression" ] && [ -x "$scratch/hierarchical" ] || finish
awk '$1 == "mu" { $2 += 0.3 * $4 } { print }' "$scratch/eight_schools.output" >"$scratch/wrong"
expected examples/eight_schools.c >"$scratch/expected"
check_fails "a wrong mean passes" compare "$scratch/expected" "$scratch/wrong"

# With its states sampled as parameters (a walk), the model of the Nile has the same posterior.
without_cost() { grep -v '^gradients=' "$1"; }
check 'nile: states sampled' sh -c "cd '$scratch' && ./nile states=sampled >sampled.output"
without_cost "$scratch/nile.output" >"$scratch/summed"
without_cost "$scratch/sampled.output" >"$scratch/sampled"
check 'nile: the same posterior' compare "$scratch/summed" "$scratch/sampled"
sed '/^drift/s/[0-9]/9/' "$scratch/sampled" >"$scratch/wrong"
check_fails 'another drift passes' compare "$scratch/summed" "$scratch/wrong"

# With link-time optimisation, for which gcc uses every core, the output is the same to the last digit.
echo 'int main(void) { return 0; }' >"$scratch/empty.c"
if $CC -flto=auto "$scratch/empty.c" -o "$scratch/linked" >/dev/null 2>&1; then
    check 'eight schools by -flto=auto' \
        $CC -O2 -flto=auto examples/eight_schools.c -o "$scratch/linked" -lm -pthread
    check 'its summary' "$scratch/linked" summary="$scratch/linked.csv"
    check 'that of the program without' "$scratch/eight_schools" summary="$scratch/plain.csv"
    check 'the same summary' cmp "$scratch/linked.csv" "$scratch/plain.csv"
else skip 'no -flto=auto'; fi

# ---- arguments ------------------------------------------------------------------------------------------

# refuses STATUS TEXT COMMAND...: the command exits with STATUS and prints TEXT on stderr, nothing on stdout.
refuses() {
    wanted=$1 said=$2
    shift 2
    "$@" >"$scratch/out" 2>"$scratch/err"
    got=$?
    cat "$scratch/err"
    [ $got = "$wanted" ] || { echo "exit status $got, not $wanted"; return 1; }
    grep -qF -- "$said" "$scratch/err" && [ ! -s "$scratch/out" ]
}

helps() { "$1" help >"$scratch/out" && grep -q '^usage: ' "$scratch/out" && grep -q seed "$scratch/out"; }

for name in eight_schools regression hierarchical artists bradley_terry retest learning nile diffusion logistic \
            epidemic; do
    program=$scratch/$name
    check "$name: help" helps "$program"
    check "$name: unknown key" refuses 2 'num_chain=2' "$program" num_chain=2
    check "$name: no key" refuses 2 'fast' "$program" fast
    check "$name: a word for a number" refuses 2 'num_samples=many' "$program" num_samples=many
    check "$name: rest after a number" refuses 2 'num_samples=10x' "$program" num_samples=10x
    check "$name: empty value" refuses 2 'seed=' "$program" seed=
    check "$name: negative seed" refuses 2 'seed=-1' "$program" seed=-1
    check "$name: too large a number" refuses 2 'threads=99999999999' "$program" threads=99999999999
    check "$name: not a finite number" refuses 2 'target_accept=nan' "$program" target_accept=nan
    check "$name: unknown metric" refuses 2 'metric=diagonal' "$program" metric=diagonal
    check "$name: a value the library refuses" refuses 1 'target_accept' "$program" target_accept=1.5
    check "$name: negative number of chains" refuses 1 'num_chains' "$program" num_chains=-2
done
check 'a key is refused, not ignored' refuses 2 'size' "$scratch/eight_schools" size=10
check 'no groups' refuses 1 'size' "$scratch/hierarchical" size=0
check 'no artists' refuses 1 'size' "$scratch/artists" size=0
check 'a single player' refuses 1 'size' "$scratch/bradley_terry" size=1
check 'a single subject' refuses 1 'size' "$scratch/retest" size=1
check 'no rows' refuses 1 'rows' "$scratch/logistic" rows=0
check 'no GPU' refuses 1 'GPU' "$scratch/logistic" place=gpu
check 'unknown form' refuses 2 'learned|centred|noncentred' "$scratch/hierarchical" form=both

# ---- verify ---------------------------------------------------------------------------------------------

verify_ends_with() { "$scratch/verify" json="$scratch/verify.json" | tail -n 1 | grep -qx "$1"; }
check 'verify: builds' $CC -O2 -DGPUMC__IMPLEMENTED examples/verify.c "$scratch/gpumc.o" -o "$scratch/verify" -lm -pthread
check 'verify: no warnings' $CC $strict examples/verify.c
check 'verify: passes on this machine' verify_ends_with PASS
one_processor() { taskset -c "$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')" "$scratch/verify" | grep -Eqx ' *threads  *1'; }
if command -v taskset >/dev/null; then check 'verify: a thread for each processor that it may use' one_processor
else skip 'no taskset: threads by the processors that may be used'; fi
check 'verify: says so as JSON' grep -q '"passed": true' "$scratch/verify.json"
cat >"$scratch/quotes.c" <<'EOF'
#define main verify_main
#include "examples/verify.c"
#undef main
int main(int argc, char **argv)
{
    report r = { argc == 2 ? fopen(argv[1], "w") : NULL, 0, 0 };
    if (!r.json) return 1;
    fputc('[', r.json);
    fact(&r, "a", "say \"b\" \\ c");
    check(&r, "d", 0, "\"e\"\n");
    fputc(']', r.json);
    return fclose(r.json);
}
EOF
quotes() { "$scratch/quotes" "$scratch/quotes.json" >/dev/null && python3 -m json.tool "$scratch/quotes.json" /dev/null; }
check 'verify: quotes build' $CC -O1 -w -DGPUMC__IMPLEMENTED -I. "$scratch/quotes.c" "$scratch/gpumc.o" -o "$scratch/quotes" \
    -lm -pthread
if command -v python3 >/dev/null; then check 'verify: texts with quotes as JSON' quotes; fi
check 'verify: a file that cannot be written' refuses 1 'JSON' "$scratch/verify" json=/nowhere/v.json
check 'verify: unknown key' refuses 2 'size' "$scratch/verify" size=3

# ---- files ----------------------------------------------------------------------------------------------

small="num_warmup=100 num_samples=50"
writes() { "$scratch/hierarchical" size=37 $small "$@" >/dev/null; }
fails_to_write() {
    "$scratch/eight_schools" $small csv="$1" >/dev/null 2>"$scratch/err"
    [ $? = 1 ] && grep -q "$1" "$scratch/err"
}
check 'summary= and csv= are written' writes threads=1 summary="$scratch/one.csv" csv="$scratch/one"
check 'the summary has a row for each of 40 parameters' test "$(wc -l <"$scratch/one.csv")" = 41
check 'one Stan CSV a chain' test "$(ls "$scratch"/one_*.csv | wc -l)" = 4
check 'fifty draws in each' test "$(grep -c '^[-0-9]' "$scratch/one_1.csv")" = 50
check 'report= is written' writes report="$scratch/one.html"
check 'the report is whole' grep -q '</html>' "$scratch/one.html"
check 'two threads' writes threads=2 summary="$scratch/two.csv" csv="$scratch/two"
check 'another seed' writes seed=2 summary="$scratch/seed.csv"
check 'threads do not change the draws' cmp "$scratch/one.csv" "$scratch/two.csv"
check_fails 'the seed does not change the draws' cmp "$scratch/one.csv" "$scratch/seed.csv"
check 'a folder that is not there' fails_to_write "$scratch/nowhere/draws"

# ---- data from a file -----------------------------------------------------------------------------------

# Eleven groups of 1 to 11 rows in mixed order: group j has mean 10 j.
awk 'BEGIN {
    for (i = 0; i < 11; i++) for (j = i; j < 11; j++) {
        comma = n++ ? ", " : ""
        group = 1 + (j * 7) % 11
        groups = groups comma group
        y = y comma 10 * group + i % 3 - 1
    }
    printf "{\"J\": 11, \"N\": %d, \"group\": [%s], \"y\": [%s]}\n", n, groups, y
}' >"$scratch/data.json"
data() { "$scratch/hierarchical" data="$scratch/data.json" summary="$scratch/data.csv" "$@" >"$scratch/out"; }
ordered() {     # every mean near 10 j, and no statement about a truth that is not known
    awk -F, '/^"?theta/ { n++; if ($2 < 10 * n - 3 || $2 > 10 * n + 3) bad = 1 }
        END { exit bad || n != 11 }' "$scratch/data.csv" && ! grep -q truth "$scratch/out"
}
check 'data=' data target_accept=0.9
check 'the groups of the file are found' ordered
for form in learned centred noncentred; do check "form=$form" data form=$form $small; done
check 'priors=s1' data priors=s1 $small
bad() { sed "$1" "$scratch/data.json" >"$scratch/bad.json"; }
bad 's/"group": \[1/"group": [12/'
check 'a group beyond J' refuses 1 'group 12 in row 1' "$scratch/hierarchical" data="$scratch/bad.json"
bad 's/"group": \[1/"group": [0/'
check 'groups that count from 0' refuses 1 'group 0 in row 1' "$scratch/hierarchical" data="$scratch/bad.json"
bad 's/"N": 66/"N": 65/'
check 'N that does not fit' refuses 1 'group' "$scratch/hierarchical" data="$scratch/bad.json"
bad 's/"y"/"z"/'
check 'no y' refuses 1 '"y"' "$scratch/hierarchical" data="$scratch/bad.json"
check 'no file' refuses 1 'none.json' "$scratch/hierarchical" data="$scratch/none.json"

printf '{"P":2,"N":2,"winner":[1,3],"loser":[2,1]}' >"$scratch/matches.json"
check 'a player beyond P' refuses 1 'row 2 has players 3 and 1 of 1..2 (P)' \
    "$scratch/bradley_terry" data="$scratch/matches.json"
printf '{"P":2,"N":0,"winner":[],"loser":[]}' >"$scratch/matches.json"
check 'no match' refuses 1 'P and N must be at least 1' "$scratch/bradley_terry" data="$scratch/matches.json"

# Trials of a file.
trials() { printf '{"S":2,"N":4,"subject":[%s],"session":[%s],"x":[0,1,0,1],"rt":[%s]}' "$@" >"$scratch/trials.json"; }
trials 1,2,1,2 1,1,2,2 0.5,0.4,0.6,0.3
check 'retest: data=' "$scratch/retest" data="$scratch/trials.json" form=noncentred num_samples=50
trials 1,2,1,3 1,1,2,2 0.5,0.4,0.6,0.3
check 'a subject beyond S' refuses 1 'row 4: subject 3' "$scratch/retest" data="$scratch/trials.json"
trials 1,2,1,2 1,1,2,0 0.5,0.4,0.6,0.3
check 'a session 0' refuses 1 'session 0' "$scratch/retest" data="$scratch/trials.json"
trials 1,2,1,2 1,1,2,2 0.5,-0.4,0.6,0.3
check 'a negative time' refuses 1 'row 2: subject 2 (1 to 2), session 1 (1 or 2), x 1 (0 or 1), rt -0.4' \
    "$scratch/retest" data="$scratch/trials.json"
trials 1,2,1,2 1,1,1,1 0.5,0.4,0.6,0.3
check 'one session alone' refuses 1 'session 2 has no trial' "$scratch/retest" data="$scratch/trials.json"

decisions() {
    printf '{"S":2,"N":4,"subject":[%s],"condition":[%s],"choice":[%s],"rt":[%s]}' "$@" >"$scratch/decisions.json"
}
decisions 1,2,1,2 1,1,2,2 0,1,1,1 0.5,0.4,0.6,0.3
check 'diffusion: data=' "$scratch/diffusion" data="$scratch/decisions.json" form=noncentred num_samples=50
decisions 1,2,1,2 1,1,2,2 0,1,2,1 0.5,0.4,0.6,0.3
check 'a choice 2' refuses 1 'row 3: subject 1 (1 to 2), condition 2 (1 or 2), choice 2 (0 or 1), rt 0.6' \
    "$scratch/diffusion" data="$scratch/decisions.json"
decisions 1,2,1,2 1,1,2,2 0,1,1,1 0.5,0.4,600,0.3
check 'milliseconds' refuses 1 'rt 600 (seconds, up to 4)' "$scratch/diffusion" data="$scratch/decisions.json"
decisions 1,2,1,2 2,2,2,2 0,1,1,1 0.5,0.4,0.6,0.3
check 'one condition alone' refuses 1 'condition 1 has no trial' "$scratch/diffusion" data="$scratch/decisions.json"

artists() { "$scratch/artists" $small "$@" >"$scratch/out"; }
for form in learned centred noncentred; do check "artists: form=$form" artists form=$form; done
check 'artists: truths of the model' grep -q truth "$scratch/out"
check 'artists: kind=noise' artists kind=noise
check_fails 'artists: a truth is claimed of noise' grep -q truth "$scratch/out"

# ---- results that could not be there after the run
mkdir "$scratch/killed.zarr.tmp"
check 'a folder that is not there' refuses 1 'no file can be written beside' \
    "$scratch/hierarchical" output="$scratch/none/x"
check 'one name for two files' refuses 1 'is to be two files' \
    "$scratch/hierarchical" summary="$scratch/twice" report="$scratch/twice"
check 'a table that draws would write over' refuses 1 'is to be two files, by csv= and summary=' \
    "$scratch/hierarchical" csv="$scratch/twice" summary="$scratch/twice_2.csv"
echo mine >"$scratch/mine.trial"
check 'a file beside' "$scratch/hierarchical" num_warmup=20 num_samples=20 summary="$scratch/mine"
check 'is left' grep -qx mine "$scratch/mine.trial"
cp "$scratch/data.json" "$scratch/mine.json"
check 'data that would be written over' refuses 1 'is to be two files, by data= and summary=' \
    "$scratch/hierarchical" data="$scratch/mine.json" summary="$scratch/mine.json"
check 'they are there' cmp "$scratch/data.json" "$scratch/mine.json"
check 'a store left unfinished' refuses 1 'of a program that was killed' \
    "$scratch/hierarchical" output="$scratch/killed.zarr"

unread() { "$scratch/hierarchical" num_warmup=20 num_samples=20 summary="$scratch/unread" >&- 2>/dev/null; }
check_fails 'a summary that nobody reads' unread
check 'files are there all the same' test -s "$scratch/unread"

# ---- README ---------------------------------------------------------------------------------------------

core() { awk '/^struct schools/ { on = 1 } on { print } on && /^}/ { exit }' "$1"; }
awk '/^```c$/ { on = 1; next } /^```$/ { exit } on' README.md >"$scratch/readme.c"
core "$scratch/readme.c" >"$scratch/readme.core"
core examples/eight_schools.c >"$scratch/example.core"
check 'README: the program is the example' cmp "$scratch/readme.core" "$scratch/example.core"
check 'README: no warnings' $CC $strict -I. "$scratch/readme.c"
check 'README: the program builds' $CC -O2 -DGPUMC__IMPLEMENTED -I. "$scratch/readme.c" "$scratch/gpumc.o" \
    -o "$scratch/readme" -lm -pthread
"$scratch/readme" >"$scratch/readme.out" 2>&1
sed '$d' "$scratch/eight_schools.output" >"$scratch/readme.expected"
check 'README: the program prints the same' compare "$scratch/readme.out" "$scratch/readme.expected"
sed -n '/^It prints$/,/^    \.\.\./s/^    \([^.]\)/\1/p' README.md >"$scratch/readme.table"
grep -E '^ *mean |^(mu|tau|theta\[1\]) ' "$scratch/readme.out" >"$scratch/readme.lines"
check 'README: the table is what the program prints' compare "$scratch/readme.table" "$scratch/readme.lines"
build=$(sed -n 's/^ *Build: *//p' examples/eight_schools.c)
check 'README: the first command is the build line' grep -qF "$build && ./eight_schools" README.md
check 'README: the second command runs the tests' grep -qE '^ +make -C tests$' README.md
finish
