#!/bin/sh
# The C tests once more under the address and undefined-behaviour sanitizers, the threaded run under the
# thread sanitizer, and failures and threads under clang's memory sanitizer. Programs that only sample for
# long are left out: they run the same code over and over.
. ./check.sh
CC=${CC:-cc}
heavy='test_posteriordb test_sbc test_targets test_hier'
flags='-std=c99 -O0 -g'                # most of the time goes into compiling
export UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1 MSAN_OPTIONS=allocator_may_return_null=1
export ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1

# The sanitizers' own shadow memory needs a layout that some kernels randomise too much.
steady() { if have setarch && setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi; }

# works COMPILER FLAG: the sanitizer is installed and notices the fault it is for
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
    if (argc == 2) { block[argc * 20] = table[0]; return block[argc * 20] + (0x7fffffff - 1 + argc); }
    if (argc == 3) {
        pthread_create(&thread, NULL, add, NULL);
        add(NULL);
        pthread_join(thread, NULL);
    }
    if (argc == 4) return unset[argc & 1] ? 3 : 4;
    return argv == NULL;
}
C
    "$1" -O0 -w -fsanitize="$2" -fno-sanitize-recover=all "$scratch/probe.c" -o "$scratch/probe" -pthread \
        && steady "$scratch/probe" || return 1
    case $2 in address*) set -- 1 ;; thread) set -- 1 2 ;; memory) set -- 1 2 3 ;; esac
    ! steady "$scratch/probe" "$@"
}

# sanitized COMPILER SANITIZER TEST
sanitized() {
    $1 $flags -fsanitize="$2" -fno-sanitize-recover=all "$3.c" -o "$scratch/$3" -lm -pthread || return 1
    steady "$scratch/$3" >"$scratch/output" 2>&1
    status=$?
    grep -A 12 -E 'ERROR|WARNING|runtime error' "$scratch/output" || tail -n 5 "$scratch/output"
    rm -f "$scratch/$3"
    return $status
}

if works "$CC" address,undefined 2>/dev/null; then
    for source in test_*.c; do
        name=${source%.c}
        case " $heavy " in *" $name "*) continue ;; esac
        check "$name: address, undefined behaviour" sanitized "$CC" address,undefined "$name"
    done
else
    skip "$CC has no working address sanitizer here"
fi
if works "$CC" thread 2>/dev/null; then
    check 'test_threads: data races' sanitized "$CC" thread test_threads
else
    skip "$CC has no working thread sanitizer here"
fi
if have clang && works clang memory 2>/dev/null; then
    for name in test_threads test_failures; do
        check "$name: uninitialised memory" sanitized clang memory $name
    done
else
    skip 'no clang with a working memory sanitizer here'
fi
finish
