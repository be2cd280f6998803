#!/bin/sh
# Leaf functions as CUDA device code for every architecture from sm_75 that the installed nvcc knows: warnings are errors,
# nothing spills. Needs no GPU. GPUMC_CUDA_ARCHS limits the architectures, as in GPUMC_CUDA_ARCHS="75 90".
. ./check.sh
if ! have nvcc; then
    skip 'no nvcc: CUDA device code'
    finish
fi
archs=${GPUMC_CUDA_ARCHS:-$(nvcc --list-gpu-arch | sed -nE 's/^compute_([0-9]+)$/\1/p' | awk '$1 >= 75' | sort -un)}
set -- $archs
oldest=$1
flags='-std=c++17 -O3 -Werror all-warnings -Xcompiler -Wall,-Wextra,-Wno-unused-function -Xptxas -v,-warn-spills,-warn-lmem-usage'

# compile ARCH [FLAG...]: the assembler's report goes to leaf.ARCH
compile() {
    arch=$1
    shift
    nvcc $flags -gencode arch=compute_"$arch",code=sm_"$arch" "$@" -c leaf.cu -o "$scratch/leaf.o" >"$scratch/leaf.$arch" 2>&1 \
        || { grep -m 5 -E 'error|warning' "$scratch/leaf.$arch"; return 1; }
}
# Most registers of any kernel, and the bytes that spill.
registers() { sed -nE 's/.*Used ([0-9]+) registers.*/\1/p' "$1" | sort -n | tail -n 1; }
spilled() { awk '/spill stores/ { for (i = 2; i <= NF; i++) if ($i == "spill") n += $(i - 2) } END { print n + 0 }' "$1"; }
no_spills() {
    echo "$(grep -c 'Used .* registers' "$1") kernels, $(spilled "$1") bytes spilled"
    [ "$(spilled "$1")" = 0 ] && grep -q 'Used .* registers' "$1"
}

for arch in $archs; do
    check "sm_$arch" compile "$arch"
    check "sm_$arch: no spills" no_spills "$scratch/leaf.$arch"
    echo "sm_$arch: $(grep -c 'Used .* registers' "$scratch/leaf.$arch") kernels, at most $(registers "$scratch/leaf.$arch") registers"
done

spills_noticed() { compile "$oldest" -DSPILL && no_spills "$scratch/leaf.$oldest"; }
check_fails 'a kernel that spills must be noticed' spills_noticed

# The whole header in a file that nvcc compiles for the host.
printf '#define GPUMC_IMPLEMENTATION\n#include "gpumc.h"\nint main() { return gpumc_exp(0) != 1; }\n' >"$scratch/host.cu"
check 'the implementation through nvcc' nvcc -std=c++17 -Werror all-warnings -I.. -arch=sm_"$oldest" \
    -Xcompiler -Wall,-Wextra,-Wno-unused-function "$scratch/host.cu" -o "$scratch/host"
check 'and it runs' "$scratch/host"
finish
