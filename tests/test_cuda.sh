#!/bin/sh
# Leaf functions as CUDA device code for every architecture from sm_75 that the installed nvcc knows:
# warnings are errors, nothing spills. Needs no GPU. GPUMC_CUDA_ARCHS limits the architectures, as in
# GPUMC_CUDA_ARCHS="75 90".
. ./check.sh
if ! have nvcc; then
    skip 'no nvcc: CUDA device code'
    finish
fi
known=$(nvcc --list-gpu-arch | sed -nE 's/^compute_([0-9]+)$/\1/p' | awk '$1 >= 75' | sort -un)
archs=${GPUMC_CUDA_ARCHS:-$known}
set -- $archs
oldest=$1
for newest; do :; done
strict='-std=c++17 -O3 -Werror all-warnings -Xcompiler -Wall,-Wextra,-Wno-unused-function'

source_of() { if [ "$1" = gpumc_cuda ]; then echo ../gpumc_cuda.cu; else echo "$1.cu"; fi; }

# compile NAME ARCH [FLAG...]: the assembler's report goes to NAME.ARCH
compile() {
    name=$1 arch=$2
    shift 2
    nvcc $strict -Xptxas -v,-warn-spills -gencode arch=compute_"$arch",code=sm_"$arch" "$@" \
        -c "$(source_of "$name")" -o "$scratch/object" >"$scratch/$name.$arch" 2>&1 && return
    grep -m 5 -E 'error|warning' "$scratch/$name.$arch"
    return 1
}
# Most registers of any kernel, and the bytes that spill.
registers() { sed -nE 's/.*Used ([0-9]+) registers.*/\1/p' "$1" | sort -n | tail -n 1; }
spilled() {
    awk '/spill stores/ { for (i = 2; i <= NF; i++) if ($i == "spill") n += $(i - 2) }
         END { print n + 0 }' "$1"
}
kernels() { grep -c 'Used .* registers' "$1"; }
no_spills() {
    echo "$(kernels "$1") kernels, $(spilled "$1") bytes spilled"
    [ "$(spilled "$1")" = 0 ] && [ "$(kernels "$1")" -gt 0 ]
}

# device NAME ARCH [FLAG...]
device() {
    check "$1, sm_$2" compile "$@"
    check "$1, sm_$2: no spills" no_spills "$scratch/$1.$2"
    report=$scratch/$1.$2
    echo "$1, sm_$2: $(kernels "$report") kernels, at most $(registers "$report") registers"
}

# Leaf functions keep everything in registers, so that local memory is an error too.
for arch in $archs; do device leaf "$arch" -Xptxas -warn-lmem-usage; done
for arch in $(printf '%s\n' "$oldest" "$newest" | sort -u); do device team "$arch"; done
# One row for every architecture; more rows, and single precision, for the oldest and the newest.
rows="-I.. -DGPUMC_ROWS=\"tests/device_rows.h\""
for arch in $archs; do device gpumc_cuda "$arch" -I.. -DGPUMC_ROWS='"examples/verify_rows.h"'; done
for arch in $(printf '%s\n' "$oldest" "$newest" | sort -u); do device gpumc_cuda "$arch" $rows; done
device gpumc_cuda "$newest" $rows -DGPUMC_REAL=float

# The launches, where there is a GPU: the same program that test_device.sh runs on the CPU.
if nvidia-smi >/dev/null 2>&1; then
    check 'gpumc_cuda.cu for this GPU' nvcc $strict -arch=native $rows -c ../gpumc_cuda.cu -o "$scratch/cuda.o"
    check 'a program with it' sh -c "cc -std=c99 -O1 -DGPUMC_CUDA -c test_hot.c -o $scratch/device.o
        && nvcc $scratch/device.o $scratch/cuda.o -o $scratch/device"
    check 'sums on the GPU' "$scratch/device"
else
    skip 'no GPU: launches of gpumc_cuda.cu'
fi

spills_noticed() { compile leaf "$oldest" -DSPILL && no_spills "$scratch/leaf.$oldest"; }
check_fails 'a kernel that spills must be noticed' spills_noticed

# The whole header in a file that nvcc compiles for the host.
cat >"$scratch/host.cu" <<'C'
#define GPUMC_IMPLEMENTATION
#include "gpumc.h"
int main() { return gpumc_exp(0) != 1; }
C
check 'the implementation through nvcc' \
    nvcc $strict -I.. -arch=sm_"$oldest" "$scratch/host.cu" -o "$scratch/host"
check 'and it runs' "$scratch/host"
finish
