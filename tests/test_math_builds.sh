#!/bin/sh
# Runs test_math.c under other optimisation levels, instruction sets and contraction rules, by gcc and by clang, and
# checks that at plain -O2 both compile a loop over any leaf to packed code of full width without scalar arithmetic.
. ./check.sh

values_are_right() {
    compiler=$1 flags=$2
    $compiler -std=c99 $flags -c test_math.c -o "$scratch/test_math.o" \
        && $compiler "$scratch/test_math.o" -o "$scratch/test_math" -lm -pthread || return 1
    "$scratch/test_math" >"$scratch/values"
    status=$?
    grep -E 'failed' "$scratch/values"
    return $status
}

# Lists the loops that contain a scalar operation or a call, or use no register of the set's full width.
scalar='^v?((add|sub|mul|div|sqrt|min|max|u?comi|cmp[a-z]*)sd|fn?m(add|sub)[0-9]+sd|cvt[a-z0-9]*s[di][0-9a-z]*)$'
scalar_loops() {
    objdump -d --no-show-raw-insn "$1" | awk -v scalar="$scalar" '
        function finish() { if (name && (bad || !wide)) print name, bad ? bad : "no packed code" }
        /^[0-9a-f]+ </ {
            finish(); name = ""; bad = ""; wide = 0
            if ($2 ~ /<loops_.*_(baseline|avx2|avx512)>/) name = $2
            register = name ~ /avx512>/ ? "%zmm" : name ~ /avx2>/ ? "%ymm" : "%xmm"
        }
        name && index($0, register) { wide = 1 }
        name && $2 ~ scalar { bad = $2 }
        name && $2 ~ /^call/ { bad = $0 }
        END { finish() }'
}
vectorises() {
    $1 -std=c99 -O2 $2 -c vector_math.c -o "$scratch/vector.o" || return 1
    loops=$(objdump -t "$scratch/vector.o" | grep -cE ' loops_.*_(baseline|avx2|avx512)$')
    left=$(scalar_loops "$scratch/vector.o")
    echo "$loops loops; $left"
    [ "$loops" -ge 20 ] && [ -z "$left" ]
}

for compiler in gcc clang; do
    have $compiler || { skip "no $compiler"; continue; }
    case $compiler in
    gcc) set -- -O0 '-O3 -march=native' ;;
    *) set -- -O1 '-O2 -ffp-contract=off' ;;
    esac
    for flags; do check "$compiler $flags: values" values_are_right $compiler "$flags"; done
    if have objdump && [ "$(uname -m)" = x86_64 ]; then
        check "$compiler -O2: packed code" vectorises $compiler ''
        check_fails "$compiler: a loop that is not vectorised must be noticed" vectorises $compiler -DBROKEN
    else
        skip "$compiler: no objdump, or not x86-64: packed code"
    fi
done
# -ffast-math is used to compile but not to link, because linking with it switches subnormal numbers off.
have gcc && check 'gcc -ffast-math: values in loops' values_are_right gcc '-O2 -ffast-math -DONLY_LOOPS'
if have python3 && python3 -c 'import mpmath' 2>/dev/null; then
    check 'the coefficients are those of poly.py' python3 poly.py ../gpumc.h ../examples/stop_signal_rows.h
    sed 's/0\.8716208329044874/0.8716208329044875/' ../gpumc.h >"$scratch/gpumc.h"
    check_fails 'a changed coefficient must be noticed' python3 poly.py "$scratch/gpumc.h" \
        ../examples/stop_signal_rows.h
else
    skip 'no python3 with mpmath: the coefficients against poly.py'
fi
finish
