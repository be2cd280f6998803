#!/bin/sh
# gpumc_cuda.cu compiled for the CPU: everything but launches and copies is the text that the GPU runs.
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
whole() { "$scratch/$1" >"$scratch/output"; tail -n 1 "$scratch/output" | grep ' 0 failed$'; }

check 'the test program' $CC -std=c99 -O1 $strict -DGPUMC_STATIC -DGPUMC_IMPLEMENTATION -DGPUMC_CUDA \
    -c test_hot.c -o "$scratch/device.o"
check 'gpumc_cuda.cu as C++11' compile ../gpumc_cuda.cu eleven -std=c++11 -fsyntax-only
check 'gpumc_cuda.cu as C++17' compile ../gpumc_cuda.cu seventeen -std=c++17 -O1
check 'a program with it' link seventeen
check 'the same sums as the CPU' whole seventeen

# Broken variants that the comparison must notice.
broken() {
    sed "$1" ../gpumc_cuda.cu >"$scratch/broken.cu"
    cmp -s ../gpumc_cuda.cu "$scratch/broken.cu" && return 0
    compile "$scratch/broken.cu" broken -std=c++17 -O1 && link broken && whole broken
}
check_fails 'a tree that ends early' broken 's/offset > 0; offset/offset > 1; offset/'
check_fails 'a row counted twice' \
    broken 's/i < s.begin + s.length; i += team/i <= s.begin + s.length; i += team/'
check_fails 'no compiler but nvcc without the switch' $CXX -x c++ -I.. -fsyntax-only ../gpumc_cuda.cu
finish
