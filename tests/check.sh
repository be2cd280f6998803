# The framework that the shell tests source. `check TEXT COMMAND...` runs the command and counts it as passed or
# failed; after a failure it shows the command's output, the same complaint only once. `skip TEXT` says what could
# not be tried. `finish` prints the closing line and exits.
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

# Passes if the command fails: for deliberately broken variants that a check must reject.
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

# Whether a C test contains the implementation, because it uses private names or replaces functions that it calls; it
# is then compiled with GPUMC_STATIC, which leaves out what it does not use. Other tests are linked with gpumc.o.
holds_implementation() { grep -q '^#define GPUMC_IMPLEMENTATION' "$1"; }

# The folder of the tests. built TARGET: makes a prerequisite that the Makefile builds there for several tests.
tests=$PWD
built() { MAKEFLAGS= make -s -C "$tests" "$@"; }

have() { command -v "$1" >/dev/null 2>&1; }

# provide FOLDER PINS: makes a virtual environment with these Python packages unless it exists; fails if it cannot.
provide() {
    [ "$(cat "$1/pins" 2>/dev/null)" = "$2" ] && return
    rm -rf "$1"
    python3 -m venv "$1" \
        && timeout 300 "$1/bin/pip" install -q --no-compile --disable-pip-version-check --timeout 20 --retries 1 $2 \
        && echo "$2" >"$1/pins"
}

# crossed PROCESSOR COMPILER: sets cross and emulator to a cross compiler and the emulator of its target; if one is
# missing, skips and ends the test.
crossed() {
    cross=${CROSS_CC:-$2} emulator=
    for name in qemu-$1 qemu-$1-static; do have $name && emulator=$name; done
    have "$cross" && [ -n "$emulator" ] && return
    skip "no $cross or qemu-user: $1"
    finish
}

# emulated LEVEL SOURCE: cross-compiles SOURCE.c at this optimisation level, linked with $scratch/gpumc.o unless it
# contains the implementation, and runs it under the emulator. The name ends in .exe because Windows requires it.
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
