#!/bin/sh
# The loops that GPUMC_ROW and GPUMC_CELLS generate are packed code of the full width of each instruction set: by gcc
# at -O2 and at -O0, by clang at -O2. Only terms of the parameters alone remain scalar. A row that calls libm must be
# rejected. The sampler's own loops and the products with a design matrix must be packed code too.
. ./check.sh

# Lists the loops that have less packed arithmetic of their own width than these rows need, or a call, or so much
# scalar arithmetic that it must be a second copy of the row (additions are not counted: they sum the lanes). In loops
# over nodes scalar code is allowed: clang keeps a copy for the case, which never occurs, that sums and nodes overlap.
poor_loops() {
    objdump -dr --no-show-raw-insn "$1" | awk '
        function finish() {
            if (!name) return
            if (outside) print name, "calls", outside
            else if (packed < 20 || (name !~ /_nodes_/ && scalar * 10 > packed * 7))
                print name, packed, "packed,", scalar, "scalar"
        }
        /^[0-9a-f]+ </ {
            finish()
            name = $2 ~ /<vector_.*_(loop|nodes)_(baseline|avx2|avx512)>/ ? $2 : ""
            packed = scalar = 0; outside = ""
            register = name ~ /avx512>/ ? "%zmm" : name ~ /avx2>/ ? "%ymm" : "%xmm"
        }
        name && $2 ~ /^v?(add|sub|mul|div|fn?m(add|sub)[0-9]+)pd$/ && index($0, register) { packed++ }
        name && $2 ~ /^v?(sub|mul|div|fn?m(add|sub)[0-9]+)sd$/ { scalar++ }
        name && /R_X86_64_PLT32/ && $3 !~ /^gpumc|memset|memcpy/ { outside = $3 }
        END { finish() }'
}
compiles_rows() { "$@" -std=c99 -c vector_rows.c -o "$scratch/vector.o"; }
vectorises() {
    least=$1; shift
    compiles_rows "$@" || return 1
    loops=$(objdump -t "$scratch/vector.o" | grep -cE ' vector_.*_(loop|nodes)_(baseline|avx2|avx512)$')
    left=$(poor_loops "$scratch/vector.o")
    echo "$loops loops; $left"
    [ "$loops" -ge "$least" ] && [ -z "$left" ]
}

accepts_broken() { ! compiles_rows "$@" -DBROKEN || [ -z "$(poor_loops "$scratch/vector.o")" ]; }

# Lists the products with a design matrix (four columns or blocks, at one point or four) that have less packed
# arithmetic than they need, or any scalar arithmetic.
poor_products() {
    objdump -d --no-show-raw-insn "$1" | awk '
        function finish() { if (name && (packed < need || scalar)) print name, packed, "packed,", scalar, "scalar" }
        /^[0-9a-f]+ </ {
            finish()
            name = $2 ~ /<gpumc__glm_(predict|push)_[14]_(baseline|avx2|avx512)>/ ? $2 : ""
            need = name ~ /_4_/ ? 16 : 4
            packed = scalar = 0
            register = name ~ /avx512>/ ? "%zmm" : name ~ /avx2>/ ? "%ymm" : "%xmm"
        }
        name && $2 ~ /^v?(mul|fn?madd[0-9]+)pd$/ && index($0, register) { packed++ }
        name && $2 ~ /^v?(add|sub|mul|div|fn?m(add|sub)[0-9]+)sd$/ { scalar++ }
        END { finish() }'
}
multiplies() {
    products=$(objdump -t "$scratch/products.o" | grep -cE ' gpumc__glm_(predict|push)_[14]_')
    left=$(poor_products "$scratch/products.o")
    echo "$products products; $left"
    [ "$products" -eq 12 ] && [ -z "$left" ]
}

# Lists the AVX2 copies of the sampler's and the summaries' loops without packed arithmetic of AVX2's width.
copies() {
    left=$(objdump -d --no-show-raw-insn "$scratch/products.o" | awk '
        /^[0-9a-f]+ </ { name = $2; if (name ~ /^<gpumc__[a-z0-9_]*_avx2[.>]/) all[name] += 0 }
        $2 ~ /^v?(add|sub|mul|div|cmp[a-z_]*|cvtps2|fn?m(add|sub)[0-9]+)pd$/ && /%ymm/ { packed[name]++ }
        END {
            for (name in all) { n++; if (!packed[name]) print name }
            if (n < 25) print n, "loops are not all"
        }')
    echo "$left"
    [ -z "$left" ]
}

if ! have objdump || [ "$(uname -m)" != x86_64 ]; then
    skip 'no objdump, or not x86-64: packed code of rows'
    finish
fi
compiled() {
    if [ "$1 $2 $3" = "gcc -O2 ../gpumc.h" ] && ${CC:-cc} --version | grep -q 'Free Software'; then
        check 'the implementation' built build/gpumc.o
        cp build/gpumc.o "$scratch/products.o"
        return
    fi
    check "$1 $2: the implementation" \
        $1 -std=c99 $2 $warnings -DGPUMC_IMPLEMENTATION -x c -c "$3" -o "$scratch/products.o"
}

# Without the header's pragma clang reports the loops that it does not vectorise; both compilers check for overruns.
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3'
sed 's/ _Pragma("clang diagnostic ignored [^)]*)//' ../gpumc.h >"$scratch/told.h"
for compiler in gcc clang; do
    have $compiler || { skip "no $compiler"; continue; }
    check "$compiler -O2: packed code" vectorises 57 $compiler -O2
    check_fails "$compiler: a row that calls libm must be noticed" accepts_broken $compiler -O2
    header=../gpumc.h
    [ $compiler = gcc ] || header=$scratch/told.h
    compiled $compiler -O2 "$header"
    check "$compiler -O2: packed products" multiplies
    check "$compiler -O2: packed copies" copies
done
have gcc && check 'gcc -O0: packed code' vectorises 57 gcc -O0
have gcc && check 'gcc: packed code of a choice among five' \
    vectorises 3 gcc -O2 -DRATINGS --param max-tree-if-conversion-phi-args=64
have clang && check_fails 'clang -O0: scalar code must be noticed' vectorises 57 clang -O0

if [ -n "${LONG:-}" ] && have gcc && have clang; then
    sed 's/"tree-vectorize"/"no-tree-vectorize"/' ../gpumc.h >"$scratch/gpumc.h"
    warnings=
    compiled gcc -O2 "$scratch/gpumc.h"
    check_fails 'gcc: scalar copies must be noticed' copies
    compiled clang -O0 ../gpumc.h
    check_fails 'clang -O0: scalar products must be noticed' multiplies
fi
finish
