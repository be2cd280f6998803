#!/bin/sh
# Repeats the C tests under the address and undefined-behaviour sanitizers, test_threads under the thread sanitizer,
# and test_failures (with make long test_threads too) under clang's memory sanitizer. Programs that sample for long
# are left out, as are, by QUICK, such parts of others; programs that take minutes here run with `make long`. So do
# the sanitizers of gcc where clang has them too, because gcc takes five times as long to compile with them.
. ./check.sh
CC=${CC:-cc}
heavy='test_posteriordb test_sbc test_targets'
slow='test_centring test_glm test_hier test_hot test_mams test_posteriors test_report'
slow="$slow test_nuts test_rng test_stop_data test_stop_signal test_team test_users test_zarr"
computing='test_centring test_mams test_nuts'
[ "${LONG:-}" ] || heavy="$heavy $slow"
export QUICK=1 UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1 MSAN_OPTIONS=allocator_may_return_null=1
export ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1

# The shadow memory of the sanitizers fails under the strong address randomisation of some kernels: switch it off.
steady() { if have setarch && setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi; }

# works COMPILER FLAG: the sanitizer is installed, accepts a correct program and detects the fault that it is for
works() {
    cat >"$scratch/probe.c" <<'C'
#include <pthread.h>
#include <stdlib.h>
static int shared, table[2], *block;
static void *add(void *user) { for (int i = 0; i < 100000; i++) shared++; return user; }
int main(int argc, char **argv)
{
    pthread_t thread;
    int unset[2];
    block = (int *)malloc(sizeof *block);
    if (argc == 2) { block[argc * 20] = table[0]; return 0; }
    if (argc == 5) *block = 0x7fffffff - 4 + argc;
    if (argc == 3) {
        pthread_create(&thread, NULL, add, NULL);
        add(NULL);
        pthread_join(thread, NULL);
    }
    if (argc == 4 && unset[argc & 1]) block = NULL;
    return argv == NULL;
}
C
    "$1" -O0 -w -fsanitize="$2" -fno-sanitize-recover=all "$scratch/probe.c" -o "$scratch/probe" -pthread \
        && steady "$scratch/probe" || return 1
    case $2 in address,undefined) ! steady "$scratch/probe" 1 2 3 4 || return 1 ;; esac
    case $2 in address*) set -- 1 ;; thread) set -- 1 2 ;; memory) set -- 1 2 3 ;; esac
    ! steady "$scratch/probe" "$@"
}

# Tests that are linked with the implementation spend their time in their own rows, for which -O1 is worth compiling;
# of the tests that contain the implementation (holders), only for those that compute longer than -O1 takes.
# sanitized SANITIZER COMPILER COMPILER_OF_HOLDERS TEST...: compiles the implementation and the tests linked with it
# by COMPILER, the holders by COMPILER_OF_HOLDERS, and runs all
sanitized() {
    sanitizer=$1 linked=$2 holders=$3
    shift 3
    flags="-std=c99 -O0 -g1 -fsanitize=$sanitizer -fno-sanitize-recover=all"
    for name; do
        holds_implementation "$name.c" && continue
        check "the implementation: $sanitizer" \
            $linked $flags -DGPUMC_IMPLEMENTATION -x c -c ../gpumc.h -o "$scratch/gpumc.o"
        break
    done
    for name; do check "$name: $sanitizer" runs_clean $name; done
}
runs_clean() {
    compiler=$linked level=-O1 with=$scratch/gpumc.o
    if holds_implementation "$1.c"; then
        compiler=$holders with=-DGPUMC_STATIC
        case " $computing " in *" $1 "*) ;; *) level=-O0 ;; esac
    fi
    $compiler $flags $level "$1.c" $with -o "$scratch/$1" -lm -pthread || return 1
    steady "$scratch/$1" >"$scratch/output" 2>&1
    status=$?
    grep -A 12 -E 'ERROR|WARNING|runtime error' "$scratch/output" || tail -n 5 "$scratch/output"
    rm -f "$scratch/$1"
    return $status
}

names=
for source in test_*.c; do
    case " $heavy " in *" ${source%.c} "*) ;; *) names="$names ${source%.c}" ;; esac
done
# with_sanitizer NAME TEST...: uses clang if it has the sanitizer, else $CC; with LONG, $CC for all but the holders
with_sanitizer() {
    sanitizer=$1 quick=$CC linked=$CC
    shift
    have clang && works clang $sanitizer 2>/dev/null && quick=clang
    [ "${LONG:-}" ] && works "$CC" $sanitizer 2>/dev/null || linked=$quick
    if works $linked $sanitizer 2>/dev/null; then sanitized $sanitizer $linked $quick "$@"
    else skip "neither $CC nor clang has a working $sanitizer sanitizer here"; fi
}
with_sanitizer address,undefined $names
with_sanitizer thread test_threads
if have clang && works clang memory 2>/dev/null; then sanitized memory clang clang ${LONG:+test_threads} test_failures
else skip 'no clang with a working memory sanitizer here'; fi
finish
