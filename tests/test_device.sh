#!/bin/sh
# gpumc_cuda.cu compiled for the CPU: all code except launches and copies is the source that the GPU runs. `make long`
# adds variants.
. ./check.sh
CXX=${CXX:-c++}
CC=${CC:-cc}
strict='-Wall -Wextra -Wpedantic -Wshadow -Werror'

# compile FILE NAME [FLAG...]
compile() {
    file=$1 name=$2
    shift 2
    $CXX $strict -Wno-unused-function -DGPUMC_CUDA_ON_HOST -DGPUMC_ROWS='"tests/device_rows.h"' "$@" -I.. \
        -x c++ -c "$file" -o "$scratch/$name.o"
}
link() { $CC "$scratch/device.o" "$scratch/$1.o" -o "$scratch/$1" -lm -pthread -lstdc++; }
whole() {
    "$scratch/$1" >"$scratch/output"
    tail -n 1 "$scratch/output" | grep ' 0 failed$' || { grep failed: "$scratch/output"; false; }
}

check 'the test program' $CC -std=c99 -O1 $strict -DGPUMC_STATIC -DGPUMC_IMPLEMENTATION -DGPUMC_CUDA \
    -c test_hot.c -o "$scratch/device.o"
check 'gpumc_cuda.cu as C++11' compile ../gpumc_cuda.cu eleven -std=c++11 -fsyntax-only
check 'gpumc_cuda.cu as C++17' compile ../gpumc_cuda.cu seventeen -std=c++17 -O1
check 'a program with it' link seventeen
check 'the same sums as the CPU' whole seventeen

# build_variant SED: the same with an edit by sed, which must change the source; the result must compile.
build_variant() {
    sed "$1" ../gpumc_cuda.cu >"$scratch/variant.cu"
    ! cmp -s ../gpumc_cuda.cu "$scratch/variant.cu" && compile "$scratch/variant.cu" variant -std=c++17 -O1 \
        && link variant
}
variant() { build_variant "$1" && whole variant; }
# broken SED: for check_fails. A broken variant must compile, and the comparison of its sums must then fail; the
# program is ended by its first failure.
broken() { build_variant "$1" || return 0; ! "$scratch/variant" | grep -q failed:; }
check_fails 'a tree that ends early' broken 's/offset > 0; offset/offset > 1; offset/'
check_fails 'no compiler but nvcc without the switch' $CXX -x c++ -I.. -fsyntax-only ../gpumc_cuda.cu

if [ -n "${LONG:-}" ]; then
    check 'a GPU with as little shared memory as sm_75 has' variant 's/return 232448;/return 65536;/'
    check 'rows in single precision' compile ../gpumc_cuda.cu single -std=c++17 -O1 -DGPUMC_REAL=float
    check 'a test program for them' $CC -std=c99 -O1 $strict -DTOLERANCE=2e-3 -DGPUMC_STATIC -DGPUMC_IMPLEMENTATION \
        -DGPUMC_CUDA -c test_hot.c -o "$scratch/tolerant.o"
    check 'a program with both' $CC "$scratch/tolerant.o" "$scratch/single.o" -o "$scratch/single" -lm -pthread -lstdc++
    check 'nearly the same sums' whole single
    check_fails 'a row counted twice' \
        broken 's/i < s.begin + s.length; i += team/i <= s.begin + s.length; i += team/'
    check_fails 'the last rows of a tile left out' broken 's|i < s.rows() / 2; i += step|i < s.rows() / 2 - 1; i += step|'
    check_fails 'second columns forgotten' broken 's/round \* s.lanes + q/q/'
    check_fails 'warps left out of a block' broken 's/w = WARP; w < BLOCK/w = WARP; w < BLOCK - WARP/'
    check_fails 'a column left out' \
        broken 's|width(at) \* (slice + 1) / s.slices()|(width(at) - 1) * (slice + 1) / s.slices()|'
    check_fails 'residuals of another pass' broken 's/residuals + (pass \* n_rows/residuals + (0 * n_rows/'
    check_fails 'parts of X one upon another' broken 's/sent += part.size();/sent += 0;/'
    check_fails 'chunks of the first columns' \
        broken 's/columns_before = at.chunk \* s.chunk/columns_before = 0 * s.chunk/'
fi
finish
