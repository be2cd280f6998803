#!/bin/sh
# Waiting times of a user, in seconds, the least of five: compiling an example, then running it; and the compile time
# that the declarations alone add to a file that includes them.
#     sh bench/compile.sh [compiler]            (gcc and clang in turn by default)
set -eu
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

least() {       # least COMMAND...: runs it five times
    for _ in 1 2 3 4 5; do
        begin=$(date +%s.%N)
        "$@" >/dev/null
        end=$(date +%s.%N)
        echo "$begin $end" | awk '{ printf "%.4f\n", $2 - $1 }'
    done | sort -n | head -n 1
}

printf 'int main(void) { return 0; }\n' >"$tmp/empty.c"
printf '#include "gpumc.h"\nint main(void) { return 0; }\n' >"$tmp/declared.c"
awk -F': ' '/^model name/ { print "machine   " $2; exit }' /proc/cpuinfo
for cc in ${1:-gcc clang}; do
    command -v "$cc" >/dev/null || continue
    echo "compiler  $("$cc" --version | head -n 1)"
    for example in eight_schools hierarchical; do
        for flags in -O2 '-O2 -flto=auto'; do
            case $cc$flags in *clang*flto*) continue; esac          # clang: -flto does not use all cores
            build="$cc $flags examples/$example.c"
            echo "$(least $build -o "$tmp/$example" -lm -pthread) s   $build"
        done
        echo "$(least "$tmp/$example") s   ./$example, to the end of the table"
    done
    empty=$(least "$cc" -O2 -I. -c "$tmp/empty.c" -o "$tmp/o.o")
    declared=$(least "$cc" -O2 -I. -c "$tmp/declared.c" -o "$tmp/o.o")
    echo "$declared $empty" |
        awk '{ printf "%.4f s   declarations alone (beyond %.4f for an empty file)\n", $1 - $2, $2 }'
done
