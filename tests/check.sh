# The framework of the shell tests, to be read in by them: `check TEXT COMMAND...` counts, and shows what
# the command said when it failed, the same complaint only once; `skip TEXT` says what could not be tried;
# `finish` prints the closing line and exits.
set -u
passed=0 failed=0 skipped=0
scratch=$(mktemp -d) || exit 1
: >"$scratch/complaints"
trap 'rm -rf "$scratch" 2>/dev/null' EXIT                # nothing may follow the closing line
trap 'exit 1' HUP INT TERM

check() {
    text=$1
    shift
    if "$@" >"$scratch/said" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $text"
        complaint=$(grep -m 1 -E 'error|warning' "$scratch/said" | sed 's/^[^ ]* //')
        if [ -n "$complaint" ] && grep -qxF "$complaint" "$scratch/complaints"; then
            echo "    as before: $complaint" | cut -c 1-160
        else
            echo "$complaint" >>"$scratch/complaints"
            head -n 8 "$scratch/said" | cut -c 1-240 | sed "s#$scratch/##g; s/^/    /"
        fi
    fi
}

# The opposite, for deliberately broken variants that a check must catch.
check_fails() {
    text=$1
    shift
    if "$@" >/dev/null 2>&1; then
        failed=$((failed + 1))
        echo "failed: $text"
    else
        passed=$((passed + 1))
    fi
}

skip() {
    skipped=$((skipped + 1))
    echo "skipped: $*"
}

# Whether a C test holds the implementation, because it looks at private names or replaces what it calls; then
# GPUMC_STATIC leaves out what it does not use. Others are linked with the implementation.
holds_implementation() { grep -q '^#define GPUMC_IMPLEMENTATION' "$1"; }

# The folder of the tests, and what the Makefile builds there for several of them.
tests=$PWD
built() { MAKEFLAGS= make -s -C "$tests" "$@"; }

have() { command -v "$1" >/dev/null 2>&1; }

# provide FOLDER PINS: a virtual environment with these Python packages, made once; or failure
provide() {
    [ "$(cat "$1/pins" 2>/dev/null)" = "$2" ] && return
    rm -rf "$1"
    python3 -m venv "$1" \
        && timeout 300 "$1/bin/pip" install -q --no-compile --disable-pip-version-check --timeout 20 --retries 1 $2 \
        && echo "$2" >"$1/pins"
}

# crossed PROCESSOR COMPILER: a cross compiler and the emulator for what it makes; ends where one is missing.
crossed() {
    cross=${CROSS_CC:-$2} emulator=
    for name in qemu-$1 qemu-$1-static; do have $name && emulator=$name; done
    have "$cross" && [ -n "$emulator" ] && return
    skip "no $cross or qemu-user: $1"
    finish
}

# emulated LEVEL SOURCE: runs it there, linked with $scratch/gpumc.o where it wants that; Windows wants the .exe
emulated() {
    object=$scratch/gpumc.o
    holds_implementation "$2.c" && object=-DGPUMC_STATIC
    $cross -std=c99 $1 -static "$2.c" $object -o "$scratch/program.exe" -lm -pthread \
        && $emulator "$scratch/program.exe" >"$scratch/output"
    status=$?
    tail -n 5 "$scratch/output"
    return $status
}

finish() {
    printf '%d passed, %d failed' $passed $failed
    [ $skipped = 0 ] || printf ', %d skipped' $skipped
    echo
    [ $failed = 0 ]
    exit
}
